"""Vocabularies that come with the package: what to look for where nobody says it."""

from __future__ import annotations

import csv
from functools import cache
from importlib.resources import files

EVERYDAY = "everyday"
_CAPTIONS = 10  # about as many as a detector of 256 tokens takes the everyday nouns in


@cache
def everyday() -> tuple[str, ...]:
    """Return the everyday nouns as lemmas, in the order of detection: similar ones stand apart.

    A detector takes as many of them in one caption as its text encoder holds. Of names in one caption that share a word
    ("dress", "cocktail dress") or are of a kind it may score several for one object, which then has no label
    (`analysis.observe.objects.tags.tag_captions.match`); of those in different captions the better one stays. So the
    names of a kind are dealt out over the captions, each to the shortest in which, or beside which, none shares a word.

    Source: ``everyday.csv``: COCO's categories (Lin et al. 2014), the objects that Wu et al. 2025 name, and our own.
    """
    lines = files(__package__).joinpath("everyday.csv").read_text(encoding="utf-8").splitlines()
    dealt: list[list[str]] = [[] for _ in range(_CAPTIONS)]
    words: list[list[str]] = [[] for _ in range(_CAPTIONS)]

    def cost(at: int) -> tuple[int, int, int]:
        """Words shared within the caption, with the ones beside it, which may begin or end in it, and its length."""
        before, within, after = (
            len(set(own).intersection(words[near % _CAPTIONS])) for near in (at - 1, at, at + 1)
        )
        return within, before + after, len(words[at]) + len(dealt[at])

    for row in csv.DictReader(line for line in lines if not line.startswith("#")):
        own = row["noun"].split()
        place = min(range(_CAPTIONS), key=cost)
        dealt[place].append(row["noun"])
        words[place] += own
    return tuple(name for names in dealt for name in names)
