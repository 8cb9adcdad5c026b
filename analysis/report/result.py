"""A number of a run with all that it rests on, as cards of the run say it."""

from __future__ import annotations

from dataclasses import dataclass

from analysis.report.format import with_interval


@dataclass(frozen=True)
class Result:
    """A difference that a run measured, 0 where there is none, under the heading ``section`` of a card.

    ``method`` is what its interval is of, and over; ``floor``: noise floor and test; ``reader`` and ``error``: what
    read the images, and what is known of its errors on them.
    """

    section: str
    name: str
    value: float
    low: float
    high: float
    method: str
    floor: str
    verdict: str
    reader: str
    error: str

    @property
    def shown(self) -> str:
        """The value with its interval."""
        return with_interval(self.value, self.low, self.high, 3, signed=self.low < 0)
