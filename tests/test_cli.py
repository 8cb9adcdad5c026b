"""The command line as a user runs it: a whole run, going on after kills, one clear line for what is wrong."""

import io
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from contextlib import redirect_stderr, redirect_stdout

import pyarrow.parquet as pq
import pytest

from analysis.loaded_run import load_run
from probes.runs import parts, schemas
from probes.runs.store import Run
from tests.forked import Forked
from tests.probes.conftest import flipped, stored
from tests.remembered import leave_figures_out, remember_figures
from tests.small_run import PATIENCE, ROOT, one_line, small_yaml
from triptych.cli.run import main


@pytest.fixture(scope="session")
def yaml_file(tmp_path_factory):
    return small_yaml(tmp_path_factory.mktemp("yaml"))


@pytest.fixture(scope="session")
def kept_figures():
    return {}


@pytest.fixture(scope="session")
def whole(yaml_file, kept_figures, tmp_path_factory):
    """An undisturbed run of all stages, by the command line; `tests/test_contributing.py` has a process for one."""
    path = tmp_path_factory.mktemp("whole") / "run"
    with (
        pytest.MonkeyPatch.context() as monkeypatch,
        redirect_stdout(io.StringIO()) as out,
        redirect_stderr(io.StringIO()) as err,
    ):
        remember_figures(monkeypatch, kept_figures)
        status = main([str(yaml_file), "--out", str(path)])
    assert status == 0, err.getvalue()
    return {"path": path, "out": out.getvalue(), "err": err.getvalue()}


@pytest.fixture
def figures_once(kept_figures, monkeypatch):
    """Whoever asks for this is not about figures: those of the same tables are drawn once."""
    remember_figures(monkeypatch, kept_figures)


@pytest.fixture
def copy(whole, tmp_path):
    return shutil.copytree(whole["path"], tmp_path / "copy")


def test_a_whole_run(whole, yaml_file):
    path = whole["path"]
    answer, objects, missing, last = whole["out"].splitlines()
    assert last == f"report: {path / 'report.html'}"
    summary = load_run(path)._summaries[0]
    assert (
        answer == summary.answer and objects.startswith("Objects: ") and missing.startswith("Not measured: ")
    )
    assert "100%" in whole["err"] and "left]" in whole["err"]
    meta = json.loads((path / "run.json").read_text())
    assert (meta["status"], meta["format"], meta["parts"], meta["images"]) == ("complete", 3, 6, 24)
    assert meta["config"]["passed"]["command_line"] == {"--out": "run"}
    assert meta["config"]["passed"]["file"]["sampler"] == {"steps": 2}
    assert meta["config"]["resolved"]["sampler"]["guidance_scale"] == 7.5
    assert meta["model"]["safety_checker"] == "off"
    assert len(meta["model"]["weight_hash"]) == 64
    assert {"generated", "observed", "measured", "complete"} <= set(meta["times"])
    assert meta["observer"]["counts"]["images"] == 24
    assert (path / "triplets.yaml").read_text() == yaml_file.read_text()
    assert {file.name for file in (path / "tables").iterdir()} >= {"disparity.csv", "gap.csv", "gap.parquet"}
    assert (path / "report.html").stat().st_size > 10_000
    assert not list(path.rglob(".tmp-*"))


def test_images_show_in_datasets(whole, tmp_path):
    datasets = pytest.importorskip("datasets")
    files = [str(file) for file in sorted((whole["path"] / "samples").glob("*.parquet"))]
    found = datasets.load_dataset("parquet", data_files=files, split="train", cache_dir=str(tmp_path))
    assert len(found) == 24
    assert found[0]["image"].size == (64, 64)
    assert found[3]["indicator"] == "individual"
    assert found[0]["word_positions"][1] == [2]


def test_run_again_changes_nothing(copy, yaml_file, figures_once):
    before, report = stored(copy), (copy / "report.html").read_bytes()
    assert main([str(yaml_file), "--out", str(copy), "--quiet"]) == 0
    assert stored(copy) == before
    assert json.loads((copy / "run.json").read_text())["status"] == "complete"
    assert len((copy / "report.html").read_bytes()) == pytest.approx(len(report), rel=0.05)


