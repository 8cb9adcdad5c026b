"""The command line as a user runs it: a whole run, stages that go on, one clear line for what is wrong."""

import json
import re
import shutil

import pyarrow.parquet as pq
import pytest

from probes.runs import parts, schemas
from probes.runs.directory import claim
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
def test_stages_one_by_one(tiny, tmp_path, capsys):
    path = tmp_path / "run"
    stages = {"generate": "generated", "observe": "observed", "trace": "observed"}
    for stage, status in (stages | {"measure": "measured", "report": "complete"}).items():
        assert run_here(tiny.yaml, path, "--stage", stage) == 0, capsys.readouterr().err
        assert status_of(path) == status
    assert stored(path) == stored(tiny.run)
    assert (path / "report.html").stat().st_size == pytest.approx(
        (tiny.run / "report.html").stat().st_size, rel=0.05
    )


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


@pytest.mark.slow
def test_observe_again(tiny_copy, tiny, tmp_path, capsys):
    """Other choices need --overwrite, which generates nothing; without a detector the stage is skipped."""
    config, other, before = json.loads(tiny.yaml.read_text()), tmp_path / "other.yaml", stored(tiny_copy)
    other.write_text(json.dumps({**config, "observe": {**config["observe"], "batch": 2}}))
    assert run_here(other, tiny_copy) == 2
    one_line(capsys.readouterr(), "observe.batch is 4 there, expected 2", "--stage observe --overwrite")
    written = (tiny_copy / "samples" / "part-00000.parquet").stat().st_mtime_ns
    assert run_here(other, tiny_copy, "--stage", "observe", "--overwrite") == 0
    meta = json.loads((tiny_copy / "run.json").read_text())
    assert meta["config"]["resolved"]["observe"]["batch"] == 2
    assert stored(tiny_copy) == before
    assert (tiny_copy / "samples" / "part-00000.parquet").stat().st_mtime_ns == written
    other.write_text(json.dumps({**config, "observe": {}}))
    shutil.rmtree(tiny_copy / "observed")
    capsys.readouterr()
    assert run_here(other, tiny_copy, "--stage", "observe") == 2
    assert "observe: objects skipped: no detector for the images of this model" in capsys.readouterr().err


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


def test_a_corrupted_record(tiny_copy, tiny, capsys):
    (tiny_copy / "run.json").write_text('{"format": 1, ')
    assert run_here(tiny.yaml, tiny_copy) == 2
    one_line(capsys.readouterr(), "run.json: expected the record of a run")


def test_two_at_once(tiny_copy, tiny, capsys):
    with claim(tiny_copy, alone=True):
        assert run_here(tiny.yaml, tiny_copy) == 2
    one_line(capsys.readouterr(), "found another process that replaces what is here")
    with claim(tiny_copy):
        assert run_here(tiny.yaml, tiny_copy, "--overwrite") == 2
    one_line(capsys.readouterr(), "expected to be the only one writing here")


@pytest.mark.slow
def test_a_report_without_figures(toyworld, tmp_path):
    """`report.figures: false` leaves out figures, on the page and as files, and nothing else."""
    copy, other = shutil.copytree(toyworld.run, tmp_path / "run"), tmp_path / "other.yaml"
    config = json.loads(toyworld.yaml.read_text())
    other.write_text(json.dumps({**config, "report": {**config["report"], "figures": False}}))
    assert main([str(other), "--out", str(copy), "--quiet", "--stage", "report"]) == 0
    assert any((toyworld.run / "figures").iterdir()) and not list(copy.glob("figures/*"))
    before, after = ((path / "report.html").read_text("utf-8") for path in (toyworld.run, copy))
    drawn = 'class="files">figures/'
    assert drawn in before and drawn not in after
    shown = re.compile(r"<data value[^>]*>")
    assert shown.findall(after) == shown.findall(before) and shown.findall(after)
    for file in (toyworld.run / "tables").iterdir():
        assert (copy / "tables" / file.name).read_bytes() == file.read_bytes()
