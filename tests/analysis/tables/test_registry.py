"""Every table that a run writes stands in the registry with its columns, and every row of the registry is written."""

import importlib
import re
from pathlib import Path

import pandas as pd
import pytest

from analysis.report.latex import documents
from analysis.report.page import report
from analysis.tables.columns import columns_of
from analysis.tables.registry import TABLES, needs, write
from analysis.tables.stage import measure
from lab.pages import tables
from probes.runs import folders
from probes.runs.store import Run
from tests.analysis.object_parts import add_objects
from tests.analysis.synthetic_run import configure, write_run
from tests.remembered import leave_figures_out

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run that was measured and reported, with objects of another detector than the checker."""
    path = write_run(tmp_path_factory.mktemp("runs") / "run", prompts=4, seeds=1, steps=2)
    add_objects(path)
    run = Run.open(path)
    configure(run, measure={"bootstrap": 20, "permutations": 16}, report={"gallery": 1})
    measure(run)
    with pytest.MonkeyPatch.context() as monkeypatch:
        leave_figures_out(monkeypatch)
        report(run)
    return run


def test_a_full_run_writes_the_tables_of_the_registry_and_no_others(run):
    by_stages = {
        name
        for name, table in TABLES.items()
        if table.stage
        and table.needs
        not in (
            "images",
            "audit",
            "trace",
            "professions",
            "skills",
            "unfinished",
            "levels",
            "templates",
            "stopping",
        )
    }
    assert set(run.tables()) == by_stages
    assert {file.stem for file in (run.path / "tables").glob("*.csv")} == {
        n for n in by_stages if TABLES[n].csv
    }
    for name in by_stages:
        stage = TABLES[name].stage
        assert f"tables/{name}.parquet" in run.written(stage)


def test_every_table_has_exactly_the_columns_of_its_row(run):
    for name in run.tables():
        columns = list(run.table(name).columns)
        expected = [n for n in TABLES[name].columns if not n.endswith("*")]
        assert [n for n in columns if n in expected] == expected, name
        rest = [n for n in columns if n not in {*expected, *TABLES[name].optional}]
        assert rest == ([f"count_{n}" for n in ("neutral", "feminine", "masculine")] if rest else []), name
        assert bool(rest) == any(n.endswith("*") for n in TABLES[name].columns), name


def test_every_latex_file_is_named_by_a_row(run):
    written = {name for name, _ in documents(run)}
    patterns = {re.sub(r"{[^}]*}", ".+", table.latex.name) for table in TABLES.values() if table.latex}
    assert all(any(re.fullmatch(pattern, name) for pattern in patterns) for name in written)
    assert all(any(re.fullmatch(pattern, name) for name in written) for pattern in patterns)


def test_another_table_is_not_written(run):
    before = run.tables()
    with pytest.raises(ValueError, match="expected a table of the registry, got 'gaps'"):
        write(run, "gaps", pd.DataFrame())
    with pytest.raises(
        ValueError, match=r"timesteps: expected the columns step, timestep, got timestep, step"
    ):
        write(run, "timesteps", pd.DataFrame(columns=["timestep", "step"]))
    assert run.tables() == before


def test_tables_beside_the_stages_go_with_their_run():
    beside = {
        f"tables/{name}.{end}" for name in TABLES for end in ("csv", "parquet") if not TABLES[name].stage
    }
    assert beside == set(folders._BESIDE)


def test_rows_name_functions_that_are_there():
    for table in TABLES.values():
        module, _, name = table.maker.rpartition(".")
        assert callable(getattr(importlib.import_module(module), name)), table.name
        assert table.needs in needs() and not table.rows.endswith(".")


def test_the_page_of_the_docs_is_that_of_the_registry():
    text = (ROOT / "docs" / "reference" / "tables.md").read_text(encoding="utf-8")
    assert text == tables.page(), "run: python -m lab.pages.tables > docs/reference/tables.md"
    stored = text.partition("\n## Of `triptych audit`\n")[0]
    assert sorted(re.findall(r"^### `(\w+)`", stored, re.M)) == sorted(TABLES)


def test_the_page_of_the_docs_describes_every_column_at_its_table_or_at_the_head():
    of_runs = tables.page().partition("\n## Of `triptych audit`\n")[0]
    head, *rest = re.split(r"^### ", of_runs, flags=re.M)
    sections = {name: text for _, name, text in (one.split("`", 2) for one in rest)}
    described = re.compile(r"^- ((?:`[^`]+`(?:, )?)+) \([^)]+\): .", re.M)
    shared = " ".join(described.findall(head))
    for name in TABLES:
        text = sections[name].partition("\n## ")[0]
        own, others = " ".join(described.findall(text)), text.partition("hared: ")[2]
        for column in columns_of(name):
            one = f"`{column.name}`"
            assert (one in own) != (one in others) and (one in own or one in shared), (name, column.name)
