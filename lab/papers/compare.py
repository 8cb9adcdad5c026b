"""Agreement of printed and recomputed numbers, one by one and for a whole table."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

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
class PrintedNumber:
    """One printed number beside the recomputed one: its quantity, table, and equation."""

    quantity: str
    table: str
    equation: str
    printed: float
    recomputed: float
    decimals: int
    note: str = ""

    @property
    def agrees(self) -> str:
        """``rounded``, ``cut`` or ``no``."""
        return printed_agreement(self.printed, self.recomputed, self.decimals)


@dataclass(frozen=True)
class PrintedTable:
    """All cells of a printed table beside the recomputed ones."""

    quantity: str
    table: str
    equation: str
    rows: tuple[PrintedNumber, ...]
    note: str = ""

    @property
    def rounded(self) -> int:
        """Cells that rounding gives."""
        return sum(row.agrees == "rounded" for row in self.rows)

    @property
    def cut(self) -> int:
        """Cells that cutting gives but rounding does not."""
        return sum(row.agrees == "cut" for row in self.rows)

    @property
    def disagreeing(self) -> list[PrintedNumber]:
        """Cells that neither gives."""
        return [row for row in self.rows if row.agrees == "no"]

    @property
    def largest(self) -> float:
        """Largest absolute difference."""
        return max(abs(row.printed - row.recomputed) for row in self.rows)


def family(
    quantity: str,
    table: str,
    equation: str,
    cells: Iterable[tuple[str, float, float]],
    decimals: int,
    note: str = "",
) -> PrintedTable:
    """Collect (name, printed, recomputed) cells; those without a printed number are left out."""
    rows = tuple(
        PrintedNumber(name, table, equation, printed, recomputed, decimals)
        for name, printed, recomputed in cells
        if not math.isnan(printed)
    )
    return PrintedTable(quantity, table, equation, rows, note)


@dataclass(frozen=True)
class PaperSection:
    """Section of the page on one paper.

    ``blocks`` (heading, text, table or None) are tables of another form, such as noise floors; ``findings`` where
    printed and recomputed numbers part, and what the floors say; ``not_recomputed`` tables with the reason.
    """

    title: str
    intro: str
    rows: Sequence[PrintedNumber]
    families: Sequence[PrintedTable]
    blocks: Sequence[tuple[str, str, pd.DataFrame | None]] = ()
    findings: Sequence[str] = ()
    not_recomputed: Sequence[tuple[str, str]] = field(default=())

    @property
    def agreements(self) -> list[str]:
        """`PrintedNumber.agrees` of all numbers of the section."""
        return [row.agrees for rows in (self.rows, *(each.rows for each in self.families)) for row in rows]


def number(value: float, decimals: int = 4) -> str:
    """Write a number for the page; a dash for NaN, no minus before a zero."""
    if math.isnan(value):
        return "—"
    text = f"{value:.{decimals}f}"
    return text.lstrip("-") if float(text) == 0 else text


def p_text(value: float) -> str:
    """Write a p-value for the page.

    >>> p_text(0.7038), p_text(3e-6), p_text(float("nan"))
    ('0.704', '< 0.0001', '—')
    """
    if math.isnan(value):
        return "—"
    if value < 1e-4:
        return "< 0.0001"
    return f"{value:.4f}" if value < 0.01 else f"{value:.3f}"
