"""One record a table: what a row is, its columns, what makes it, its sentences, its figure and a paper's tables of it.

A method is a list of these (`MethodSpec`); `analysis.report.section` writes sentences, figures, tables and LaTeX of it.
All texts are Jinja2 templates, in which ``number(x, digits)``, ``interval(low, high, digits)`` and ``p(x)`` write
numbers as a page, LaTeX or plain text has them; what ``raw`` is given is LaTeX already.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, Literal

import pandas as pd

from probes.csv_text import csv_rows

if TYPE_CHECKING:
    from analysis.tables.sharing import Sharing
    from probes.config.schema import Config
    from probes.runs.run import Run

ROWS = "analysis.methods.registry"
TYPES = ("text", "integer", "number", "true/false")
HEAD = ["tables", "column", "type", "unit", "meaning"]


@dataclass(frozen=True)
class Column:
    """A column of a result table: ``type`` is one of `TYPES`; ``unit`` a unit or a range.

    Whole numbers, and true and false, are stored as numbers where one of them is NaN.
    """

    name: str
    type: str
    unit: str
    meaning: str


@cache
def described_in(package: str, name: str = "columns.csv") -> list[tuple[list[str], Column]]:
    """Return the rows of a file of columns in a package: the tables of each (``*``: all there), and the column."""
    (_, head), *rows = csv_rows(Path(str(files(package) / name)))
    if head != HEAD:
        raise ValueError(f"{package}: expected {name} with {HEAD}, got {head}")
    return [(tables.split(), Column(*own)) for _, (tables, *own) in rows]


@dataclass(frozen=True)
class Pivot:
    """A table to be read: rows of a tidy table spread over heads of rows and columns.

    Attributes
    ----------
    rows : str
        Template of the head of a row, from the columns of a tidy row: ``"{{ second }}, {{ setting }}"``.
    cells : mapping of str to str
        Templates of the heads of columns, and of their cells: ``{"{{ attribute }}": "{{ number(difference, 2) }}"}``.
    caption : str
        From the words of the method (`MethodSpec.words`); so is ``note``, which stands under the table.
    latex : str
        File of the LaTeX in ``tables/``, without its ending; none of a table of the page alone. It is a template, too:
        rows for which it gives different names are tables of their own, and ``rows`` in caption and note are theirs.
    title : str
        Heading under which the page folds it; none of a table of a paper alone.
    where : str
        The rows that it is of, as `pandas.DataFrame.query` has them; ``@name`` stands for a word of the method.
    frame : callable, optional
        The rows from all tables (`Measured`), where they are more than the table itself.
    """

    rows: str
    cells: Mapping[str, str]
    caption: str
    latex: str = ""
    title: str = ""
    where: str = ""
    frame: Callable[[Measured], pd.DataFrame] | None = None
    note: str = ""


@dataclass(frozen=True)
class TableSpec:
    """A result table.

    Attributes
    ----------
    name : str
        Of its file in ``tables/``, without its ending.
    rows : str
        What a row is.
    columns : sequence of str or Column
        In order; names are described by ``columns.csv`` beside the method. One that ends in ``_*`` stands for one of
        every indicator, ``*`` for any others.
    make : callable, optional
        Makes the table from what `MethodSpec.inputs` gives, with these columns and any others; None or no rows where
        the run has nothing for it. Without it the table is the one of its name among inputs that are tables by name,
        or written elsewhere.
    sentences : str
        Template of what the report, a card and a notebook say of it; ``rows`` are its rows. An empty line ends a
        paragraph.
    figure : str
        ``module:function``, which draws the one figure from `Measured`, or gives None.
    pivots : sequence of Pivot
    csv : bool
        Whether it is written as CSV as well as Parquet: what grows with the pictures is not.
    optional : tuple of str
        Columns that stand in it in some runs alone.
    stage : {"measure", "report", ""}
        The stage that writes it; empty for a command beside the stages.
    """

    name: str
    rows: str
    columns: Sequence[str | Column]
    make: Callable[[Any], pd.DataFrame | None] | None = None
    sentences: str = ""
    figure: str = ""
    pivots: Sequence[Pivot] = ()
    csv: bool = True
    optional: tuple[str, ...] = ()
    stage: Literal["measure", "report", ""] = "measure"

    @property
    def shown(self) -> bool:
        """Whether a reader is shown anything of it."""
        return bool(self.sentences or self.figure or self.pivots)

    @property
    def latex_files(self) -> list[str]:
        """Names of the files of its LaTeX; ``*`` stands for what depends on its rows."""
        return [
            re.sub(r"{{.*?}}", "*", pivot.latex).replace("**", "*") + ".tex"
            for pivot in self.pivots
            if pivot.latex
        ]

    @cached_property
    def names(self) -> list[str]:
        """Names of its columns, in order."""
        return [one if isinstance(one, str) else one.name for one in self.columns]

    def fits(self, columns: Sequence[str]) -> bool:
        """Return whether a table with these columns is one of this kind.

        >>> table = TableSpec("x", "an image", ("object", "count_*", "n"))
        >>> table.fits(["object", "count_a", "count_b", "n"]), table.fits(["object", "n", "count_a"])
        (True, False)
        >>> TableSpec("x", "an image", ("n",), optional=("reason",)).fits(["n", "reason"])
        True
        """
        expected: list[str] = []
        for name in self.names:
            start = name.removesuffix("*")
            others = [column for column in columns if column.startswith(start) and column not in self.names]
            expected += others if start != name else [name]
        return [name for name in columns if name not in self.optional] == expected


@dataclass(frozen=True)
class MethodSpec:
    """A method: its tables, what they are made from, and what the report says before them.

    Attributes
    ----------
    tables : sequence of TableSpec
    needs : str
        In words what must be there for its tables.
    inputs : callable, optional
        What makes its tables is given, of a run; None of a run that holds nothing of the method. It is given how the
        work is shared and, where objects were looked for, what the toyworld checker sees in the images. Without it a
        command writes the tables.
    require : callable, optional
        Refuses a run that lacks what it measures, before anything is measured.
    alone : callable, optional
        Whether runs of a configuration are of this method alone: then nothing else is measured, and of other runs
        `inputs` is not asked.
    title, anchor : str
        Of its section of the report; without a title it has none.
    intro : str
        Template of what stands first there.
    words : callable, optional
        What templates of the method know beside its tables, from `Measured`.
    lead : callable, optional
        The first screen (`analysis.report.section.Lead`) of a run that was made for the method; None of others.
    """

    tables: Sequence[TableSpec]
    needs: str = ""
    inputs: Callable[[Run, Sharing, Any], Any] | None = None
    require: Callable[[Run], None] | None = None
    alone: Callable[[Config], bool] | None = None
    title: str = ""
    anchor: str = ""
    intro: str = ""
    words: Callable[[Measured], Mapping[str, Any]] | None = None
    lead: Callable[[Measured], Any] | None = None


@dataclass(frozen=True)
class Measured:
    """What measured runs hold of a method: ``tables`` by name, with a column ``model``, of one run or several."""

    method: MethodSpec
    runs: Mapping[str, Run]  # by model
    tables: dict[str, pd.DataFrame]

    @property
    def run(self) -> Run:
        """The run, or the first of several."""
        return next(iter(self.runs.values()))

    @property
    def config(self) -> Config:
        """Its configuration."""
        return self.run.config

    @cached_property
    def words(self) -> dict[str, Any]:
        """What templates know: of the configuration, and what the method adds."""
        config = self.config
        known = {"config": config, "model": config.model_name, "data": config.name, "unit": config.unit}
        known |= {"alpha": config.measure.alpha, "level": config.measure.level, "reference": config.reference}
        return known | dict(self.method.words(self) if self.method.words else {})

    @cached_property
    def lead(self) -> Any:
        """The first screen of the method, whose pictures are read once; None of a run made for something else."""
        return self.method.lead(self) if self.method.lead else None

    def rows(self, name: str, where: str = "") -> pd.DataFrame:
        """Return the rows of a table that a query holds of; none where the runs hold no such table."""
        if (table := self.tables.get(name)) is None:
            spec = next(one for one in self.method.tables if one.name == name)
            table = pd.DataFrame(columns=[*spec.names, "model"])
        return table.query(where, local_dict=dict(self.words)) if where else table


def method_specs() -> list[MethodSpec]:
    """Return what the methods bring into a stage, in the order of their rows."""
    return [resolve_name(row.spec) for row in import_module(ROWS).METHODS if row.spec]
