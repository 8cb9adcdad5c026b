"""A run ends with the same bytes, page and figures too, however it was drawn: `run.json` alone says how."""

import hashlib
import importlib.util
import json
import re
import signal
import subprocess
import sys
import time

import pytest

from tests.forked import ROOT, Forked
from tests.remembered import remember_figures
from tests.tiny_runs import record, saved_yaml, shards_started
from triptych.cli.run import main

PATIENCE = 1800  # seconds, also on a machine that is busy otherwise
CONFIG = {
    "name": "bytes",
    "indicators": {"neutral": "person", "feminine": "woman", "masculine": "man"},
    "prompts": [
        "a {person} with a dog",
        "a {person} with a cat",
        "a {person} in a car",
        "the {person} sings",
    ],
    "sampler": {"steps": 2},
    "generate": {"part_triplets": 1, "batch_triplets": 1, "device": "cpu"},
    "observe": {"detector": "toyworld", "segmenter": "toyworld", "features": ["dino"]},
    "trace": {"sites": ["unet.mid.attn.0.cross"], "cuts": False},
    "measure": {"bootstrap": 20, "permutations": 20},
    "report": {"gallery": 2},
}
APART = re.compile(r"run\.json|shards/.*|\.lock.*")  # what says how and by whom it was drawn


def tree(run):
    """The checksum of every file of a run but of those that say how it was drawn."""
    names = {file.relative_to(run).as_posix(): file for file in sorted(run.rglob("*")) if file.is_file()}
    return {
        name: hashlib.sha256(file.read_bytes()).hexdigest()
        for name, file in names.items()
        if not APART.fullmatch(name)
    }


def noted(run):
    """What its record says but for processes, seconds and the way from it to its model."""
    meta = json.loads(re.sub(r"(\.\./)+", "", json.dumps(record(run))))
    apart = ("workers", "seconds")
    return {
        name: {key: value for key, value in entry.items() if key not in apart}
        if isinstance(entry, dict)
        else entry
        for name, entry in meta.items()
    }


@pytest.fixture(scope="module")
def yaml_file(tmp_path_factory):
    weights = {"dino": "toyworld"}
    looking = {**CONFIG["observe"], "feature_weights": weights}
    return saved_yaml(tmp_path_factory.mktemp("yaml"), CONFIG, "bytes.yaml", observe=looking)


@pytest.fixture(scope="module")
def kept_figures():
    return {}


@pytest.fixture(scope="module")
def whole_run(yaml_file, kept_figures, tmp_path_factory):
    """A run that one process drew in one go."""
    run = tmp_path_factory.mktemp("whole") / "run"
    with pytest.MonkeyPatch.context() as monkeypatch:
        remember_figures(monkeypatch, kept_figures)
        assert main([str(yaml_file), "--out", str(run), "--quiet", "--workers", "1"]) == 0
    return run


@pytest.fixture(scope="module")
def whole(whole_run):
    """Its files."""
    found = tree(whole_run)
    kinds = {name.partition("/")[0] for name in found}
    assert {"samples", "captures", "words", "objects", "features", "traced", "tables", "figures"} < kinds
    assert {"report.html", "triplets.yaml"} < kinds
    assert {name.rpartition(".")[2] for name in found if name.startswith("figures/")} == {"pdf", "png"}
    return found


def test_two_processes_in_another_folder(yaml_file, whole, whole_run, tmp_path, monkeypatch, capfd):
    (tmp_path / "deep" / "er").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "deep" / "er")
    capfd.readouterr()
    assert main([str(yaml_file), "--out", "another", "--quiet", "--workers", "2"]) == 0
    assert capfd.readouterr().err == ""  # of helpers neither warnings nor progress
    run = tmp_path / "deep" / "er" / "another"
    assert tree(run) == whole
    assert noted(run) == noted(whole_run)
    meta = json.loads((run / "run.json").read_text())
    assert (meta["device"]["workers"], meta["device"]["threads"]) == (2, 1)
    assert (meta["observer"]["workers"], meta["observer"]["threads"]) == (2, 1)
    assert meta["config"]["resolved"]["generate"]["workers"] == 2
    assert json.loads((whole_run / "run.json").read_text())["device"]["workers"] == 1


@pytest.mark.slow
def test_killed_and_gone_on_with_and_a_damaged_part(
    yaml_file, whole, kept_figures, tmp_path, monkeypatch, capsys
):
    """Figures of the same tables are drawn once; two processes and shards draw them anew."""
    remember_figures(monkeypatch, kept_figures)
    run, until = tmp_path / "run", time.monotonic() + PATIENCE
    for kind in ("samples", "objects", "traced"):
        process = Forked("triptych.cli.run", yaml_file, "--out", run, "--quiet", "--workers", "2")
        while not any((run / kind).glob("part-*.parquet")) and process.poll() is None:
            assert time.monotonic() < until
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL if kind != "objects" else signal.SIGTERM)
        process.communicate(PATIENCE)
    part = run / "samples" / "part-00000.parquet"
    part.write_bytes(part.read_bytes()[:-100])
    assert main([str(yaml_file), "--out", str(run), "--quiet", "--workers", "1"]) == 0
    assert tree(run) == whole
    for stage in ("measure", "report"):  # from the folder alone
        assert main([str(run), "--quiet", "--workers", "2", "--stage", stage]) == 0
    assert tree(run) == whole
    assert "made again" in capsys.readouterr().err


def test_two_shards(yaml_file, whole, tmp_path):
    for one in shards_started(yaml_file, tmp_path / "run", 2):
        _, err = one.communicate(PATIENCE)
        assert one.returncode == 0, err
    assert tree(tmp_path / "run") == whole


@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs Ray (triptych[cluster])")
def test_ray_on_this_machine_which_ends_without_a_word_of_its_own(yaml_file, whole, tmp_path):
    line = [sys.executable, "-m", "probes.run", str(yaml_file), "--out", str(tmp_path / "run")]
    done = subprocess.run(
        [*line, "--cluster", "local"], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 0 and done.stdout.endswith(f"\nreport: {tmp_path / 'run' / 'report.html'}\n")
    told = [part for part in re.split(r"[\r\n]+|\x1b\[A", done.stderr) if part.strip()]
    own = re.compile(
        r"(cluster: Ray|generate|observe|trace|measure|report|with \d+ prompts no p of a gap)\b.*"
    )
    assert [part for part in told if not own.match(part.strip())] == []
    assert tree(tmp_path / "run") == whole
