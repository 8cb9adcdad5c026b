"""Helpers: every item once, the error of one, and no process left behind."""

import multiprocessing
import os
import traceback

import pytest

from probes.errors import UserError
from probes.execution import processes
from probes.execution.processes import FORKS, Helpers
from probes.fields.types import WORKER
from tests.probes.execution.light_work import Marks, Numbers
from tests.runs import ROOT, python

HERE = os.getpid()
THREADS = """
import threading
from probes.execution.processes import FORKS, _can_fork

assert _can_fork() == FORKS
event = threading.Event()
threading.Thread(target=event.wait).start()
assert not _can_fork()  # a fork would not have the thread, but any lock that it holds
event.set()
"""
SCRIPT = """
import os
from pathlib import Path
from probes.execution.processes import Helpers
from probes.fields.types import WORKER
from tests.probes.execution.light_work import Marks

print("once", flush=True)  # helpers do not run this script again
with Helpers() as helpers:
    items = [(i, (i, b"")) for i in range(6)]
    made = dict(helpers.results(Marks(Path("FOLDER")), items, 2))
assert len({pid for _, pid, *_ in made.values()}) == 2
"""


@pytest.fixture(params=[pytest.param(True, marks=pytest.mark.skipif(not FORKS, reason="needs Linux")), False])
def forks(request, monkeypatch):
    """Whether helpers are forked, or spawned."""
    monkeypatch.setattr(processes, "_can_fork", lambda: request.param)
    return request.param


def done(work, items=8, workers=2, tick=lambda images: None, size=10):
    """What is made of some items with helpers of their own, and what that raised."""
    made, error, given = [], None, [(index, (index, bytes(size))) for index in range(items)]
    try:
        with Helpers() as helpers:
            for index, one in helpers.results(work, given, workers, tick):
                made.append((index, *one))
    except Exception as caught:
        error = caught
    assert not multiprocessing.active_children()
    return made, error


@pytest.mark.parametrize("workers", [1, 3])
def test_every_item_is_worked_on_once(workers, tmp_path, forks):
    if workers == 1:
        (tmp_path / "mark").touch()  # no helper will leave one
    ticks = []
    made, error = done(Marks(tmp_path), 12, workers, ticks.append)
    assert error is None and sum(ticks) == 12
    assert sorted(index for index, *_ in made) == list(range(12))
    assert all(index == number for index, number, *_ in made)
    pids = {pid for _, _, pid, *_ in made}
    assert HERE in pids and 2 - (workers == 1) <= len(pids) <= workers


def test_what_does_not_fit_into_a_pipe_comes_through(tmp_path, forks):
    made, error = done(Marks(tmp_path, payload=3_000_000), 9, 2, size=2_000_000)
    assert error is None
    assert {(size, len(data)) for *_, size, data in made} == {(2_000_000, 3_000_000)}


@pytest.mark.parametrize("workers", [1, 2])
def test_the_error_of_the_first_item_that_fails_is_raised_and_all_before_it_is_kept(workers, tmp_path):
    if workers == 1:
        (tmp_path / "mark").touch()
    made, error = done(Marks(tmp_path, {4: "late", 5: "mendable", 6: "mendable"}), 12, workers)
    assert isinstance(error, UserError) and str(error) == "piece 4: too late"
    assert {0, 1, 2, 3} <= {index for index, *_ in made} <= {0, 1, 2, 3, 7}


def test_a_bug_in_a_helper_keeps_its_traceback(tmp_path, forks):
    _, error = done(Marks(tmp_path, {1: "bug"}))
    assert isinstance(error, ZeroDivisionError)
    text = "".join(traceback.format_exception(error))
    assert "light_work.py" in text and "in piece 1" in text


@pytest.mark.parametrize("at", [1, "opening"])
def test_a_killed_helper_is_one_line_with_a_remedy(at, tmp_path, forks):
    made, error = done(Marks(tmp_path, {at: "killed"}), 3)
    if at == "opening" and error is None:  # it was found out when all was done
        assert len(made) == 3
        return
    assert isinstance(error, UserError)
    assert "found one ended" in str(error) and "finished parts are kept" in str(error)
    assert 0 in [index for index, *_ in made]


def test_helpers_have_numbers_of_their_own(tmp_path, forks):
    with Helpers() as helpers:
        numbers = [number for _, number in helpers.results(Numbers(tmp_path, 2), enumerate(range(3)), 3)]
    assert sorted(numbers) == ["", "1", "2"] and WORKER not in os.environ


def test_a_script_needs_no_guard(tmp_path):
    code = SCRIPT.replace("FOLDER", str(tmp_path / "marks"))
    (tmp_path / "marks").mkdir()
    (tmp_path / "script.py").write_text(code)
    told = python(tmp_path / "script.py", PYTHONPATH=str(ROOT))
    assert (told.returncode, told.stdout, told.stderr) == (0, "once\n", "")


def test_there_is_no_fork_beside_threads():
    told = python("-c", THREADS)
    assert told.returncode == 0, told.stderr
