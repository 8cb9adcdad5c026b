"""Parts and the run directory: written whole or not at all, read back exactly, damage named."""

import errno
import json
import os

import numpy as np
import pyarrow as pa
import pytest

from probes.errors import UserError
from probes.runs import parts
from probes.runs import run as runs
from probes.runs.parts import FORMAT, read_part
from probes.runs.run import Run
from tests.analysis.synthetic_run import write_run

SCHEMA = pa.schema([("name", pa.string()), ("values", pa.list_(pa.float32()))])
ROWS = [{"name": f"row {i}", "values": np.arange(i, i + 500, dtype=np.float32)} for i in range(9)]


def write(path, rows=ROWS):
    parts.write_part(path, rows, SCHEMA, parts.identity(3, {"steps": 4}))


@pytest.fixture
def run(tmp_path):
    meta = {"format": FORMAT, "status": "generated", "config": {"passed": {}, "resolved": {"name": "x"}}}
    (tmp_path / "run.json").write_text(json.dumps(meta))
    return Run.open(tmp_path)


def test_a_configuration_that_is_damaged_is_one_line(run):
    run.write_meta(config={"passed": {}, "resolved": {"name": "x", "measure": "high"}})
    with pytest.raises(
        UserError, match=r"run\.json: .*\([Mm]easure: expected fields, got 'high'\): restore it"
    ):
        _ = Run.open(run.path).config


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_full_disk_keeps_what_was_there(tmp_path, monkeypatch, number):
    path = tmp_path / "part.parquet"
    write(path)
    before = path.read_bytes()
    real, calls = os.write, []

    def full(descriptor, data):
        calls.append(len(data))
        if len(calls) > 1:
            raise OSError(number, os.strerror(number))
        return real(descriptor, bytes(data[:100]))  # a short write, then nothing

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(UserError, match="expected room on the disk"):
        write(path, ROWS[:5])
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["part.parquet"]


def test_a_run_must_be_there(tmp_path, run):
    with pytest.raises(UserError, match=r"found no run\.json"):
        Run.open(tmp_path / "nowhere")
    with pytest.raises(UserError, match="expected a table, found none"):
        run.table("gap")
    with pytest.raises(UserError, match="expected parts, found none"):
        run.samples()
    for text in ("{", "[]", '{"format": 1}'):
        (tmp_path / "run.json").write_text(text)
        with pytest.raises(UserError, match="damaged file"):
            Run.open(tmp_path)
    (tmp_path / "run.json").write_text('{"format": 99, "status": "generated"}')
    with pytest.raises(UserError, match="newer triptych"):
        Run.open(tmp_path)


def test_rows_of_some_samples_are_sought_in_all_parts(tmp_path, monkeypatch):
    run = Run.open(write_run(tmp_path / "run", prompts=6, seeds=1, steps=2, part_triplets=2))
    asked = []

    def watched(path, columns=None):
        asked.append((path.name, columns))
        return read_part(path, columns)

    monkeypatch.setattr(runs, "read_part", watched)
    wanted, columns = ["t00004-s0-neutral", "t00005-s0-human"], ["sample_id", "word", "heat"]
    rows = run.rows_of_samples("words", wanted, columns)
    assert set(rows["sample_id"]) == set(wanted) and list(rows) == columns
    heats = [name for name, columns in asked if "heat" in columns]
    assert heats == ["part-00000.parquet", "part-00002.parquet"], "the first gives the columns"
    assert len(rows) == run.read("words", columns)["sample_id"].isin(wanted).sum()
    assert run.rows_of_samples("objects", wanted) is None
    assert run.rows_of_samples("words", ["nobody"]).empty
    assert run.rows_of_samples("words", wanted, columns, "part-00001.parquet").empty


def test_a_run_of_an_earlier_format_is_refused(run, monkeypatch):
    run.write_meta(format=FORMAT - 1)
    line = rf"run\.json: expected a run of format {FORMAT}, got one of format {FORMAT - 1}, which an earlier triptych"
    with pytest.raises(UserError, match=line):
        Run.open(run.path)
