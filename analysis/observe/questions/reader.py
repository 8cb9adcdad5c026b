"""The protocol of readers, which answer questions about images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from analysis.observe.observer import StoredImage
from probes.config.questions import ResolvedQuestion


@dataclass(frozen=True)
class Answer:
    """Answer of a reader to a question about an image.

    Attributes
    ----------
    asked : str
        The sentence or sentences as they were put, verbatim.
    answer : str or None
        Verbatim; None where it was not asked.
    reading : str or None
        What the answer says, among the question's readings; None where it is undecided.
    score : float or None
        The probability of the reading, where the reader has one.
    reason : str
        Why it was not asked; else empty.
    """

    asked: str
    answer: str | None = None
    reading: str | None = None
    score: float | None = None
    reason: str = ""


class Reader(Protocol):
    """Answers questions about images.

    It can be pickled before it is loaded. What it takes from the configuration is read when it is made, so that what is
    missing is said before an image is drawn.

    Attributes
    ----------
    name : str
        As in ``observe.questions.readers``.
    libraries : tuple of str
        Packages whose versions are recorded.
    """

    @property
    def name(self) -> str: ...

    @property
    def libraries(self) -> tuple[str, ...]: ...

    def __str__(self) -> str: ...

    def parameters(self) -> int:
        """Number of parameters of its network, about; 0 where there is none."""
        ...

    def seconds(self, questions: int) -> float:
        """Time that an image takes on one core, about."""
        ...

    def identity(self) -> Mapping[str, Any]:
        """All that alters an answer but the questions: weights, form, number format."""
        ...

    def load(self, device: Any) -> None:
        """Load the network onto a torch device."""
        ...

    def answers(
        self, images: Sequence[StoredImage], questions: Sequence[ResolvedQuestion]
    ) -> list[list[Answer]]:
        """Answers to every question about each image; all images can be read."""
        ...
