"""Kills: whatever moment it is, the run goes on to the same bytes.

Each attempt is a process forked from this one, which has loaded the libraries, so that it begins at once; its helper is
forked from it in turn.
"""

import contextlib
import os
import random
import shutil
import signal
import sys
import time

import psutil
import pytest

from probes import command_line
from tests.probes.conftest import stored
from tests.runs import PATIENCE, run_here, saved_yaml


@contextlib.contextmanager
def started(said, work):
    """A process forked from this one that does some work, with what it writes to standard error in a file."""
    child = forked(said, work)
    try:
        yield child
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)


def unfinished(path):
    """The parts and tables of a run but for what a writer that was killed has left."""
    return {
        name: data for name, data in stored(path).items() if name.endswith(".parquet") and ".tmp-" not in name
    }


def wait_for(found, child):
    """Wait until something is found, or the process has ended."""
    until = time.monotonic() + PATIENCE
    while not found() and psutil.Process(child).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < until
        time.sleep(0.005)


def helpers(child):
    """The processes that a run has started, but for Python's own."""
    children = psutil.Process(child).children()
    return [one for one in children if "resource_tracker" not in " ".join(one.cmdline())]


@pytest.mark.parametrize(
    "who",
    [
        "helper",
        *(pytest.param(who, marks=pytest.mark.slow) for who in ("terminal", "batch system", "parent")),
    ],
)
def test_whoever_of_two_workers_is_ended_the_run_goes_on_to_the_same_bytes(who, tiny, tmp_path):
    path, said, expected = tmp_path / "run", tmp_path / "said", stored(tiny.run)
    line = (tiny.yaml, path, "--workers", "2", "--stage", "generate")
    with started(said, lambda: run_here(*line)) as child:
        wait_for(lambda: helpers(child) and (path / "run.json").exists(), child)
        (helper,) = helpers(child)
        if who == "helper":
            helper.kill()
        elif who == "parent":
            os.kill(child, signal.SIGKILL)
        else:  # Control-C, or the time of the job is over: everybody hears of it
            os.killpg(child, signal.SIGINT if who == "terminal" else signal.SIGTERM)
        status = ended(child)
        psutil.wait_procs([helper], timeout=60)
        assert not helper.is_running() or helper.status() == psutil.STATUS_ZOMBIE
    err = said.read_text()
    assert status == {"helper": 2, "terminal": 130, "batch system": 143, "parent": -9}[who], err
    if who == "helper":
        assert err.count("\n") == 1 and "found one ended" in err and "finished parts are kept" in err
    if who in ("terminal", "batch system"):
        word = "interrupted" if who == "terminal" else "terminated"
        assert err == f"\n{word}: run the same command again to go on, finished parts are kept\n"
    assert all(expected[name] == data for name, data in unfinished(path).items())
    assert run_here(tiny.yaml, path, "--stage", "generate") == 0
    assert all(expected[name] == data for name, data in stored(path).items())
    assert not list(path.rglob(".tmp-*"))


# Fifty times

STAGES = ("generate", "observe", "measure")
PARTS = 12
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
        if status := run_here(yaml_file, path, "--workers", workers, "--stage", stage):
            return status
    return 0


@pytest.fixture(scope="module")
def whole(yaml_file, tmp_path_factory):
    """The bytes of an undisturbed run, and how long another took in a process of its own, with all loaded."""
    folder = tmp_path_factory.mktemp("whole")
    assert stages(yaml_file, folder / "run", 1) == 0
    expected, began = stored(folder / "run"), time.monotonic()
    assert len([name for name in expected if name.startswith("samples/")]) == PARTS
    assert ended(forked(folder / "said", lambda: stages(yaml_file, folder / "again", 1))) == 0
    took = time.monotonic() - began
    finished(folder / "again", expected)
    return expected, took


def forked(said, work):
    """Start some work in a process of its own, in a session of its own; return its number."""
    # a signal that comes before the child can take it waits until it does, however busy the machine is
    signals_held = [signal.SIGTERM, signal.SIGINT]
    signal.pthread_sigmask(signal.SIG_BLOCK, signals_held)
    child = os.fork()
    if child:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, signals_held)
        while os.getpgid(child) != child and psutil.Process(child).status() != psutil.STATUS_ZOMBIE:
            time.sleep(0.001)  # until then a signal to its group would be one to the tests
        return child
    status = 1
    try:
        os.setsid()
        command_line.raise_on_signals()
        signal.signal(signal.SIGTERM, command_line.handle_signal)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, signals_held)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
        sys.stdout, sys.stderr = (os.fdopen(number, "w", closefd=False) for number in (1, 2))
        status = work()
    except KeyboardInterrupt:  # between two stages
        status = 143
    finally:
        sys.stderr.flush()
        os._exit(status)


def ended(child):
    """The exit status of a process, or the signal that ended it, negative; its helpers are to be gone soon."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def killed_often(yaml_file, folder, whole, kills, workers=1, seed=0):
    """Kill so many attempts; every run that comes to its end is compared with the undisturbed one."""
    (expected, took), draw, killed = whole, random.Random(seed), 0
    path, said = folder / "run", folder / "said"
    while killed < kills:
        child = forked(said, lambda: stages(yaml_file, path, workers))
        number = (signal.SIGKILL, signal.SIGTERM)[killed % 2]
        time.sleep(draw.random() * took)
        helpers = psutil.Process(child).children(recursive=True)
        os.kill(child, number)  # of one that has ended nothing comes: it is not waited for yet
        status = ended(child)
        if status == 0:
            finished(path, expected)
            continue
        killed += 1
        assert status == (-9 if number == signal.SIGKILL else 143), (status, said.read_text())
        if status == 143:
            line = "\nterminated: run the same command again to go on, finished parts are kept\n"
            assert said.read_text() in (line, "")  # nothing between two stages
        _, alive = psutil.wait_procs(helpers, timeout=PATIENCE)
        assert not [process for process in alive if "resource_tracker" not in " ".join(process.cmdline())]
        there = {name: data for name, data in unfinished(path).items() if "tables" not in name}
        assert all(expected[name] == data for name, data in there.items())
    status = ended(forked(said, lambda: stages(yaml_file, path, workers)))
    assert status == 0, said.read_text()
    finished(path, expected)


def finished(path, expected):
    """Hold a run that came to its end against the undisturbed one, and clear it away."""
    assert stored(path) == expected
    assert not [*path.rglob(".tmp-*"), *path.rglob("*.parquet.lock")]
    shutil.rmtree(path)


@pytest.mark.parametrize(
    ("workers", "kills"),
    [(2, 3), *(pytest.param(*case, marks=pytest.mark.slow) for case in ((1, 30), (2, 20)))],
)
def test_kills_at_random_moments(workers, kills, yaml_file, whole, tmp_path):
    killed_often(yaml_file, tmp_path, whole, kills, workers=workers, seed=workers)
