"""Tags to look for in an image, each with the source it came from."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Collection, Sequence
from functools import lru_cache
from importlib.resources import files
from pathlib import Path

import numpy as np

from analysis.observe.checkpoints import TOYWORLD
from probes.errors import UserError
from probes.paths import expand, require_regular
from probes.prompts.grammar.nouns import nouns

EVERYDAY = (
    "everyday"  # COCO's categories (Lin et al. 2014), the objects that Wu et al. 2025 name, and our own
)

# images, and of each its prompt and the others of its triplet, to one dict an image: tag to source, in the order they
# are looked for
Prompts = Sequence[tuple[str, ...]]
Tags = Callable[[Sequence[np.ndarray], Prompts], list[dict[str, str]]]


def normal(text: str) -> str:
    """Return a tag in its normal form: lower case, single spaces, without ``.`` and ``?``, which end a tag.

    >>> normal("  St. Bernard ")
    'st bernard'
    """
    return " ".join(re.sub(r"[.?]", " ", text.lower()).split())


def fixed(tags: Sequence[str], source: str) -> Tags:
    """The same tags for every image."""
    return lambda images, prompts: [dict.fromkeys(tags, source) for _ in images]


def prompt_nouns(*, backend: str, compounds: bool, indicators: Collection[str] = ()) -> Tags:
    """Return the nouns of each image's prompt, then those of its triplet's others, as lemmas.

    So all images of a triplet are searched for the same things, also where captions that were written freely name
    different ones: what is not looked for is not seen, and would be missing of one indicator alone. The words of the
    indicators are looked for in the images of their own prompts alone: a box has one label, and a figure that is found
    as *man* is no longer found as the *person* that the prompt names.
    """

    @lru_cache(maxsize=4096)
    def lemmas(text: str) -> tuple[str, ...]:
        found = (normal(noun.lemma) for noun in nouns(text, backend=backend, compounds=compounds))
        return tuple(filter(None, found))

    people = {lemma for word in indicators for lemma in (normal(word), *lemmas(f"a {word}"))}

    def tags(images: Sequence[np.ndarray], prompts: Prompts) -> list[dict[str, str]]:
        named = []
        for own, *others in prompts:
            more = (lemma for text in others for lemma in lemmas(text) if lemma not in people)
            named.append(dict.fromkeys([*lemmas(own), *more], "prompt"))
        return named

    return tags


def combined(sources: Sequence[Tags]) -> Tags:
    """The tags of several sources; one that several give has the first of them as its source."""

    def tags(images: Sequence[np.ndarray], prompts: Prompts) -> list[dict[str, str]]:
        merged: list[dict[str, str]] = [{} for _ in images]
        for source in sources:
            for image_tags, more in zip(merged, source(images, prompts)):
                image_tags |= {tag: kind for tag, kind in more.items() if tag not in image_tags}
        return merged

    return tags


def read_lines(path: Path, field: str) -> list[str]:
    """The lines of a text file that a field names."""
    try:
        return require_regular(path, field).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        raise UserError(f"{field}: {path}: no such file: check the path") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{field}: {path}: expected a text file in UTF-8, got {error}") from None


def read_vocabulary(path: str | Path) -> list[str]:
    """Read a vocabulary: a text file with a tag a line, or one that comes with the package.

    ``everyday`` is that of everyday nouns, ``toyworld`` everything there is in the toy world.
    """
    if path == EVERYDAY:
        lines = files(__package__).joinpath("everyday.csv").read_text(encoding="utf-8").splitlines()
        return [row["noun"] for row in csv.DictReader(line for line in lines if not line.startswith("#"))]
    if path == TOYWORLD:
        from probes.toyworld.checker import TAGS

        return list(TAGS)
    path = expand(path, "observe.vocabulary")
    place = f"observe.vocabulary: {path}"
    lines = read_lines(path, "observe.vocabulary")
    if not lines:
        raise UserError(f"{place}: expected a tag a line, found none: write some")
    first: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        tag = normal(line)
        if not tag:
            raise UserError(f"{place}: line {number}: expected a tag, got {line!r}: take the line out")
        if tag in first:
            raise UserError(f"{place}: line {number}: `{tag}` stands on line {first[tag]} too: keep one")
        first[tag] = number
    return list(first)