def test_killed_at_random_moments_and_started_again(whole, yaml_file, tmp_path, capsys, figures_once):
    """SIGKILL while parts, tables and the report are written: tables and parts end byte-identical."""
    path, expected = tmp_path / "run", stored(whole["path"])
    rng = random.Random(time.time_ns())
    reached = set()
    kills = int(os.environ.get("TRIPTYCH_KILLS", "4"))
    for attempt in range(kills):
        # the moments lie after the model is loaded; before that nothing is written
        file, before = path / "run.json", (path / "run.json").stat().st_mtime_ns if attempt else 0
        process = Forked("triptych.cli.run", yaml_file, "--out", path)
        while process.poll() is None and (not file.exists() or file.stat().st_mtime_ns == before):
            time.sleep(0.02)
        time.sleep(rng.uniform(0, 0.5) if attempt < kills - 1 else rng.uniform(0, 5))
        process.kill()
        _, err = process.communicate(timeout=PATIENCE)
        assert process.returncode in (-signal.SIGKILL, 0), err  # the last may be done before it is killed
        # a file that was being written is left under a temporary name, which the next start removes
        whole_files = {name: data for name, data in stored(path).items() if ".tmp-" not in name}
        reached.add(len(whole_files))
        assert all(expected[name] == data for name, data in whole_files.items())
    assert main([str(yaml_file), "--out", str(path)]) == 0, capsys.readouterr().err
    assert stored(path) == expected, f"after kills with {sorted(reached)} files there"
    assert not list(path.rglob(".tmp-*"))


def test_interrupted_with_control_c(whole, yaml_file, tmp_path):
    process = Forked("triptych.cli.run", yaml_file, "--out", tmp_path / "run", "--steps", 200)
    while process.poll() is None and not (tmp_path / "run" / "run.json").exists():
        time.sleep(0.02)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert (
        err.strip().splitlines()[-1]
        == "interrupted: run the same command again to go on, finished parts are kept"
    )
    assert "Traceback" not in err


def test_stages_one_by_one(whole, yaml_file, tmp_path, capsys, figures_once):
    path = tmp_path / "run"
    stages = {"plan": "planned", "generate": "generated", "observe": "observed"}
    stages |= {"measure": "measured", "report": "complete"}
    for stage, status in stages.items():
        assert main([str(yaml_file), "--out", str(path), "--quiet", "--stage", stage]) == 0, (
            capsys.readouterr().err
        )
        assert json.loads((path / "run.json").read_text())["status"] == status
    assert stored(path) == stored(whole["path"])


