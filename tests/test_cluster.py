"""Runs on a local Ray, which ends with its run; `tests/test_same_bytes.py` compares their bytes."""

import contextlib
import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from probes.config.schema import Config
from probes.errors import UserError, pip_line
from probes.runs.parts import part_name
from probes.runs.run import Run
from tests.probes.conftest import stored
from tests.probes.execution.light_work import LightWork, light_part
from tests.runs import PATIENCE, ROOT, run_here
from triptych.cli.main import main

on_ray = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs Ray (triptych[cluster])")


def test_without_ray_one_line_says_what_to_install(tiny, tmp_path, capsys, monkeypatch):
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "ray" else real(name))
    assert main([str(tiny.yaml), "--out", str(tmp_path / "run"), "--cluster", "auto"]) == 2
    told = f"--cluster: expected Ray, found none installed: {pip_line('cluster')}\n"
    assert capsys.readouterr().err == told
    assert not (tmp_path / "run").exists()


def test_the_plan_names_the_workers_and_needs_no_cluster(tiny, capsys):
    assert main(["plan", str(tiny.yaml), "--cluster", "head:6379"]) == 0
    said = "cluster: as many workers of Ray (head:6379) as there is room for, each with a GPU, where there are any,"
    assert said in capsys.readouterr().out


@pytest.mark.parametrize("value", ["head", "http://head:1", "ray://head:10001", ""])
def test_an_address_that_is_none(value, tiny, tmp_path, capsys):
    assert main([str(tiny.yaml), "--out", str(tmp_path / "run"), "--cluster", value]) == 2
    told = capsys.readouterr().err
    assert told.startswith(
        "--cluster: expected auto, local, none or the address of a running Ray as host:port"
    )


TOKEN = {"RAY_AUTH_MODE": "token"}  # as docs/how_to/clusters.md says


@contextlib.contextmanager
def two_nodes(folder):
    """A Ray of two nodes, of one and of two CPUs, started as on two machines; gives its address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    common = ["--block", "--disable-usage-stats", "--object-store-memory", str(100 * 2**20)]
    head = ["--head", "--port", address.rpartition(":")[2], "--num-cpus", "1", "--include-dashboard", "false"]
    nodes = []
    with open(folder / "ray", "wb") as said:
        try:
            for more in (head, ["--address", address, "--num-cpus", "2"]):
                line = [str(Path(sys.executable).with_name("ray")), "start", *more, *common]
                options = {"stdout": said, "stderr": said, "start_new_session": True, "cwd": folder}
                nodes.append(subprocess.Popen(line, env={**os.environ, **TOKEN}, **options))
                until = time.monotonic() + PATIENCE
                while (folder / "ray").read_text().count("Ray runtime started") < len(nodes):
                    assert nodes[-1].poll() is None and time.monotonic() < until, (folder / "ray").read_text()
                    time.sleep(0.5)
            yield address
        finally:
            for node in nodes:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(node.pid, signal.SIGTERM)
            for node in nodes:
                node.wait(PATIENCE)


@on_ray
@pytest.mark.slow
def test_two_nodes_that_see_no_folder_of_the_run_give_the_same_bytes(toyworld, tmp_path):
    """A worker that is killed meanwhile costs its part's time: Ray makes it again elsewhere."""
    path, said = tmp_path / "run", tmp_path / "said"
    with two_nodes(tmp_path) as address:
        line = [sys.executable, "-m", "triptych", "run", toyworld.yaml, "--out", path, "--cluster", address]
        with open(said, "wb") as streams:
            driver = subprocess.Popen(
                [*map(str, line)],
                cwd=ROOT,
                stdout=streams,
                stderr=subprocess.STDOUT,
                env={**os.environ, **TOKEN},
            )
        until, worker = time.monotonic() + PATIENCE, None
        while worker is None and driver.poll() is None and time.monotonic() < until:
            time.sleep(0.1)
            if not count_of(path):  # the call before is for settings
                continue
            names = {one: " ".join(one.info["cmdline"] or ()) for one in psutil.process_iter(["cmdline"])}
            worker = next((one for one, name in names.items() if name.startswith("ray::_call")), None)
        assert worker is not None, said.read_text()
        worker.kill()
        assert driver.wait(PATIENCE) == 0, said.read_text()
    told = said.read_text()
    assert ": 2 nodes, 3 CPUs\n" in told and "Traceback" not in told
    assert stored(path) == stored(toyworld.run)
    assert (path / "report.html").read_bytes() == (toyworld.run / "report.html").read_bytes()
    record = json.loads((path / "run.json").read_text())["cluster"]
    assert set(record) == {"generate", "observe objects", "observe features/dino", "trace"}
    assert len(record["generate"]["devices"]) == 1


