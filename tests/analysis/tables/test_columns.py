"""Every column of every result table is described, and holds what its description says."""

import csv
from pathlib import Path

import pytest

from analysis.tables.registry import TABLES, columns_of
from analysis.tables.spec import HEAD, TYPES
from tests.analysis.tables.columns_held import misdescribed, outside

ROOT = Path(__file__).parents[3]
FILES = sorted(ROOT.glob("analysis/**/columns.csv"))


@pytest.mark.parametrize("name", list(TABLES))
def test_every_column_has_a_type_and_a_sentence(name):
    row, found = TABLES[name], columns_of(name)
    assert [column.name for column in found] == [
        *row.names,
        *(one for one in row.optional if one not in row.names),
    ]
    for column in found:
        assert column.type in TYPES and column.meaning.endswith("."), column
        assert column.meaning[0] == "`" or column.meaning[0].isupper() or column.meaning[0] in "1δp", column


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.parent.name)
def test_no_description_is_of_a_column_that_is_not_there(path):
    with path.open(encoding="utf-8", newline="") as file:
        head, *rows = csv.reader(file)
    assert head == HEAD
    keys = [(table, row[1]) for row in rows for table in row[0].split()]
    assert len(keys) == len(set(keys))
    of_folder = (
        [name for name in TABLES if name in {table for table, _ in keys}]
        if path.parent.name == "tables"
        else list(TABLES)
    )
    there = {name: (*TABLES[name].names, *TABLES[name].optional) for name in TABLES}
    for table, column in keys:
        names = of_folder if table == "*" else [table]
        assert any(column in there[name] for name in names), (table, column)


def test_columns_hold_what_their_description_says(reported):
    wrong, seen = misdescribed(reported)
    assert wrong == [] and len(seen) > 150


def test_columns_of_an_audit_of_professions_hold_what_their_description_says(audit):
    wrong, seen = misdescribed(audit)
    assert wrong == [] and len({column for table, column in seen if table.startswith("dalleval_")}) > 30


def test_every_estimate_lies_in_its_interval(reported, audit):
    for one, number in ((reported, 10), (audit, 4)):
        wrong, seen = outside(one)
        assert wrong == [] and len(seen) > number, seen
