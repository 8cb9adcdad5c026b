"""A run by several processes: the same bytes as by one, whoever is killed, and one line for what is wrong."""

import json
import os
import signal
import time

import numpy as np
import psutil
import pytest

from analysis.observe.stage import observe
from probes.errors import UserError
from tests import tiny_runs
from tests.analysis.observe.stored_images import image_run
from tests.forked import Forked
from tests.probes.conftest import stored
from tests.tiny_runs import saved_yaml
from triptych.cli.run import main

PATIENCE = 900  # seconds, also on a machine that is busy otherwise
CONFIG = {
    "name": "small",
    "indicators": {"neutral": "person", "feminine": "woman", "masculine": "man"},
    "prompts": ["a {person} with a dog", "a {person} in a car", "a {person} reading a book"],
    "seeds": [0, 1],
    "sampler": {"steps": 20},
    "capture": {"keep": ["latent.final"]},
    "generate": {"part_triplets": 1, "batch_triplets": 1, "device": "cpu"},
    "observe": {"engine": "toyworld-checker", "batch": 2},
    "measure": {"bootstrap": 20, "permutations": 20},
    "report": {"gallery": 1},
}


@pytest.fixture(scope="module")
def yaml_file(tmp_path_factory):
    return saved_yaml(tmp_path_factory.mktemp("yaml"), CONFIG, "small.yaml")


@pytest.fixture(scope="module")
def whole(yaml_file, tmp_path_factory):
    """By one worker, this process; measured it is by `tests/test_same_bytes.py`."""
    path = tmp_path_factory.mktemp("whole") / "run"
    for stage in ("generate", "observe"):
        assert run_here(yaml_file, path, 1, "--stage", stage) == 0
    return path


def run_here(yaml_file, path, workers, *more):
    return tiny_runs.run_here(yaml_file, path, "--workers", workers, *more)


def start(yaml_file, path):
    options = ["--out", path, "--workers", "2", "--quiet", "--stage", "generate"]
    return Forked("triptych.cli.run", yaml_file, *options)


def helper_of(process):
    """The helper that a run has started."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until and process.poll() is None:
        for child in psutil.Process(process.pid).children():
            if "spawn_main" in " ".join(child.cmdline()):
                return child
        time.sleep(0.02)
    raise AssertionError(process.communicate()[1])


def wait_for(path, process):
    until = time.monotonic() + PATIENCE
    while not path.exists() and process.poll() is None and time.monotonic() < until:
        time.sleep(0.005)


def test_whoever_is_ended_the_run_goes_on_to_the_same_bytes(whole, yaml_file, tmp_path):
    """Four times the run is started again and ended again; of every part that is there not a byte is other."""
    path, expected = tmp_path / "run", stored(whole)
    # the last is ended as soon as it is there: the parts that are left would be drawn meanwhile
    for part, who in zip((0, 1, 2, 2), ("terminal", "batch system", "parent", "helper")):
        process = start(yaml_file, path)
        wait_for(path / "samples" / f"part-{part:05d}.parquet", process)
        helper = helper_of(process)
        if who == "helper":
            helper.kill()
        elif who == "terminal":  # Control-C: everybody hears of it
            os.killpg(process.pid, signal.SIGINT)
        elif who == "batch system":  # the time of the job is over: everybody hears of it, too
            os.killpg(process.pid, signal.SIGTERM)
        else:
            process.kill()
        out, err = process.communicate(timeout=PATIENCE)
        psutil.wait_procs([helper], timeout=60)
        assert not helper.is_running(), who
        status = {"helper": 2, "terminal": 130, "batch system": 143, "parent": -9}[who]
        assert (process.returncode, out) == (status, ""), err
        if who == "helper":
            assert err.count("\n") == 1 and "found it ended (SIGKILL" in err
            assert "finished parts are kept" in err
        if who in ("terminal", "batch system"):
            word = "interrupted" if who == "terminal" else "terminated"
            assert err == f"\n{word}: run the same command again to go on, finished parts are kept\n"
        finished = {name: data for name, data in stored(path).items() if ".tmp-" not in name}
        assert f"samples/part-{part:05d}.parquet" in finished
        assert all(expected[name] == data for name, data in finished.items())
    for stage in ("generate", "observe"):
        assert run_here(yaml_file, path, 1, "--stage", stage) == 0
    assert stored(path) == expected
    assert not list(path.rglob(".tmp-*"))


def test_a_bad_image_is_the_same_line_whoever_looks(tmp_path):
    images = [np.zeros((64, 64, 3), np.uint8)] * 8 + [np.zeros((32, 64, 3), np.uint8)]
    told, kept = [], []
    for workers in (1, 2):
        run = image_run(tmp_path / str(workers), images, ["a person"])
        run.meta["config"]["resolved"]["generate"]["workers"] = workers
        run.meta["config"]["resolved"]["observe"]["batch"] = 1
        with pytest.raises(UserError) as caught:
            observe(run, progress=False)
        told.append(str(caught.value))
        kept.append(stored(run.path))
    assert told[0] == told[1] and "toyworld-checker expected images of 64" in told[0]
    assert kept[0] == kept[1] and "observed/part-00001.parquet" in kept[1]
    assert "observed/part-00002.parquet" not in kept[1]


@pytest.mark.parametrize("value", ["0", "-1", "1000", "two", "2.5"])
def test_a_number_of_workers_that_is_none(value, yaml_file, tmp_path, capsys):
    assert run_here(yaml_file, tmp_path / "run", value) == 2
    told = capsys.readouterr().err
    shown = value if value.lstrip("-").isdigit() else repr(value)
    expected = f"expected `auto` or an integer from 1 to 256, got {shown}: choose one of them\n"
    assert told == f"--workers: {expected}"
    other = tmp_path / "other.yaml"
    other.write_text(json.dumps({**CONFIG, "generate": {"workers": json.loads(shown.replace("'", '"'))}}))
    assert main([str(other), "--out", str(tmp_path / "run"), "--quiet"]) == 2
    assert capsys.readouterr().err == f"other.yaml: generate.workers: {expected}"
    assert not (tmp_path / "run").exists()


def test_the_dry_run_says_how_many(yaml_file, capsys):
    told = []
    for workers in (1, 2):
        assert main([str(yaml_file), "--dry-run", "--workers", str(workers)]) == 0
        told.append(capsys.readouterr().out)
    assert "(1 worker of 1 thread)" in told[0] and "(2 workers of 1 thread)" in told[1]
    one, two = (float(text.split(" GB of memory")[0].split()[-1]) for text in told)
    assert two > 1.8 * one