@on_ray
@pytest.mark.slow
def test_what_a_worker_raises_is_a_line_and_other_versions_are_refused(tiny, tmp_path, monkeypatch):
    from probes.execution import loop, on_ray

    config = Config(prompts=["a {person}"], cluster={"address": "local", "workers": 1})
    with on_ray.connected(config, progress=False) as cluster:
        assert cluster.run_function(max, 1, 2) == 2
        with pytest.raises(UserError, match="expected a run directory, found no run"):
            cluster.run_function(Run.open, str(tmp_path))
        with pytest.raises(on_ray.RayError, match="invalid literal"):
            cluster.run_function(int, "one")
        run = Run(tmp_path / "run", {"format": 4, "status": "planned", "config": {"resolved": {}}})
        command = loop.StageCall(cluster=cluster, progress=False)
        parts = [light_part(run, number) for number in range(4)]
        with pytest.raises(UserError, match=r"could not make 2 \(.*ZeroDivisionError.*others are there"):
            loop.make_parts(run, "light", parts, parts, LightWork(), command)
        assert [file.name for file in run.parts("samples")] == [part_name(number) for number in (0, 1, 3)]
        monkeypatch.setattr(on_ray, "versions", lambda: {"torch": "0.1"})
        with pytest.raises(UserError, match=r"cluster: expected torch 0\.1 on .*, as on the driver, found"):
            cluster.run_function(max, 1, 2)
        monkeypatch.undo()
        cluster._devices[:] = ["another"]
        with pytest.raises(UserError, match="cluster: expected workers on another, like the first, got cpu"):
            loop.make_parts(run, "light", parts, [parts[2]], LightWork(faults=()), command)


def count_of(path):
    return len(list((path / "samples").glob("part-*.parquet")))


@on_ray
@pytest.mark.slow
@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGKILL, -9)])
def test_a_local_ray_ends_with_its_run_which_goes_on(number, status, tiny, tmp_path):
    path, said = tmp_path / "run", tmp_path / "said"
    line = [sys.executable, "-m", "probes.run", tiny.yaml, "--out", path, "--stage", "generate"]
    with open(said, "wb") as streams:
        line = [*map(str, line), "--cluster", "local"]
        process = subprocess.Popen(line, cwd=ROOT, stdout=streams, stderr=subprocess.STDOUT)
    until = time.monotonic() + PATIENCE
    while not count_of(path) and process.poll() is None and time.monotonic() < until:
        time.sleep(0.05)
    helpers = psutil.Process(process.pid).children(recursive=True)
    (raylet,) = (helper for helper in helpers if helper.name() == "raylet")
    guarded = {"RAY_AUTH_MODE": "token", "RAY_USAGE_STATS_ENABLED": "0"}
    assert guarded.items() <= raylet.environ().items()
    process.send_signal(number)
    assert process.wait(PATIENCE) == status
    _, alive = psutil.wait_procs(
        helpers, timeout=180
    )  # of a Ray without its driver the last go after a minute
    assert not alive
    told = said.read_text().replace("\r", "\n").splitlines()
    if number == signal.SIGTERM:
        assert told[-1] == "terminated: run the same command again to go on, finished parts are kept"
    assert not [line for line in told if "raylet" in line or "Traceback" in line], told
    assert run_here(tiny.yaml, path, "--stage", "generate", "--workers", "1", "--cluster", "none") == 0
    assert count_of(path) == 3
