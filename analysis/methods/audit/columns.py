"""Meanings of the columns of an audit's tables, from ``table_columns.csv`` here."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from pathlib import Path

from analysis.tables.columns import HEAD, Column
from probes.csv_text import csv_rows

TABLES = {  # by name: one row per
    "pictures": "picture",
    "shares": "model, level of every factor",
    "between": "model and level of the factors but the first",
    "contrasts": "model, level of a factor but its first, and level of the other factors",
    "models": "two models and level of every factor",
    "ranks": "model and level of the factors but the first",
    "agreement": "model, and one of all",
    "confusions": "group of pictures, label and reading of the machine",
    "corrected": "model, level of every factor",
}
FACTOR = "<factor>"  # stands for the columns of the factors


def described(table: str) -> list[Column]:
    """The columns of a table, with their meanings."""
    if table not in TABLES:
        raise KeyError(table)
    return [column for tables, column in _rows() if table in tables]


@cache
def _rows() -> list[tuple[list[str], Column]]:
    path = Path(str(files(__package__) / "table_columns.csv"))
    (_, head), *rows = csv_rows(path)
    if head != HEAD:
        raise ValueError(f"{path}: expected {HEAD}, got {head}")
    return [(tables.split(), Column(*own)) for _, (tables, *own) in rows]
