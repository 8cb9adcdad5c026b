"""The command that holds the tool against the benchmark models."""

import json
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lab.validate.models.calibrate import main
from triptych.cli.main import main as draw


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A measured run of the null world, of two prompts."""
    folder = tmp_path_factory.mktemp("model")
    config = {
        "model": "toyworld-null",
        "indicators": {"neutral": "person", "feminine": "woman", "masculine": "man"},
        "prompts": ["a {person} with a dog", "a {person} in a car"],
        "sampler": {"steps": 1},
        "generate": {"workers": 1},
        "observe": {"engine": "toyworld-checker", "features": []},
        "measure": {"bootstrap": 20, "permutations": 20},
    }
    (folder / "null.yaml").write_text(json.dumps(config))
    for stage in ("generate", "observe", "measure"):
        assert (
            draw([str(folder / "null.yaml"), "--out", str(folder / "run"), "--quiet", "--stage", stage]) == 0
        )
    return folder / "run"


@pytest.mark.parametrize(
    ("table", "column", "value", "said"),
    [
        ("word_gap", "n_references", "three", "expected numbers in the column `n_references`, found string"),
        ("gap", "contrast", 1, "expected text in the column `contrast`, found int64"),
        ("word_gap", "p_control", 7.0, "expected numbers from 0 to 1 in the column `p_control`, found 7.0"),
        ("word_gap", "p_control", None, ""),
        ("agreement", "correlation", "high", "expected numbers in the column `correlation`, found string"),
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
