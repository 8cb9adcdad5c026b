"""The command that holds the tool against the benchmark models."""

import json
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from analysis.tables.stage import measure
from lab.validate.models.calibrate import KEYS, PAGE, main, page, replaced
from probes.runs.run import Run
from tests.analysis.synthetic_run import NINE, configure, write_run


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A measured run of the null world."""
    run = Run.open(write_run(tmp_path_factory.mktemp("model") / "run", prompts=4, steps=2, indicators=NINE))
    measure(configure(run, model="toyworld-null", measure={"bootstrap": 20, "permutations": 20}))
    return run.path


@pytest.mark.parametrize(
    ("table", "column", "value", "said"),
    [
        ("word_gap", "n_references", "three", "expected numbers in the column `n_references`, found string"),
        ("gap", "contrast", 1, "expected text in the column `contrast`, found int64"),
        ("word_gap", "p_control", 7.0, "expected numbers from 0 to 1 in the column `p_control`, found 7.0"),
        ("word_gap", "p_control", None, ""),
    ],
)
def test_columns_of_another_kind_are_one_clear_line(table, column, value, said, model, tmp_path, capsys):
    shutil.copytree(model, tmp_path / "run")
    file = tmp_path / "run" / "tables" / f"{table}.parquet"
    stored = pq.read_table(file)
    place = stored.column_names.index(column)
    pq.write_table(stored.set_column(place, column, pa.array([value] * len(stored))), file)
    status = main(["--repeated", str(tmp_path / "run"), "--out", str(tmp_path / "page.md")])
    error = capsys.readouterr().err
    assert (status, error.count("\n"), (tmp_path / "page.md").exists()) == (
        (2, 1, False) if said else (0, 0, True)
    )
    assert error.startswith(f"{file}: {said}" if said else "")


def test_the_page_is_that_of_the_stored_numbers():
    stored = json.loads(PAGE.with_suffix(".json").read_text("utf-8"))
    assert PAGE.read_text("utf-8") == page(stored)
    found = dict.fromkeys(KEYS, ()) | {"gaps": [stored["gaps"][1] | {"gap": 0.9876}]}
    changed = replaced(stored, found)
    assert [len(rows) for rows in changed.values()] == [len(rows) for rows in stored.values()]
    assert "| 0.9876 |" in page(changed) and "0.9876" not in page(stored)


def test_a_null_run_gives_gaps_and_rejections(model, tmp_path):
    assert main([str(model), "--out", str(tmp_path / "page.md")]) == 0
    stored = json.loads((tmp_path / "page.json").read_text("utf-8"))
    before = json.loads(PAGE.with_suffix(".json").read_text("utf-8"))
    own = [row for row in stored["gaps"] if row["model"] == "toyworld-null"]
    assert own != [row for row in before["gaps"] if row["model"] == "toyworld-null"]
    others = [[row for row in one["gaps"] if row["model"] != "toyworld-null"] for one in (stored, before)]
    assert others[0] == others[1]
    rates = {row["quantity"]: row for row in stored["exchanged"] if row["model"] == "toyworld-null"}
    assert all(0 <= rates["z₀"][name] <= 1 for name in ("against_0", "against_words"))
    assert (tmp_path / "page.md").read_text("utf-8") == page(stored)
