"""Runs on a local Ray, which ends with its run; `tests/test_same_bytes.py` compares their bytes."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from probes.versions import pip_line
from tests.runs import PATIENCE, ROOT, run_here
from triptych.cli.run import main

on_ray = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs Ray (triptych[cluster])")


def test_without_ray_one_line_says_what_to_install(tiny, tmp_path, capsys, monkeypatch):
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "ray" else real(name))
    assert main([str(tiny.yaml), "--out", str(tmp_path / "run"), "--cluster", "auto"]) == 2
    told = f"--cluster: expected Ray, found none installed: {pip_line('cluster')}\n"
    assert capsys.readouterr().err == told
    assert not (tmp_path / "run").exists()


def test_the_dry_run_names_the_workers_and_needs_no_cluster(tiny, capsys):
    assert main([str(tiny.yaml), "--dry-run", "--cluster", "head:6379"]) == 0
    said = "cluster: as many workers of Ray (head:6379) as there is room for, each with a GPU, where there are any,"
    assert said in capsys.readouterr().out


@pytest.mark.parametrize("value", ["head", "http://head:1", "ray://head:10001", ""])
def test_an_address_that_is_none(value, tiny, tmp_path, capsys):
    assert main([str(tiny.yaml), "--out", str(tmp_path / "run"), "--cluster", value]) == 2
    told = capsys.readouterr().err
    assert told.startswith(
        "--cluster: expected auto, local, none or the address of a running Ray as host:port"
    )


def test_a_cluster_of_none_is_this_machine(tiny, tmp_path):
    more = ("--limit", "1", "--stage", "generate", "--cluster", "none")
    assert run_here(tiny.yaml, tmp_path / "run", *more) == 0
    assert "cluster" not in json.loads((tmp_path / "run/run.json").read_text())


def start(yaml_file, path, said, *more):
    """The command line in a process of its own, which writes what it says to a file."""
    line = [sys.executable, "-m", "probes.run", yaml_file, "--out", path, "--stage", "generate", *more]
    with open(said, "wb") as streams:
        return subprocess.Popen(
            [*map(str, line)],
            cwd=ROOT,
            stdout=streams,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=heeding,
        )


def heeding():
    """Heed Control-C, which what a shell starts in the background ignores."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def count_of(path):
    return len(list((path / "samples").glob("part-*.parquet")))


@on_ray
@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_local_ray_ends_with_its_run_which_goes_on(number, tiny, tmp_path):
    path, said = tmp_path / "run", tmp_path / "said"
    process = start(tiny.yaml, path, said, "--cluster", "local")
    until = time.monotonic() + PATIENCE
    while not count_of(path) and process.poll() is None and time.monotonic() < until:
        time.sleep(0.05)
    helpers = psutil.Process(process.pid).children(recursive=True)
    (raylet,) = (helper for helper in helpers if helper.name() == "raylet")
    guarded = {"RAY_AUTH_MODE": "token", "RAY_USAGE_STATS_ENABLED": "0"}
    assert guarded.items() <= raylet.environ().items()
    os.killpg(process.pid, number) if number != signal.SIGKILL else process.kill()
    process.wait(PATIENCE)
    _, alive = psutil.wait_procs(
        helpers, timeout=180
    )  # of a Ray without its driver the last go after a minute
    assert not alive
    told = said.read_text().replace("\r", "\n").splitlines()
    if number == signal.SIGKILL:
        assert process.returncode == -9
    else:
        word, status = {signal.SIGINT: ("interrupted", 130), signal.SIGTERM: ("terminated", 143)}[number]
        assert process.returncode == status, told
        assert told[-1] == f"{word}: run the same command again to go on, finished parts are kept"
    assert not [line for line in told if "raylet" in line or "Traceback" in line], told
    assert run_here(tiny.yaml, path, "--stage", "generate", "--workers", "1", "--cluster", "none") == 0
    assert count_of(path) == 3
