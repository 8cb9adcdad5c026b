"""Meanings of the columns of an audit's tables, from ``table_columns.csv`` here."""

from __future__ import annotations

from analysis.tables.spec import Column, described_in

TABLES = {  # by name: one row per
    "pictures": "picture",
    "shares": "model, level of every factor",
    "between": "model and level of the factors but the first",
    "differences": "question, two levels of a factor or two models, and level of the other factors",
    "ranks": "model and level of the factors but the first",
    "agreement": "model, and one of all",
    "confusions": "group of pictures, label and reading of the machine",
    "corrected": "model, level of every factor",
}
FACTOR = "<factor>"  # stands for the columns of the factors


def described(table: str) -> list[Column]:
    """The columns of a table, with their meanings."""
    return [column for tables, column in described_in(__package__, "table_columns.csv") if table in tables]
