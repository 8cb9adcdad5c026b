"""The command line as a user runs it: a whole run, going on after kills, one clear line for what is wrong."""

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
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from probes import part_schemas, parts
from probes.run import main
from probes.store import Run
from tests.forked import Forked
from tests.probes.conftest import flipped, stored
from tests.remembered import leave_figures_out, remember_figures
from tests.tiny import tiny_pipeline

ROOT = Path(__file__).parent.parent
PATIENCE = 1800  # seconds until a command counts as hanging, also on a machine that is busy otherwise
YAML = """\
name: small
model: {model}
indicators:
  neutral: person
  feminine: woman
  masculine: man
  individual: {{word: individual, control: true}}
prompts:
  - a {{person}} with a dog
  - a {{person}} reading a book
  - a {{person}} in a car
seeds: [0, 1]
sampler: {{steps: 2}}
generate: {{part_triplets: 1, batch_triplets: 1, device: cpu}}
observe: {{engine: toyworld-checker}}
measure: {{bootstrap: 50, permutations: 64}}
report: {{gallery: 2}}
"""


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "tiny"
    tiny_pipeline("toy").save_pretrained(path)
    return path


@pytest.fixture(scope="session")
def yaml_file(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("yaml") / "small.yaml"
    path.write_text(YAML.format(model=model))
    return path


def run(*arguments):
    """A process from its beginning."""
    line = [sys.executable, "-m", "probes.run", *map(str, arguments)]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="session")
def whole(yaml_file, tmp_path_factory):
    """An undisturbed run of all stages, by the command line."""
    path = tmp_path_factory.mktemp("whole") / "run"
    began = time.monotonic()
    status, out, err = run(yaml_file, "--out", path)
    assert status == 0, err
    return {"path": path, "out": out, "err": err, "seconds": time.monotonic() - began}


@pytest.fixture(scope="session")
def kept_figures():
    return {}


@pytest.fixture
def figures_once(kept_figures, monkeypatch):
    """Whoever asks for this is not about figures: those of the same tables are drawn once."""
    remember_figures(monkeypatch, kept_figures)


@pytest.fixture
def copy(whole, tmp_path):
    return shutil.copytree(whole["path"], tmp_path / "copy")


def test_a_whole_run(whole, yaml_file):
    path = whole["path"]
    assert whole["out"] == f"report: {path / 'report.html'}\n"
    assert "100%" in whole["err"] and "left]" in whole["err"]
    meta = json.loads((path / "run.json").read_text())
    assert (meta["status"], meta["format"], meta["parts"], meta["images"]) == ("complete", 3, 6, 24)
    assert meta["config"]["passed"]["command_line"] == {"--out": str(path)}
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
        process = Forked("probes.run", yaml_file, "--out", path)
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
    process = Forked("probes.run", yaml_file, "--out", tmp_path / "run", "--steps", 200)
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
        "import sys; from probes.run import main; status = main(sys.argv[1:]);"
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
        "observe.detector",
    )


def test_dry_run_writes_nothing(yaml_file, tmp_path, capsys):
    assert main([str(yaml_file), "--out", str(tmp_path / "run"), "--dry-run", "--limit", "2"]) == 0
    out = capsys.readouterr().out
    assert "t00001-s1-individual" in out
    assert "an individual reading a book" in out
    assert "observe: toyworld-checker, 39 things by their palette colours, no vision model\n" in out
    assert re.search(r"16 images, about \d+ (s|min), [\d.]+ GB of memory, \d+ MB on disk \(", out)
    assert not (tmp_path / "run").exists()


def test_options_stand_over_the_file(yaml_file, tmp_path):
    arguments = [
        "--seeds",
        "7",
        "--steps",
        "1",
        "--guidance-scale",
        "3",
        "--limit",
        "1",
        "--scheduler",
        "euler",
    ]
    path = tmp_path / "run"
    assert main([str(yaml_file), "--out", str(path), *arguments, "--stage", "generate", "--quiet"]) == 0
    meta = json.loads((path / "run.json").read_text())
    sampler = meta["config"]["resolved"]["sampler"]
    assert (sampler["steps"], sampler["guidance_scale"], sampler["scheduler"]) == (1, 3.0, "euler")
    assert (meta["images"], meta["scheduler"]["class"]) == (4, "EulerDiscreteScheduler")
    assert meta["config"]["passed"]["command_line"]["--seeds"] == [7]


