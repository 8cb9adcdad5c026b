"""Meaning, unit and type of every column of the result tables, from ``columns.csv`` here and beside each method.

A row of such a file names the tables that it is of, or ``*`` for all tables of its folder; what a table has of its own
goes before that.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from pkgutil import resolve_name

from analysis.tables.method import ROWS
from analysis.tables.registry import TABLES
from probes.csv_text import csv_rows

TYPES = ("text", "integer", "number", "true/false")
HEAD = ["tables", "column", "type", "unit", "meaning"]
_EVERY = "*"


@dataclass(frozen=True)
class Column:
    """A column of a result table: one of `TYPES`, its unit or range, and its meaning in a sentence or two.

    Whole numbers, and true and false, are stored as numbers where one of them is NaN.
    """

    name: str
    type: str
    unit: str
    meaning: str


def columns_of(table: str) -> list[Column]:
    """Return what every column of a table holds, in their order, those of some runs alone at the end."""
    row, said = TABLES[table], _said(_folder(table))
    names = [*row.columns, *(name for name in row.optional if name not in row.columns)]
    return [said[table, name] if (table, name) in said else said[_EVERY, name] for name in names]


def _folder(table: str) -> str:
    """The package whose file describes a table: that of its method, or this one."""
    for method in import_module(ROWS).METHODS:
        if method.measured and any(row.name == table for row in resolve_name(method.measured).tables):
            return method.measured.partition(":")[0].rpartition(".")[0]
    return __package__


def _said(folder: str) -> dict[tuple[str, str], Column]:
    rows = described_in(folder, "columns.csv")
    return {(table, column.name): column for tables, column in rows for table in tables}


@cache
def described_in(folder: str, name: str) -> list[tuple[list[str], Column]]:
    """Return the rows of a file of columns in a package: the tables that each is of, and the column."""
    (_, head), *rows = csv_rows(Path(str(files(folder) / name)))
    if head != HEAD:
        raise ValueError(f"{folder}: expected {name} with {HEAD}, got {head}")
    return [(tables.split(), Column(*own)) for _, (tables, *own) in rows]
