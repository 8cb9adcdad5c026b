"""Agreement of printed and recomputed numbers, cell by cell and for a whole table."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

_SLACK = 1e-9  # printed decimals have no exact float


def printed_agreement(printed: float, recomputed: float, decimals: int) -> str:
    """Say how a printed number with so many decimals follows from the recomputed one.

    ``rounded`` if rounding gives it (half a unit may go either way), ``cut`` if dropping the further decimals gives it,
    ``no`` otherwise.
    """
    unit = 10.0**-decimals
    if abs(printed - recomputed) <= unit / 2 + _SLACK:
        return "rounded"
    if abs(printed) <= abs(recomputed) + _SLACK and abs(printed - recomputed) < unit - _SLACK:
        return "cut"
    return "no"


@dataclass(frozen=True)
class PrintedCell:
    """One printed number beside the recomputed one."""

    name: str
    printed: float
    recomputed: float
    decimals: int

    @property
    def agrees(self) -> str:
        """``rounded``, ``cut`` or ``no``."""
        return printed_agreement(self.printed, self.recomputed, self.decimals)


@dataclass(frozen=True)
class PrintedTable:
    """Cells of a printed table beside the recomputed ones, and the equation that gives them."""

    quantity: str
    table: str
    equation: str
    cells: tuple[PrintedCell, ...]

    @property
    def counts(self) -> Counter[str]:
        """How many cells are ``rounded``, ``cut`` or ``no``."""
        return Counter(cell.agrees for cell in self.cells)

    @property
    def disagreeing(self) -> list[PrintedCell]:
        """Cells that neither rounding nor cutting gives."""
        return [cell for cell in self.cells if cell.agrees == "no"]

    @property
    def largest(self) -> float:
        """Largest absolute difference."""
        return max(abs(cell.printed - cell.recomputed) for cell in self.cells)


def compared(
    quantity: str, table: str, equation: str, decimals: int, cells: Iterable[tuple[Any, float, float]]
) -> PrintedTable:
    """Collect (name or tuple of names, printed, recomputed); cells without a printed number are left out."""
    found = tuple(
        PrintedCell(
            name if isinstance(name, str) else ", ".join(map(str, name)), printed, recomputed, decimals
        )
        for name, printed, recomputed in cells
        if not math.isnan(printed)
    )
    return PrintedTable(quantity, table, equation, found)


def paired(printed: pd.Series, recomputed: pd.Series) -> list[tuple[Any, float, float]]:
    """Cells of a printed column and a recomputed one, by the printed one's index."""
    return list(zip(printed.index, printed, recomputed.loc[printed.index]))


@dataclass(frozen=True)
class Paper:
    """What the page says of one paper: its printed tables, and the values that its findings name."""

    title: str
    tables: Sequence[PrintedTable]
    found: Mapping[str, Any]

    @property
    def short(self) -> str:
        """The first word of the title."""
        return self.title.partition(" ")[0]

    @property
    def counts(self) -> Counter[str]:
        """`PrintedTable.counts` of all tables together."""
        return sum((table.counts for table in self.tables), Counter())
