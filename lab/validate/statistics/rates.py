"""Simulated rates beside the bounds within which they are to lie, as the page on statistics shows them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from lab.validate.statistics.simulation import misses

Bounds = tuple[float, float]
REJECTION: Bounds = (0.035, 0.065)
COVERAGE: Bounds = (0.93, 0.97)
ANY: Bounds = (0.0, 1.0)


@dataclass(frozen=True)
class Rates:
    """Rates of tests or intervals in worlds (`simulation.COLUMNS`), and the bounds within which they are to lie."""

    table: pd.DataFrame
    bounds: Bounds

    @property
    def worlds(self) -> list[str]:
        """Names of the worlds in their order."""
        return list(dict.fromkeys(self.table["world"]))

    @property
    def bounded(self) -> bool:
        """Whether the rates are to lie within bounds; of power a high number is good."""
        return self.bounds != ANY

    @property
    def covers(self) -> bool:
        """Whether the rates are of intervals, whose worst is the lowest; of tests it is the highest."""
        return self.bounds[1] > 0.5

    def rows(self) -> list[tuple[str, bool, list[dict[str, Any] | None]]]:
        """Return a row for each test: its name, whether it is exact, a cell for each world."""
        found = []
        for test, of_test in self.table.groupby("test", sort=False):
            by_world = of_test.set_index("world")
            cells = [self._cell(by_world.loc[[w]]) if w in by_world.index else None for w in self.worlds]
            found.append((test, bool(of_test["exact"].any()), cells))
        return found

    def summaries(self) -> list[dict[str, Any]]:
        """Return of each test its lowest and highest rate, its worst world and what misses."""
        found = []
        for test, of_test in self.table.groupby("test", sort=False):
            known = of_test.dropna(subset="rate")
            cells = [self._cell(known.iloc[[number]]) for number in range(len(known))]
            ordered = sorted(cells, key=lambda cell: cell["rate"])
            worst = ordered[0 if self.covers else -1]
            others = [cell for cell in cells if cell["missed"] and cell is not worst]
            found.append(
                {"test": test, "exact": bool(of_test["exact"].any()), "lowest": ordered[0], "worst": worst}
                | {"highest": ordered[-1], "others": others}
            )
        return found

    def _cell(self, of_world: pd.DataFrame) -> dict[str, Any]:
        (row,) = of_world.reset_index().to_dict("records")
        return {
            "world": row["world"],
            "rate": row["rate"],
            "error": np.sqrt(max(row["rate"] * (1 - row["rate"]), 1e-12) / row["simulations"]),
            "missed": any(True for _ in misses(of_world, *self.bounds)),
        }
