"""Commands on runs of which something is missing or another program's: one line, exit status 2."""

import shutil

import numpy as np
import pyarrow.parquet as pq
import pytest

from analysis.observe.stage import observe
from probes.runs.parts import read_part
from probes.runs.run import Run
from tests.analysis.observe.stored_images import image_run
from triptych.cli.main import main

PROMPTS = [f"a {word} with a dog" for word in ("person", "woman", "man")]


@pytest.fixture(scope="module")
def captioned(tmp_path_factory):
    """A run of three images that a checker captioned; it holds no audit, no activations and no tables."""
    images = [np.full((64, 64, 3), shade, np.uint8) for shade in (60, 120, 180)]
    folder = tmp_path_factory.mktemp("captioned") / "run"
    made = image_run(
        folder, images, PROMPTS, objects=False, features=[], captions={"model": "toyworld-checker"}
    )
    observe(made, progress=False)
    return made.path


def gone(run):
    shutil.rmtree(run)
    run.mkdir()


def no_record(run):
    (run / "run.json").unlink()


def cut(run):
    for file in run.rglob("*.parquet"):
        file.write_bytes(file.read_bytes()[:-20])


def another_programs(run):
    for file in run.rglob("*.parquet"):
        table = read_part(file)
        pq.write_table(table.select(table.column_names[:1]).replace_schema_metadata(None), file)


@pytest.mark.parametrize("damage", [gone, no_record, cut, another_programs])
@pytest.mark.parametrize(
    "command",
    [
        "audit alignment {run}",
        "decode {run} --out {out}",
        "labels sheet {run} --about attributes --out {out}",
        "audit gep compare {run} --out {out}",
    ],
)
def test_a_damaged_run_is_refused_in_a_line(command, damage, captioned, tmp_path, capsys):
    run = shutil.copytree(captioned, tmp_path / "run")
    damage(run)
    assert main(command.format(run=run, out=tmp_path / "out").split()) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and ": expected " in said


def test_captions_that_another_program_wrote_without_their_column(captioned, tmp_path, capsys):
    run = shutil.copytree(captioned, tmp_path / "run")
    for file in (run / "attributes" / "captions").glob("*.parquet"):
        pq.write_table(read_part(file, ["sample_id"]).replace_schema_metadata(None), file)
    assert main(["audit", "alignment", str(run)]) == 2
    assert "expected a column `caption`, got none" in capsys.readouterr().err


def test_a_table_that_lacks_a_column(captioned, tmp_path, capsys):
    run = Run.open(shutil.copytree(captioned, tmp_path / "run"))
    table = run.samples(["sample_id"]).rename(columns={"sample_id": "setting"})
    run.write_table("gep_vector", table)
    run.write_table("gep_score", table)
    assert main(["audit", "gep", "compare", str(run.path), "--out", str(tmp_path / "out")]) == 2
    assert "tables/gep_score.parquet: expected a column `" in capsys.readouterr().err
