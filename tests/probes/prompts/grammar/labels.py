"""Captions whose nouns are marked by hand, and scores against them.

`labelled_captions.txt` holds them; its head says who labelled them and by which rules.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

LABELS = Path(__file__).with_name("labelled_captions.txt")
STYLES = ("coco", "flickr", "textcaps", "conceptual", "profession")
_MARK = re.compile(r"\[([^\]|]+)(?:\|([^\]]+))?\]")

Span = tuple[int, int, str]  # characters, half open, and lemma


@dataclass(frozen=True)
class Labelled:
    """A caption and its nouns: (start, end, lemma), in order."""

    style: str
    text: str
    nouns: tuple[Span, ...]


@dataclass(frozen=True)
class Score:
    """Nouns that a backend read against those marked; a noun is right with its characters and its lemma."""

    labelled: int
    read: int
    right: int
    captions: int
    identical: int

    @property
    def precision(self) -> float:
        """Right nouns among those read."""
        return self.right / self.read

    @property
    def recall(self) -> float:
        """Right nouns among those marked."""
        return self.right / self.labelled

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall."""
        return 2 * self.right / (self.labelled + self.read)


def parse(style: str, marked: str) -> Labelled:
    """Return a caption without its marks, and the nouns that they name."""
    text, nouns, place = "", [], 0
    for match in _MARK.finditer(marked):
        text += marked[place : match.start()]
        nouns.append((len(text), len(text) + len(match[1]), match[2] or match[1].lower()))
        text, place = text + match[1], match.end()
    return Labelled(style, text + marked[place:], tuple(nouns))


def is_held_out(text: str) -> bool:
    """Say whether a caption is held out: by the parity of its SHA-256, fixed before any backend was run."""
    return hashlib.sha256(text.encode()).digest()[0] % 2 == 1


def labelled_captions(half: str = "both") -> list[Labelled]:
    """Return the captions of one half (``tuning``, ``held out``) or of both."""
    lines = (line for line in LABELS.read_text(encoding="utf-8").splitlines() if line and line[0] != "#")
    captions = [parse(*line.split("\t")) for line in lines]
    if half == "both":
        return captions
    return [caption for caption in captions if is_held_out(caption.text) == (half == "held out")]


def score(captions: Iterable[Labelled], read: Callable[[str], Iterable[Span]]) -> Score:
    """Return the counts of a backend that reads (start, end, lemma) of every noun of a text."""
    labelled = found = right = number = identical = 0
    for caption in captions:
        nouns, marked = set(read(caption.text)), set(caption.nouns)
        labelled, found, right = labelled + len(marked), found + len(nouns), right + len(nouns & marked)
        number, identical = number + 1, identical + (nouns == marked)
    return Score(labelled, found, right, number, identical)
