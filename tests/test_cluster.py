"""Runs on Ray: the same bytes as by one process, whoever is killed; a cluster of several machines on this one."""

import importlib.util
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from functools import partial

import psutil
import pytest

from probes.config.cluster_options import Cluster as Options
from probes.execution.cluster.pool import Pool
from probes.execution.cluster.worker import libraries
from probes.execution.part import make_whole
from tests import clusters
from tests.forked import ROOT
from tests.probes.conftest import stored
from tests.probes.execution.cluster import light_stage
from tests.test_kills import CONFIG
from tests.test_stopping import CONFIG as STOPS
from tests.tiny_runs import saved_yaml
from triptych.cli.run import main

PATIENCE = 1800  # seconds, also on a machine that is busy otherwise
PARTS = 48
on_ray = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs Ray (triptych[cluster])")


@pytest.fixture(scope="module")
def yaml_file(tmp_path_factory):
    seeds = {"count": PARTS // len(CONFIG["prompts"])}
    return saved_yaml(
        tmp_path_factory.mktemp("yaml"), CONFIG, "killed.yaml", seeds=seeds, sampler={"steps": 4}
    )


def test_without_ray_one_line_says_what_to_install(yaml_file, tmp_path, capsys, monkeypatch):
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "ray" else real(name))
    assert main([str(yaml_file), "--out", str(tmp_path / "run"), "--cluster", "auto"]) == 2
    told = "--cluster: expected Ray, found none installed: pip install 'triptych[cluster]'\n"
    assert capsys.readouterr().err == told
    assert not (tmp_path / "run").exists()


def test_the_dry_run_names_the_workers_and_needs_no_cluster(yaml_file, capsys):
    assert main([str(yaml_file), "--dry-run", "--cluster", "head:6379"]) == 0
    said = "cluster: as many workers of Ray (head:6379) as there is room for, each with a GPU, where there are any,"
    assert said in capsys.readouterr().out


@pytest.mark.parametrize("value", ["head", "http://head:1", "ray://head:10001", ""])
def test_an_address_that_is_none(value, yaml_file, tmp_path, capsys):
    assert main([str(yaml_file), "--out", str(tmp_path / "run"), "--cluster", value]) == 2
    told = capsys.readouterr().err
    assert told.startswith(
        "--cluster: expected auto, local, none or the address of a running Ray as host:port"
    )


def test_a_cluster_of_none_is_this_machine(yaml_file, tmp_path):
    options = [
        "--out",
        str(tmp_path / "run"),
        "--quiet",
        "--workers",
        "1",
        "--limit",
        "1",
        "--stage",
        "generate",
    ]
    assert main([str(yaml_file), *options, "--cluster", "none", "--seeds", "0"]) == 0
    assert "cluster" not in json.loads((tmp_path / "run/run.json").read_text())


def test_importing_the_package_imports_no_ray():
    code = "import sys, triptych.cli.run, probes.execution.cluster.driver\nprint('ray' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.stdout == "False\n", done.stderr


def make_alone(folder, count):
    """Parts of the light stage, made in this process."""
    with light_stage.opened(light_stage.job(folder, 0.0)) as making:
        for number in range(count):
            make_whole(making.part(number), making.do)


def folder_of(path):
    """What a folder holds but for the unfinished file of a writer that was killed, which a later run removes."""
    files = (file for file in sorted(path.iterdir()) if not file.name.startswith(".tmp-"))
    return {file.name: file.read_bytes() for file in files}


@on_ray
def test_a_worker_and_a_machine_are_lost_for_good_and_another_joins(tmp_path, capsys):
    """Without models, so that workers are there in seconds; the same code places, loses and replaces them."""
    from probes.execution.cluster import on_ray

    folder, alone = tmp_path / "parts", tmp_path / "alone"
    make_alone(alone, 24)
    with clusters.machines(1, 2) as machines:
        before = signal.getsignal(signal.SIGTERM)
        with on_ray.connected(Options()) as where:
            assert "3 nodes, 2 CPUs" in where and signal.getsignal(signal.SIGTERM) is not None
            kind, room = on_ray.actors(Options(), on_cpu=True)
            assert room == 2
            pool, at = Pool(on_ray.ray, kind, room, versions=libraries()), []

            def looked():
                if len(told) >= 3 and not at:
                    at.append("worker")
                    assert clusters.kill(clusters.actors()[0])
                if len(told) >= 8 and len(at) == 1 and clusters.actors():
                    at.append("machine")
                    clusters.add(machines, 1)
                    lost = clusters.machine_of(machines, clusters.actors()[0])
                    machines.remove_node(lost, allow_graceful=False)

            tasks, told = [light_stage.task_of(folder, number) for number in range(24)], []
            job = light_stage.job(folder, 0.3)
            assert pool.make(f"{light_stage.HERE}:opened", job, tasks, told.append, looked) == {}
            assert pool.lost.workers >= 2
            until = time.monotonic() + 60  # Ray may find the workers lost before their machine
            while not pool.lost.nodes and time.monotonic() < until:
                time.sleep(0.2)
                pool.count_machines()
            assert len(pool.lost.nodes) == 1
            pool.close()
        assert signal.getsignal(signal.SIGTERM) is before
    assert folder_of(folder) == folder_of(alone) and len(told) == 24
    assert at == ["worker", "machine"] and capsys.readouterr().out == ""
    assert not clusters.leftovers()


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