def test_measure_again_from_the_run_directory_alone(copy):
    """On a laptop, without the model: the folder is enough, and no torch is loaded."""
    before = (copy / "tables" / "gap.csv").read_bytes()
    (copy / "tables" / "gap.csv").write_text("")
    code = (
        "import sys; from triptych.cli.run import main; status = main(sys.argv[1:]);"
        "print('torch' in sys.modules); sys.exit(status)"
    )
    command = [sys.executable, "-c", code, str(copy), "--stage", "measure"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "False"
    assert (copy / "tables" / "gap.csv").read_bytes() == before


def test_observe_again(copy, yaml_file, tmp_path, capsys):
    """Other choices need --overwrite, which looks anew and draws nothing; without a detector it is skipped."""
    before, other = stored(copy), tmp_path / "other.yaml"
    text = yaml_file.read_text()
    other.write_text(text.replace("{engine: toyworld-checker}", "{engine: toyworld-checker, batch: 2}"))
    assert main([str(other), "--out", str(copy), "--quiet"]) == 2
    one_line(capsys.readouterr(), "observe.batch is 4 there, expected 2", "--stage observe --overwrite")
    written = (copy / "samples" / "part-00000.parquet").stat().st_mtime_ns
    arguments = ["--out", str(copy), "--quiet", "--stage", "observe"]
    assert main([str(other), *arguments, "--overwrite"]) == 0
    assert json.loads((copy / "run.json").read_text())["config"]["resolved"]["observe"]["batch"] == 2
    assert stored(copy) == before
    assert (copy / "samples" / "part-00000.parquet").stat().st_mtime_ns == written
    other.write_text(text.replace("observe: {engine: toyworld-checker}\n", ""))
    shutil.rmtree(copy / "observed")
    capsys.readouterr()
    assert main([str(other), *arguments]) == 2
    one_line(
        capsys.readouterr(),
        "observe: objects skipped: no detector for the images of this model",
        "write `detector: IDEA-Research/grounding-dino-tiny` and `segmenter: facebook/sam-vit-base` under `observe:`",
    )


# Exit status 2, one line that names the place, nothing of a finished run lost.


def test_a_folder_that_holds_another_run(copy, yaml_file, capsys):
    before = stored(copy)
    assert main([str(yaml_file), "--out", str(copy), "--steps", "3", "--quiet"]) == 2
    one_line(capsys.readouterr(), "holds another run: sampler.steps is 2 there, expected 3", "--overwrite")
    assert stored(copy) == before
    arguments = [str(yaml_file), "--out", str(copy), "--steps", "3", "--limit", "1", "--quiet"]
    assert main([*arguments, "--overwrite", "--stage", "generate"]) == 0
    assert len(stored(copy)) == 6  # two parts of three kinds; the old tables are gone


def rewritten(file, other):
    """A table as another program stores it, which knows nothing of its name."""
    pq.write_table(parts.read_part(file).replace_schema_metadata(None), other)


def test_a_corrupted_part(copy, yaml_file, capsys, figures_once):
    """A later stage names it; the stage that made it finds it and makes it again."""
    part, before = copy / "samples" / "part-00002.parquet", stored(copy)
    with flipped(part):
        damaged = part.read_bytes()
        assert main([str(yaml_file), "--out", str(copy), "--quiet", "--stage", "measure"]) == 2
        one_line(
            capsys.readouterr(),
            f"{part}: expected a whole part",
            "--stage generate",
            "only this part is made anew",
        )
    part.write_bytes(damaged)
    assert main([str(yaml_file), "--out", str(copy), "--quiet"]) == 0
    assert capsys.readouterr().err.endswith(": made again\n")
    assert stored(copy) == before
    (noted,) = Run.open(copy).meta["made_again"]
    assert noted["found"].startswith("samples/part-00002.parquet: expected a whole part")


@pytest.mark.parametrize(
    ("held", "name", "by", "message"),
    [
        (
            "disparity",
            "gap",
            shutil.copyfile,
            "expected the table gap, found disparity: put its own file back",
        ),
        ("table06_gap", "gap", shutil.copyfile, "expected the table gap, found table06_gap"),
        ("disparity", "gap", rewritten, "gap.parquet: expected a column `contrast`, found none: run"),
        ("gap", "timesteps", rewritten, "timesteps.parquet: expected a column `timestep`, found none: run"),
    ],
)
def test_a_table_that_holds_another(held, name, by, message, copy, capsys):
    by(copy / "tables" / f"{held}.parquet", copy / "tables" / f"{name}.parquet")
    assert main([str(copy), "--stage", "report", "--quiet"]) == 2
    one_line(capsys.readouterr(), message)


def test_an_image_that_cannot_be_read(copy, capsys, monkeypatch):
    """It is recorded and left out; the other images are observed, measured and shown."""
    leave_figures_out(monkeypatch)
    part = copy / "samples" / "part-00002.parquet"
    ident = {key: value for key, value in parts.read_identity(part).items() if key != "content"}
    rows = parts.read_part(part).to_pylist()
    rows[1]["image"]["bytes"] = rows[1]["image"]["bytes"][:60]
    parts.write_part(part, rows, schemas.SAMPLES, ident)
    before = (copy / "tables" / "gap.csv").read_bytes()
    for kind in ("objects", "observed"):
        (copy / kind / part.name).unlink()
    for stage in ("observe", "measure", "report"):
        assert main([str(copy), "--stage", stage, "--quiet"]) == 0, capsys.readouterr().err
    run = Run.open(copy)
    assert run.unreadable() == {rows[1]["sample_id"]}
    assert run.meta["observer"]["counts"]["unreadable"] == 1
    assert run.status == "complete"
    assert (copy / "tables" / "gap.csv").read_bytes() != before


def test_a_corrupted_record(copy, yaml_file, capsys):
    (copy / "run.json").write_text('{"format": 1, ')
    assert main([str(yaml_file), "--out", str(copy), "--quiet"]) == 2
    one_line(capsys.readouterr(), "run.json: expected the record of a run")


def little_room():
    limit = 20_000  # bytes: enough for run.json, too little for a part
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))


def test_a_full_disk(copy, yaml_file, figures_once):
    """The system refuses files beyond a size: what is finished stays, the run goes on when there is room."""
    before = stored(copy)
    (copy / "samples" / "part-00003.parquet").unlink()
    process = Forked("triptych.cli.run", yaml_file, "--out", copy, "--quiet", prepare=little_room)
    out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out) == (2, "")
    assert err.count("\n") == 1
    assert "expected room on the disk" in err and "finished parts are kept" in err
    after = stored(copy)
    assert after == {name: data for name, data in before.items() if name != "samples/part-00003.parquet"}
    assert main([str(yaml_file), "--out", str(copy), "--quiet"]) == 0
    assert stored(copy) == before


def test_two_at_once(copy, yaml_file, capsys):
    from probes.storage.claim import claim

    with claim(copy):
        assert main([str(yaml_file), "--out", str(copy), "--quiet"]) == 2
    one_line(capsys.readouterr(), "expected to be the only one writing here")


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
