"""Kills at random moments, half of them -9: whatever moment it is, the run goes on to the same bytes.

A run is killed, started again, killed again, and so on until it comes to its end. Each attempt is a process forked from
this one, which has loaded the libraries, so that it begins at once; its helper is forked from it in turn, where a run
of its own spawns one and waits for it to load. Minutes of a processor, so among the slow tests: the others end a
process at calls that write (`tests/test_faults.py`) and, with spawned helpers, by signals (`tests/test_workers.py`).
"""

import multiprocessing
import os
import random
import shutil
import signal
import sys
import time
from collections import Counter

import psutil
import pytest

from probes.execution import signals, team
from tests.probes.conftest import stored
from tests.tiny_runs import run_here, saved_yaml, shards_started
from triptych.cli.run import main

STAGES = ("generate", "observe", "measure")
PARTS = 12
PATIENCE = 900  # seconds until a helper that is at work finds its run ended, on a machine that is busy
CONFIG = {
    "name": "killed",
    "indicators": {"neutral": "person", "feminine": "woman", "masculine": "man"},
    "prompts": [f"a {{person}} with a {thing}" for thing in ("dog", "cat", "ball", "book", "hat", "cup")],
    "seeds": [0, 1],
    "sampler": {"steps": 1},
    "capture": {"sites": ["text.final", "unet.mid", "latent.final"]},
    "generate": {"part_triplets": 1, "batch_triplets": 1, "device": "cpu"},
    "observe": {"engine": "toyworld-checker"},
    "measure": {"bootstrap": 20, "permutations": 20},
}


@pytest.fixture(scope="module")
def yaml_file(tmp_path_factory):
    return saved_yaml(tmp_path_factory.mktemp("yaml"), CONFIG, "killed.yaml")


def stages(yaml_file, path, workers):
    """All stages in turn, as the command line does them."""
    for stage in STAGES:
        status = main(
            [str(yaml_file), "--out", str(path), "--quiet", "--workers", str(workers), "--stage", stage]
        )
        if status:
            return status
    return 0


@pytest.fixture(scope="module")
def whole(yaml_file, tmp_path_factory):
    """The bytes of an undisturbed run, and how long another took in a process of its own, with all loaded."""
    folder = tmp_path_factory.mktemp("whole")
    assert stages(yaml_file, folder / "run", 1) == 0
    expected, began = stored(folder / "run"), time.monotonic()
    assert len([name for name in expected if name.startswith("samples/")]) == PARTS
    assert ended(forked(yaml_file, folder / "again", 1, folder / "said")) == 0
    took = time.monotonic() - began
    finished(folder / "again", expected)
    return expected, took


def forked(yaml_file, path, workers, said):
    """Start all stages in a process of their own; gives its number."""
    # a signal that comes before the child can take it waits until it does, however busy the machine is
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    child = os.fork()
    if child:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
        return child
    status = 1
    try:
        signal.signal(
            signal.SIGTERM, signals.terminate
        )  # as `signals.raise_from_here` does for a command line
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
        sys.stdout, sys.stderr = (os.fdopen(number, "w", closefd=False) for number in (1, 2))
        team._Helper.started = forked_helper
        status = stages(yaml_file, path, workers)
    except signals.Terminated:  # between two stages
        status = 143
    finally:
        sys.stderr.flush()
        os._exit(status)


def forked_helper():
    """A helper as `probes.execution.team` starts it, but forked."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    process = context.Process(target=serve, args=(ours, theirs), daemon=True)
    with team.blocked(signal.SIGINT, signal.SIGTERM):
        process.start()
    theirs.close()
    return team._Helper(process, ours)


def serve(ours, theirs):
    """A helper's work; it holds no copy of the other end of its pipe, by which it finds its run ended."""
    ours.close()
    team._serve(theirs)


def ended(child):
    """The exit status of a process, or the signal that ended it, negative; its helpers are to be gone soon."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def killed_often(yaml_file, folder, whole, kills, workers=1, seed=0):
    """Kill so many attempts; every run that comes to its end is compared with the undisturbed one."""
    (expected, took), draw, counts = whole, random.Random(seed), Counter()
    path, said = folder / "run", folder / "said"
    while counts["killed"] < kills:
        child = forked(yaml_file, path, workers, said)
        number = (signal.SIGKILL, signal.SIGTERM)[counts["killed"] % 2]
        time.sleep(draw.random() * took)
        helpers = psutil.Process(child).children(recursive=True)
        os.kill(child, number)  # of one that has ended nothing comes: it is not waited for yet
        status = ended(child)
        if status == 0:
            counts["ended by itself"] += 1
            finished(path, expected)
            continue
        counts["killed"] += 1
        counts[f"while {reached(path)}"] += 1
        assert status == (-9 if number == signal.SIGKILL else 143), (status, said.read_text())
        if status == 143:
            line = "\nterminated: run the same command again to go on, finished parts are kept\n"
            assert said.read_text() in (line, "")  # nothing between two stages
        _, alive = psutil.wait_procs(helpers, timeout=PATIENCE)
        assert not [process for process in alive if "resource_tracker" not in " ".join(process.cmdline())]
        there = {
            name: data for name, data in stored(path).items() if ".tmp-" not in name and "tables" not in name
        }
        assert all(expected[name] == data for name, data in there.items())
    status = ended(forked(yaml_file, path, workers, said))
    assert status == 0, said.read_text()
    finished(path, expected)
    return counts


def reached(path):
    """Where a run was killed, by what there is of it."""
    kinds = [kind for kind in ("samples", "observed", "tables") if any((path / kind).glob("*.parquet"))]
    return {0: "beginning", 1: "drawing", 2: "looking", 3: "measuring"}[len(kinds)]


def finished(path, expected):
    """Hold a run that came to its end against the undisturbed one, and clear it away."""
    assert stored(path) == expected
    assert not list(path.rglob(".tmp-*"))
    shutil.rmtree(path)


@pytest.mark.slow
@pytest.mark.parametrize(("workers", "kills"), [(1, 140), (2, 60)])
def test_two_hundred_kills(workers, kills, yaml_file, whole, tmp_path, capsys):
    counts = killed_often(yaml_file, tmp_path, whole, kills, workers=workers, seed=workers)
    with capsys.disabled():
        print(f"{workers} processes: {dict(counts)}")


@pytest.mark.slow
def test_forty_kills_of_shards(yaml_file, whole, tmp_path, capsys):
    """Random ones among three shards that are started again and again; the last one out finishes."""
    path, draw, counts, expected = tmp_path / "run", random.Random(0), Counter(), whole[0]
    while counts["killed"] < 40:
        started = shards_started(yaml_file, path, 3)
        for one in draw.sample(started, 2):
            time.sleep(draw.random() * 2)
            if one.poll() is None:
                one.send_signal((signal.SIGKILL, signal.SIGTERM)[counts["killed"] % 2])
                counts["killed"] += 1
        for one in started:
            _, err = one.communicate(timeout=PATIENCE)
            assert one.returncode in (0, -9, 143), err
        there = {n: d for n, d in stored(path).items() if ".tmp-" not in n and not n.startswith("tables")}
        assert all(expected[name] == data for name, data in there.items())
        if (path / "report.html").exists():
            counts["ended"] += 1
            shutil.rmtree(path)
    for one in shards_started(yaml_file, path, 3):
        _, err = one.communicate(timeout=PATIENCE)
        assert one.returncode == 0, err
    assert run_here(yaml_file, path, "--stage", "measure") == 0
    finished(path, expected)
    with capsys.disabled():
        print(f"shards: {dict(counts)}")
