"""Every table that a run writes stands in the registry with its columns, and every row of the registry is written."""

import re
from pathlib import Path

import pandas as pd
import pytest

from analysis.tables.registry import PAPER, TABLES, groups, write
from lab.pages import tables
from tests.analysis.printed import printed

ROOT = Path(__file__).parents[3]


def test_a_full_run_writes_the_tables_of_the_registry_and_no_others(reported):
    full = list(groups().values())[:3]  # of any run, of objects, and of what else knows them
    by_stages = {table.name for tables in full for table in tables}
    assert set(reported.tables()) == by_stages
    assert {file.stem for file in (reported.path / "tables").glob("*.csv")} == {
        n for n in by_stages if TABLES[n].csv
    }
    for name in by_stages:
        stage = TABLES[name].stage
        assert f"tables/{name}.parquet" in reported.written(stage)


def test_every_latex_file_is_named_by_a_row(reported):
    written = set(printed(reported))
    patterns = {
        name.removesuffix(".tex").replace("*", ".*") for spec in PAPER.tables for name in spec.latex_files
    }
    assert all(any(re.fullmatch(pattern, name) for pattern in patterns) for name in written)
    assert all(any(re.fullmatch(pattern, name) for name in written) for pattern in patterns)


def test_another_table_is_not_written(reported):
    before = reported.tables()
    with pytest.raises(ValueError, match="expected a table of the registry, got 'gaps'"):
        write(reported, "gaps", pd.DataFrame())
    with pytest.raises(
        ValueError, match=r"timesteps: expected the columns step, timestep, got timestep, step"
    ):
        write(reported, "timesteps", pd.DataFrame(columns=["timestep", "step"]))
    assert reported.tables() == before


def test_the_page_of_the_docs_is_that_of_the_registry():
    text = (ROOT / "docs" / "reference" / "tables.md").read_text(encoding="utf-8")
    assert text == tables.page(), "run: python -m lab.pages.tables > docs/reference/tables.md"
    stored = text.partition("\n## Of `triptych audit`\n")[0]
    assert sorted(re.findall(r"^### `(\w+)`", stored, re.M)) == sorted(TABLES)
