"""Prompts of images that start from pictures of a folder: the level `picture` of each names a file in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from probes.fields.types import fail
from probes.prompts.prompt import PICTURE, Prompt

ENDINGS = (".avif", ".bmp", ".gif", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp")
_FROM = ("generate", "from_images")


def add_pictures(prompts: Sequence[Prompt], path: Path) -> list[Prompt]:
    """Return the prompts of a run that starts from a picture, or a folder of pictures, at `path`.

    Of a folder it is each prompt with each picture, unless the prompts name their pictures. Raises an error if only
    some do, or if there are none to name.
    """
    named = [PICTURE in prompt.levels for prompt in prompts]
    if any(named) and path.is_file():
        raise fail(
            f"expected a folder, whose files prompts name by level `{PICTURE}`, got a file: name it", at=_FROM
        )
    if any(named) and not all(named):
        at = ("prompts", named.index(False))
        raise fail(f"expected a level `{PICTURE}` in every prompt or in none, got none here: add it", at=at)
    if all(named) or not path.is_dir():
        return [*prompts]
    files = (file.name for file in path.iterdir() if not file.name.startswith("."))
    names = sorted(name for name in files if name.lower().endswith(ENDINGS))
    if not names:
        raise fail(
            f"expected files that end in one of {', '.join(ENDINGS)}, got none in {path}: add some", at=_FROM
        )
    return [
        replace(prompt, id=f"{prompt.name(index)[:90]}-{number:03d}", levels={PICTURE: name, **prompt.levels})
        for number, name in enumerate(names)
        for index, prompt in enumerate(prompts)
    ]
