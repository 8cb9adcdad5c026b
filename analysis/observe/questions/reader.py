"""Readers, which answer questions about images."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from analysis.observe.observer import ImageModel, StoredImage
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


class Reader(ImageModel):
    """Answers questions about images.

    What it takes from the configuration is read when it is made, so that what is missing is said before an image is
    generated. ``name`` is as in ``observe.questions.readers``.
    """

    name: str

    @abstractmethod
    def answers(
        self, images: Sequence[StoredImage], questions: Sequence[ResolvedQuestion]
    ) -> list[list[Answer]]:
        """Answers to every question about each image; there is one at least, and all can be read."""
