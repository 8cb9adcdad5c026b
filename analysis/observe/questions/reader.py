"""The protocol of readers, which answer questions about images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from analysis.observe.observer import StoredImage
from analysis.questions import ResolvedQuestion


@dataclass(frozen=True)
class Answer:
    """Answer of a reader to a question about an image.

    ``asked`` is the sentence or sentences as they were put, ``answer`` what came, both verbatim; ``reading`` what that
    says, among the question's readings, None where it is undecided; ``score`` the probability of the reading, where the
    reader has one; ``reason`` why it was not asked.
    """

    asked: str
    answer: str | None = None
    reading: str | None = None
    score: float | None = None
    reason: str = ""


class Reader(Protocol):
    """Answers questions about images; the model of an :class:`analysis.observe.observer.ImageObserver`.

    What it takes from the configuration is read when it is made, so that what is missing is said before an image is
    generated. ``name`` is as in ``observe.questions.readers``.
    """

    name: str
    libraries: Sequence[str]
    files: Sequence[Path]

    def identity(self) -> Mapping[str, Any]:
        """All that alters an answer but the questions: weights, form, number format."""

    def load(self, device: Any) -> None:
        """Load the network onto a torch device."""

    def answers(
        self, images: Sequence[StoredImage], questions: Sequence[ResolvedQuestion]
    ) -> list[list[Answer]]:
        """Answers to every question about each image; all images can be read."""
