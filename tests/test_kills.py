"""Kills: whoever is ended in a stage, the run goes on to the same bytes; `tests/test_faults.py` ends it at any write.

Each attempt is a process forked from this one, which has loaded the libraries, so that it begins at once; its helper is
forked from it in turn.
"""

import contextlib
import os
import shutil
import signal
import sys
import time

import psutil
import pytest

from probes import command_line
from tests.probes.conftest import stored
from tests.runs import PATIENCE, run_here


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
    ("who", "stage"),
    [
        ("helper", "generate"),
        ("parent", "observe"),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (("terminal", "generate"), ("batch system", "generate"), ("parent", "generate"))
        ),
    ],
)
def test_whoever_of_two_workers_is_ended_the_run_goes_on_to_the_same_bytes(
    who, stage, tiny, tiny_copy, tmp_path
):
    path, said, expected = tiny_copy, tmp_path / "said", stored(tiny.run)
    if stage == "generate":
        shutil.rmtree(path)
    for kind in ("observed", "objects", "features", "attributes"):
        shutil.rmtree(path / kind, ignore_errors=True)
    line = (tiny.yaml, path, "--workers", "2", "--stage", stage)
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
    assert run_here(tiny.yaml, path, "--stage", stage) == 0
    assert all(expected[name] == data for name, data in stored(path).items())
    assert not list(path.rglob(".tmp-*"))


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
    finally:
        sys.stderr.flush()
        os._exit(status)


def ended(child):
    """The exit status of a process, or the signal that ended it, negative; its helpers are to be gone soon."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
