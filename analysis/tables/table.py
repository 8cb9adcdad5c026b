"""Description of a result table: a row of `analysis.tables.registry`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Latex:
    """LaTeX form of a table; ``{data}`` and ``{model}`` stand for the name and the model of the run.

    ``name`` is of the file, without its ending, with places in braces where there is one of every contrast.
    """

    name: str
    label: str
    caption: str
    note: str = ""


@dataclass(frozen=True)
class Table:
    """A result table.

    Attributes
    ----------
    name : str
        Of its file in ``tables/``, without its ending.
    needs : str
        What must be there for it, one of `NEEDS` or of what a method says it needs.
    rows : str
        What a row is.
    columns : tuple of str
        Their names in order; one that ends in ``_*`` stands for one of every indicator, ``*`` for any others.
    stage : {"measure", "report", ""}
        The stage that writes it; empty for a command beside the stages.
    csv : bool
        Whether it is written as CSV as well as Parquet: what grows with the pictures is not.
    latex : Latex, optional
    optional : tuple of str
        Names of columns that stand in it in some runs alone: where they were asked for, or a number is open.
    printed : tuple of Latex
        Further ones, where a paper shows the same numbers in several tables.
    latex_alone : Latex, optional
        In its place where the run has one prompt; ``{seeds}`` and ``{prompt}`` stand for its seeds and its prompt.
    """

    name: str
    needs: str
    rows: str
    columns: tuple[str, ...]
    stage: Literal["measure", "report", ""] = "measure"
    csv: bool = True
    latex: Latex | None = None
    optional: tuple[str, ...] = ()
    printed: tuple[Latex, ...] = ()
    latex_alone: Latex | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Names of its columns, in order."""
        return self.columns

    def fits(self, columns: Sequence[str]) -> bool:
        """Return whether a table with these columns is one of this kind.

        >>> table = Table("x", "samples", "an image", ("object", "count_*", "n"))
        >>> table.fits(["object", "count_a", "count_b", "n"]), table.fits(["object", "n", "count_a"])
        (True, False)
        >>> Table("x", "samples", "an image", ("n",), optional=("reason",)).fits(["n", "reason"])
        True
        """
        expected: list[str] = []
        for name in self.columns:
            start = name.removesuffix("*")
            others = [own for own in columns if own.startswith(start) and own not in self.columns]
            expected += others if start != name else [name]
        return [name for name in columns if name not in self.optional] == expected
