"""Pictures that images start from (``generate.from_images``): their files, digests, and pixels at an image's size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from PIL import Image, ImageOps

from probes.config.schema import Config
from probes.errors import UserError
from probes.models import requirements
from probes.prompts.prompt import PICTURE
from probes.prompts.sample import Sample
from probes.runs.images import read_image


def picture_digests(config: Config) -> dict[str, str]:
    """Return the SHA-256 (16 digits) of each picture that a run starts from, by name; UserError for one unreadable."""
    files = dict(_picture_file(config, index) for index in range(len(config.prompts[: config.limit])))
    return {
        name: _digest(file, file.stat().st_mtime_ns if file.exists() else 0)
        for name, file in sorted(files.items())
    }


def picture_arguments(
    pipe: Any, config: Config, samples: Sequence[Sample], digests: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return the arguments ``image`` and ``strength`` of the call that generates `samples`; none without pictures.

    A picture is scaled until it covers the image, and cut to it around its middle. UserError if one is not that of
    `digests`.
    """
    if config.generate.from_images is None:
        return {}
    height, width = requirements.image_size(pipe, config)
    pictures: dict[int, Image.Image] = {}
    for index in dict.fromkeys(sample.triplet for sample in samples):
        name, file = _picture_file(config, index)
        digest, picture = _read(file)
        if digests and digests.get(name) != digest:
            raise _error(file, "the picture that the run began with", "another", "put it back")
        pictures[index] = ImageOps.fit(picture, (width, height), Image.Resampling.LANCZOS)
    images = [pictures[sample.triplet] for sample in samples]
    return {"image": images, "strength": config.generate.strength}


def _picture_file(config: Config, index: int) -> tuple[str, Path]:
    """Return the name and the file of the picture that the images of prompt number `index` start from."""
    path = Path(config.generate.from_images or "")
    name = config.prompts[index].levels.get(PICTURE)
    return (PICTURE, path) if name is None else (name, path / name)


@cache
def _digest(file: Path, changed: int) -> str:
    """Return the digest of a picture's file that was `changed` at a time; a plan and a run ask for it twice."""
    return _read(file)[0]


def _read(file: Path) -> tuple[str, Image.Image]:
    """Return the digest of a picture's file, and its pixels in RGB; UserError if it cannot be read."""
    try:
        data = file.read_bytes()
        return sha256(data).hexdigest()[:16], read_image(data)
    except FileNotFoundError:
        raise _error(file, "a picture", "no file", "check the path") from None
    except (OSError, ValueError) as error:
        raise _error(
            file, "a picture", f"`{getattr(error, 'strerror', None) or error}`", "replace it"
        ) from None


def _error(file: Path, expected: str, got: str, remedy: str) -> UserError:
    """Return the error for the file of a picture."""
    return UserError(f"generate.from_images: {file}: expected {expected}, got {got}: {remedy}")