# Bad input: exit status 2, one line that names the place, nothing of a finished run lost.

BAD_YAML = {
    "template": ("a {person} in a car", "a man in a car", "prompts[2]: expected a text with one {person}"),
    "unknown key": ("sampler: {", "samplr: {", "samplr: unknown key"),
    "duplicate key": (
        "seeds: [0, 1]",
        "seeds: [0]\nseeds: [1]",
        "key `seeds` stands twice, on lines 12 and 13",
    ),
    "bare no": ("feminine: woman", "feminine: no", "indicators.feminine: expected a word"),
    "seed": ("seeds: [0, 1]", "seeds: [0, x]", "seeds[1]: expected an integer, got 'x'"),
    "too long": ("a car", "a car" + " and a car" * 15, "prompts[2] (neutral): expected at most 32 tokens"),
    "model": ("model: ", "model: /nowhere", "unknown; expected toyworld"),
    "primary": (
        "measure: {",
        "measure: {primary: lpips, ",
        "measure.primary: expected 't', 'z0', 'ssim'",
    ),
    "site": ("sampler: {", "capture: {sites: [unet.dwn.*]}\nsampler: {", "unet.dwn.*"),
}


@pytest.mark.parametrize("case", BAD_YAML)
def test_bad_yaml(case, yaml_file, tmp_path, capsys):
    old, new, message = BAD_YAML[case]
    file = tmp_path / "bad.yaml"
    text = yaml_file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))
    assert main([str(file), "--out", str(tmp_path / "run"), "--quiet"]) == 2
    one_line(capsys.readouterr(), message)


def one_line(captured, *messages):
    assert captured.out == ""
    assert captured.err.count("\n") == 1, captured.err
    for message in messages:
        assert message in captured.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--seeds", "1", "x"], "--seeds: expected an integer, got 'x'"),
        (["--steps", "0"], "--steps: "),
        (["--model", "toyword"], "did you mean toyworld"),
        (["--model", "CompVis/stable-diffusion-v1-4"], "give a local folder"),
        (["--device", "cuda:7"], "--device cuda:7"),
        (["--stage", "draw"], "command line: argument --stage"),
        (["--stepz", "3"], "unrecognized arguments: --stepz 3"),
        (["--dtype", "int8"], "--dtype: expected 'auto'"),
        (["--height", "50"], "--height: expected a multiple of 16"),
        (["--scheduler", "eulr"], "did you mean euler"),
        (["--stage", "observe"], "expected a generated run, found it empty"),
        (["--stage", "measure"], "expected a generated run, found it empty"),
        (["--stage", "report"], "expected a generated run, found it empty"),
    ],
)
def test_bad_options(arguments, message, yaml_file, tmp_path, capsys):
    assert main([str(yaml_file), "--out", str(tmp_path / "run"), "--quiet", *arguments]) == 2
    one_line(capsys.readouterr(), message)
    assert not (tmp_path / "run" / "samples").exists()


def test_bad_input_as_a_user_sees_it(tmp_path):
    (tmp_path / "bad.yaml").write_text("prompts: [no]\n")
    status, out, err = run(tmp_path / "bad.yaml")
    assert (status, out) == (2, "")
    assert err == (
        "bad.yaml: prompts[0]: expected a text with one {person}, got False"
        " (YAML reads a bare `no` as False): quote it\n"
    )