class Kills:
    """Kills of workers and machines at random moments, in an order that is drawn.

    Machines come back, but for the second, which is lost for good; with the third another joins that was not there.
    """

    def __init__(self, machines, seed, workers=20, nodes=5):
        self.machines, self.draw, self.counts = machines, random.Random(seed), Counter()
        self.left = ["worker"] * workers + ["machine"] * nodes
        self.draw.shuffle(self.left)
        self.due = 0.0

    def strike(self):
        """The next of them, if there is a worker to be killed."""
        alive = clusters.actors()
        if not self.left or not alive:
            return
        if self.left.pop() == "worker":
            self.counts["worker"] += clusters.kill(self.draw.choice(alive))
            return
        nodes = sorted(self.machines.worker_nodes, key=str)
        self.machines.remove_node(self.draw.choice(nodes), allow_graceful=False)
        self.counts["machine"] += 1
        if self.counts["machine"] != 2 or not self.machines.worker_nodes:
            clusters.add(self.machines, 2)
        if self.counts["machine"] == 3:
            clusters.add(self.machines, 1)

    def strike_at_times(self, between):
        """The next of them, where some seconds have passed since the last."""
        if time.monotonic() >= self.due:
            self.strike()
            self.due = time.monotonic() + self.draw.uniform(*between)


@on_ray
@pytest.mark.slow
def test_a_run_that_stops_makes_the_same_decision(tmp_path):
    yaml_file = saved_yaml(tmp_path, STOPS)
    options = ["--quiet", "--workers", "1", "--stage", "generate"]
    assert main([str(yaml_file), "--out", str(tmp_path / "one"), *options]) == 0
    said = tmp_path / "said"
    process = start(yaml_file, tmp_path / "run", said, "--quiet", "--cluster", "local")
    assert process.wait(PATIENCE) == 0, said.read_text()
    assert stored(tmp_path / "run") == stored(tmp_path / "one")
    one, run = (json.loads((tmp_path / name / "run.json").read_text()) for name in ("one", "run"))
    for key in ("images", "parts", "stopped_after", "stopping"):
        assert run[key] == one[key], key
    assert 0 < run["parts"] < len(STOPS["prompts"]) // 2


@on_ray
@pytest.mark.slow
def test_twenty_kills_of_workers_and_five_of_machines(yaml_file, tmp_path, capsys):
    options = ["--quiet", "--workers", "1", "--stage", "generate"]
    assert main([str(yaml_file), "--out", str(tmp_path / "one"), *options]) == 0
    expected = stored(tmp_path / "one")
    assert sum(name.startswith("samples/") for name in expected) == PARTS
    path, said, began, counts = tmp_path / "run", tmp_path / "said", time.monotonic(), Counter()
    with clusters.machines(2, 2) as machines:
        kills = Kills(machines, 17)
        while kills.left:  # the run may come to its end before the last: then it is begun anew
            process, before = start(yaml_file, path, said, "--cluster", "auto"), 0
            while process.poll() is None:
                assert time.monotonic() - began < PATIENCE, said.read_text()
                if (
                    count_of(path) > before
                ):  # a run of which nothing comes to its end says so after eight workers
                    time.sleep(kills.draw.uniform(0.0, 3.0))
                    before = count_of(path)
                    kills.strike()
                time.sleep(0.1)
            assert process.returncode == 0, said.read_text()
            assert stored(path) == expected
            assert not list(path.rglob(".tmp-*"))
            counts["runs"] += 1
            counts.update(json.loads((path / "run.json").read_text())["cluster"]["generate"]["lost"])
            path = tmp_path / f"run{counts['runs']}"
    assert not clusters.leftovers()
    with capsys.disabled():
        print(f"{dict(kills.counts)}, lost {dict(counts)} in {time.monotonic() - began:.0f} s")


@on_ray
@pytest.mark.slow
def test_twenty_kills_of_workers_and_five_of_machines_without_models(tmp_path, capsys):
    """As above, with parts that are there at once, so that the kills come quickly; 1,000 parts."""
    from probes.execution.cluster import on_ray

    folder, alone, count, began = tmp_path / "parts", tmp_path / "alone", 1000, time.monotonic()
    make_alone(alone, count)
    with clusters.machines(2, 2) as machines, on_ray.connected(Options()):
        kind, room = on_ray.actors(Options(), on_cpu=True)
        pool, told, runs = Pool(on_ray.ray, kind, room, versions=libraries()), [], 0
        kills = Kills(machines, 23)
        while kills.left or not runs:
            runs += 1
            tasks = [light_stage.task_of(folder / str(runs), number) for number in range(count)]
            job = light_stage.job(folder / str(runs), 0.1)
            looked = partial(kills.strike_at_times, (0.2, 1.5))
            assert pool.make(f"{light_stage.HERE}:opened", job, tasks, told.append, looked) == {}
            assert time.monotonic() - began < PATIENCE
        pool.count_machines()
        pool.close()
    assert kills.counts == {"worker": 20, "machine": 5} and len(told) == runs * count
    assert 4 <= len(pool.lost.nodes) <= 5  # the last may not be known yet
    for run in range(runs):
        names = {name: data for name, data in folder_of(folder / str(run + 1)).items() if ".tmp-" not in name}
        assert names == folder_of(alone)
    with capsys.disabled():
        print(f"{dict(kills.counts)}, {pool.lost}, {runs} runs in {time.monotonic() - began:.0f} s")


@on_ray
@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_local_ray_ends_with_its_run_which_goes_on(number, yaml_file, tmp_path):
    path, said = tmp_path / "run", tmp_path / "said"
    process = start(yaml_file, path, said, "--cluster", "local", "--seeds", "0", "1")
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
    options = ["--out", str(path), "--quiet", "--stage", "generate", "--workers", "1", "--cluster", "none"]
    assert main([str(yaml_file), *options, "--seeds", "0", "1"]) == 0
    assert count_of(path) == 12
