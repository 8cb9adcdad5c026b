"""Simulated rates beside the bounds within which they are to lie, as the page on statistics shows them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lab.validate.statistics.simulation import misses
from lab.validate.statistics.word_tests import OTHER_TESTS

Bounds = tuple[float, float]
REJECTION: Bounds = (0.035, 0.065)
COVERAGE: Bounds = (0.93, 0.97)
ANY: Bounds = (0.0, 1.0)
COMPARISON = (
    "Cochran–Mantel–Haenszel, seeds independent",
    *("binomial of pooled images", "chi-square of detections (paper)", "chi-square of presence"),
    *("Student's t", "Student's t on images", "Benjamini–Hochberg of t, any of 30", "against 0, sign flips"),
    "against 3 other words of the reference",
    *("sign flips, of runs without a warning", "the interval leaves out 0, of runs without a warning"),
    *("sign flips, prompts independent", "equivalence at its bound, no reach"),
    *(f"equivalence at its bound, {method}" for method in ("t", "sign_flip", "bootstrap")),
    *(f"mean, {method}" for method in ("percentile", "expanded", "bca", "studentized", "Student's t")),
    *(f"bias score of presence, {method}" for method in ("percentile", "bca")),
    *(f"difference of presence, {method}" for method in ("percentile", "bca")),
    *("bias score of detections, bca", "odds ratio, images independent"),
    *("mean gap, Student's t", "mean gap of all prompts, envelope"),
    *("share, Fieller", "share, bca", "largest, its own interval", "the undecided left out"),
    *("AUC, probes taken as given", "AUC, Nadeau and Bengio's factor", "raw reading"),
    *("one attribute of all words, images independent", "one profession, ten equally likely tones"),
    "all prompts, images and attributes independent",
    *("one object, paired over prompts, mid-p", "20 objects, label swaps of prompts"),
    *(f"{k} against {k}, 3 of the reference, plain gap" for k in (2, 3, 5)),
    *OTHER_TESTS,
)


@dataclass(frozen=True)
class Rates:
    """Rates of tests or intervals in worlds.

    Attributes
    ----------
    table : pandas.DataFrame
        A row for each world and test (`lab.validate.statistics.simulation.COLUMNS`).
    bounds : tuple of float
        Within which they are to lie, both ends included.
    """

    table: pd.DataFrame
    bounds: Bounds

    def only(self, chosen: pd.Series | NDArray[np.bool_]) -> Rates:
        """Return the rates of some rows."""
        return Rates(self.table[chosen], self.bounds)

    def among(self, worlds: str) -> Rates:
        """Return the rates of the worlds whose name holds a text."""
        return self.only(self.table["world"].str.contains(worlds, regex=False))

    def split(self, start: str) -> tuple[Rates, Rates]:
        """Return the rates of the worlds whose name does not begin with a text, and of those whose name does."""
        begins = self.table["world"].str.startswith(start)
        return self.only(~begins), self.only(begins)

    def and_those_of(self, other: Rates) -> Rates:
        """Return both tables as one, within the same bounds."""
        return Rates(pd.concat([self.table, other.table]), self.bounds)

    @property
    def worlds(self) -> list[str]:
        """Names of the worlds in their order."""
        return list(dict.fromkeys(self.table["world"]))

    def rows(self) -> list[tuple[str, bool, list[dict[str, Any] | None]]]:
        """Return a row for each test that the project offers: its name, whether it is exact, a cell for each world."""
        return list(self._rows(compared=False))

    def compared(self) -> list[tuple[str, bool, list[dict[str, Any] | None]]]:
        """Return rows as `rows` does, of the tests that stand here for comparison."""
        return list(self._rows(compared=True))

    def offered(self) -> pd.DataFrame:
        """Return the rows of tests and intervals that the project offers."""
        return self.table[~self.table["test"].isin(COMPARISON)]

    def misses(self) -> list[dict[str, Any]]:
        """Return what misses the bounds, of the tests and intervals that the project offers."""
        missed = misses(self.offered().dropna(subset="rate"), *self.bounds)
        return [
            {"test": row.test, "world": row.world, "rate": row.rate, "error": _error(row)} for row in missed
        ]

    def _rows(self, *, compared: bool) -> Iterator[tuple[str, bool, list[dict[str, Any] | None]]]:
        for test in dict.fromkeys(self.table["test"]):
            if (test in COMPARISON) == compared:
                by_world = self.table[self.table["test"] == test].set_index("world")
                cells = [self._cell(by_world.loc[w]) if w in by_world.index else None for w in self.worlds]
                yield test, bool(by_world["exact"].any()), cells

    def _cell(self, row: pd.Series) -> dict[str, Any]:
        return {
            "rate": row["rate"],
            "error": _error(row),
            "missed": any(True for _ in misses(pd.DataFrame([row]), *self.bounds)),
            "undefined": row["undefined"],
        }


def _error(row: Any) -> float:
    """Return the Monte Carlo standard error of a rate."""
    return np.sqrt(max(row.rate * (1 - row.rate), 1e-12) / row.simulations)