@pytest.mark.parametrize("out", ["/proc/nowhere/run", "{file}/run", "/dev/null"])
def test_an_unwritable_folder(out, yaml_file, capsys):
    assert main([str(yaml_file), "--out", out.format(file=yaml_file), "--quiet"]) == 2
    one_line(capsys.readouterr(), "cannot be written")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission(yaml_file, tmp_path, capsys):
    tmp_path.chmod(0o500)
    assert main([str(yaml_file), "--out", str(tmp_path / "run"), "--quiet"]) == 2
    one_line(capsys.readouterr(), "Permission denied")


def test_a_folder_that_holds_something_else(yaml_file, tmp_path, capsys):
    (tmp_path / "thesis.txt").write_text("years of work")
    for more in ([], ["--overwrite"]):
        assert main([str(yaml_file), "--out", str(tmp_path), "--quiet", *more]) == 2
        one_line(capsys.readouterr(), "expected an empty folder or a run, got other files (thesis.txt)")
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.txt"]


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
    assert noted["found"].startswith(f"{part}: expected a whole part")


@pytest.mark.parametrize(
    ("held", "by", "message"),
    [
        ("disparity", shutil.copyfile, "expected the table gap, found disparity: put its own file back"),
        ("table06_gap", shutil.copyfile, "expected the table gap, found table06_gap"),
        ("disparity", rewritten, "gap.parquet: expected a column `contrast`, found none: run"),
    ],
)
def test_a_table_that_holds_another(held, by, message, copy, capsys):
    by(copy / "tables" / f"{held}.parquet", copy / "tables" / "gap.parquet")
    assert main([str(copy), "--stage", "report", "--quiet"]) == 2
    one_line(capsys.readouterr(), message)


def test_an_image_that_cannot_be_read(copy, capsys, monkeypatch):
    """It is recorded and left out; the other images are looked at, measured and shown."""
    leave_figures_out(monkeypatch)
    part = copy / "samples" / "part-00002.parquet"
    ident = {key: value for key, value in parts.read_identity(part).items() if key != "content"}
    rows = parts.read_part(part).to_pylist()
    rows[1]["image"]["bytes"] = rows[1]["image"]["bytes"][:60]
    parts.write_part(part, rows, part_schemas.SAMPLES, ident)
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
    process = Forked("probes.run", yaml_file, "--out", copy, "--quiet", prepare=little_room)
    out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out) == (2, "")
    assert err.count("\n") == 1
    assert "expected room on the disk" in err and "finished parts are kept" in err
    after = stored(copy)
    assert after == {name: data for name, data in before.items() if name != "samples/part-00003.parquet"}
    assert main([str(yaml_file), "--out", str(copy), "--quiet"]) == 0
    assert stored(copy) == before


def test_two_at_once(copy, yaml_file, capsys):
    from probes.claim import claim

    with claim(copy):
        assert main([str(yaml_file), "--out", str(copy), "--quiet"]) == 2
    one_line(capsys.readouterr(), "expected to be the only one writing here")


def test_a_bug_keeps_its_traceback(yaml_file, tmp_path, monkeypatch):
    from probes.prompts import plan as prompts

    def broken(*args):
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(prompts, "plan", broken)
    with pytest.raises(ZeroDivisionError):
        main([str(yaml_file), "--out", str(tmp_path / "run")])
    assert not (tmp_path / "run").exists()


def test_the_example_is_complete(model, capsys):
    """At least 24 prompts, three words a group that share their article, and the tokenizer takes them all."""
    assert main([str(ROOT / "triplets.yaml"), "--model", str(model), "--dry-run"]) == 0
    from probes.config import load_config
    from probes.text.articles import article

    config = load_config(ROOT / "triplets.yaml")
    assert (config.model, config.sampler.steps, config.seeds) == ("toyworld", 20, [0])
    assert len(config.prompts) >= 24
    controls = {name: one.control for name, one in config.indicators.items() if one.control}
    feminine, masculine = (
        dict.fromkeys(("lady", "female"), "feminine"),
        dict.fromkeys(("gentleman", "male"), "masculine"),
    )
    assert controls == {"human": True, "figure": True} | feminine | masculine
    assert {article(one.word) for one in config.indicators.values()} == {"a"}
