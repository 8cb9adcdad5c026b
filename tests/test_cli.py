"""The command line as a user runs it: a whole run, stages that go on, one clear line for what is wrong."""

import json
import shutil

import pyarrow.parquet as pq
import pytest

from probes.runs import parts, schemas
from probes.runs.run import Run
from tests.probes.conftest import flipped, stored
from tests.runs import one_line, python, run_here
from triptych.cli.main import main


def status_of(path):
    return json.loads((path / "run.json").read_text())["status"]


def test_a_whole_run(tiny):
    path = tiny.run
    *answers, missing, last = tiny.out.splitlines()
    assert last == f"report: {path / 'report.html'}" and missing.startswith("Not measured: ")
    assert len(answers) == 2 and answers[1].startswith("Objects: ")
    assert "100%" in tiny.err and "left]" in tiny.err
    meta = json.loads((path / "run.json").read_text())
    assert (meta["status"], meta["format"], meta["parts"], meta["images"]) == ("complete", 4, 3, 12)
    assert meta["config"]["passed"]["command_line"] == {"--out": str(path)}
    assert meta["config"]["passed"]["file"]["sampler"] == {"steps": 2}
    assert meta["config"]["resolved"]["sampler"]["guidance_scale"] == 7.5
    assert meta["model"]["safety_checker"] == "off"
    assert len(meta["model"]["weight_hash"]) == 64
    assert {"generated", "observed", "measured", "complete"} <= set(meta["times"])
    assert meta["observer"]["counts"]["images"] == 12
    assert (path / "triplets.yaml").read_text() == tiny.yaml.read_text()
    assert {file.name for file in (path / "tables").iterdir()} >= {"disparity.csv", "gap.csv", "gap.parquet"}
    assert (path / "report.html").stat().st_size > 10_000
    assert not list(path.rglob(".tmp-*"))


@pytest.mark.slow
def test_measure_again_from_the_run_directory_alone(tiny_copy):
    """On a laptop, without the model: the folder is enough, and no torch is loaded."""
    before = (tiny_copy / "tables" / "gap.csv").read_bytes()
    (tiny_copy / "tables" / "gap.csv").write_text("")
    code = (
        "import sys; from triptych.cli.main import main; status = main(sys.argv[1:]);"
        "print('torch' in sys.modules); sys.exit(status)"
    )
    done = python("-c", code, tiny_copy, "--stage", "measure")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "False"
    assert (tiny_copy / "tables" / "gap.csv").read_bytes() == before


# Exit status 2, one line that names the place, nothing of a finished run lost.


def test_a_folder_that_holds_another_run(tiny_copy, tiny, capsys):
    before = stored(tiny_copy)
    assert run_here(tiny.yaml, tiny_copy, "--steps", "3") == 2
    one_line(capsys.readouterr(), "holds another run: sampler.steps is 2 there, expected 3", "--overwrite")
    assert stored(tiny_copy) == before
    more = ("--steps", "3", "--limit", "1", "--overwrite", "--stage", "generate")
    assert run_here(tiny.yaml, tiny_copy, *more) == 0
    assert len(stored(tiny_copy)) == 5  # a part of each kind; the old tables are gone


def test_a_corrupted_part(tiny_copy, tiny, capsys):
    """A later stage names it; the stage that made it finds it and makes it again; nothing else changes."""
    part, before = tiny_copy / "samples" / "part-00002.parquet", stored(tiny_copy)
    with flipped(part):
        damaged = part.read_bytes()
        assert main([str(tiny_copy), "--quiet", "--stage", "measure"]) == 2
        one_line(
            capsys.readouterr(),
            f"{part}: expected a whole part",
            "--stage generate",
            "only this part is made anew",
        )
    part.write_bytes(damaged)
    assert run_here(tiny.yaml, tiny_copy) == 0
    assert capsys.readouterr().err.endswith(": made again\n")
    assert stored(tiny_copy) == before and status_of(tiny_copy) == "complete"
    (noted,) = Run.open(tiny_copy).meta["made_again"]
    assert noted["found"].startswith("samples/part-00002.parquet: expected a whole part")


def rewritten(file, other):
    """Store a table as another program does, which knows nothing of its name."""
    pq.write_table(parts.read_part(file).replace_schema_metadata(None), other)


@pytest.mark.parametrize(
    ("held", "by", "message"),
    [
        (
            "disparity",
            shutil.copyfile,
            "expected the table gap, found disparity: put its own file back",
        ),
        ("disparity", rewritten, "gap.parquet: expected a column `contrast`, found none: run"),
    ],
)
def test_a_table_that_holds_another(held, by, message, tiny_copy, capsys):
    by(tiny_copy / "tables" / f"{held}.parquet", tiny_copy / "tables" / "gap.parquet")
    assert main([str(tiny_copy), "--stage", "report", "--quiet"]) == 2
    one_line(capsys.readouterr(), message)


def test_an_image_that_cannot_be_read(tiny_copy, capsys):
    """It is recorded and left out; the other images are observed and measured."""
    part = tiny_copy / "samples" / "part-00002.parquet"
    ident = parts.read_identity(part)
    rows = parts.read_part(part).to_pylist()
    rows[1]["image"]["bytes"] = rows[1]["image"]["bytes"][:60]
    parts.write_part(part, rows, schemas.SAMPLES, ident)
    before = (tiny_copy / "tables" / "gap.csv").read_bytes()
    for more in (["observe", "--overwrite"], ["measure"]):
        assert main([str(tiny_copy), "--quiet", "--stage", *more]) == 0, capsys.readouterr().err
    run = Run.open(tiny_copy)
    assert set(run.left_out()) == {rows[1]["sample_id"]}
    assert run.meta["observer"]["counts"]["unreadable"] == 1
    assert (tiny_copy / "tables" / "gap.csv").read_bytes() != before
