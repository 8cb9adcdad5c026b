"""Workers: how many, every piece once, the error of one worker, and no process left behind."""

import os
import traceback

import psutil
import pytest

from probes.errors import UserError
from probes.execution import workers
from probes.execution.team import Team
from tests.probes.execution.light_work import Marks

HERE = os.getpid()


def helpers():
    """Helpers that are there now."""
    return [p for p in psutil.Process().children() if "spawn_main" in " ".join(p.cmdline())]


def done(work, pieces=8, processes=2, tick=lambda images: None, size=10):
    """What is made of some pieces by a team of its own, and what it raised."""
    made = []
    try:
        with Team() as team:
            for index, one in team.results(work, [(i, bytes(size)) for i in range(pieces)], processes, tick):
                made.append((index, *one))
        error = None
    except Exception as caught:
        error = caught
    assert not helpers()
    return made, error


@pytest.mark.parametrize("processes", [1, 3])
def test_every_piece_is_worked_on_once(processes, tmp_path):
    if processes == 1:
        (tmp_path / "mark").touch()  # no helper will leave one
    ticks = []
    made, error = done(Marks(tmp_path), 12, processes, ticks.append)
    assert error is None and sum(ticks) == 12
    assert sorted(index for index, *_ in made) == list(range(12))
    assert all(index == number for index, number, *_ in made)
    pids = {pid for _, _, pid, *_ in made}
    assert HERE in pids and 2 - (processes == 1) <= len(pids) <= processes


def test_what_does_not_fit_into_a_pipe_comes_through(tmp_path):
    made, error = done(Marks(tmp_path, payload=3_000_000), 9, 2, size=2_000_000)
    assert error is None
    assert {(size, len(data)) for *_, size, data in made} == {(2_000_000, 3_000_000)}


@pytest.mark.parametrize("processes", [1, 2])
def test_the_error_of_the_first_piece_that_fails_is_told_and_all_before_it_is_kept(processes, tmp_path):
    if processes == 1:
        (tmp_path / "mark").touch()
    made, error = done(Marks(tmp_path, {4: "late", 5: "mendable", 6: "mendable"}), 12, processes)
    assert isinstance(error, UserError) and str(error) == "piece 4: too late"
    assert {0, 1, 2, 3} <= {index for index, *_ in made} <= {0, 1, 2, 3, 7}


def test_a_bug_in_a_helper_keeps_its_traceback(tmp_path):
    _, error = done(Marks(tmp_path, {1: "bug"}))
    assert isinstance(error, ZeroDivisionError)
    text = "".join(traceback.format_exception(error))
    assert "in a worker process" in text and "light_work.py" in text and "in piece 1" in text
    other = tmp_path / "other"
    other.mkdir()
    _, error = done(Marks(other, {1: "stubborn"}))
    assert isinstance(error, RuntimeError) and "Stubborn: one" in str(error)


@pytest.mark.parametrize("at", [1, "opening"])
def test_a_killed_helper_is_one_line_with_a_remedy(at, tmp_path):
    made, error = done(Marks(tmp_path, {at: "killed"}), 3)
    assert isinstance(error, UserError)
    assert "found it ended (SIGKILL" in str(error) and "finished parts are kept" in str(error)
    assert 0 in [index for index, *_ in made]


def test_control_c_ends_the_helpers(tmp_path):
    def pressed(images):
        if any(tmp_path.iterdir()):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        done(Marks(tmp_path, {5: "killed"}), tick=pressed)
    assert not helpers()


def test_helpers_go_from_stage_to_stage(tmp_path):
    pids = []
    with Team() as team:
        for stage in ("one", "two"):
            (tmp_path / stage).mkdir()
            made = dict(team.results(Marks(tmp_path / stage), [(i, b"") for i in range(6)], 2, len_of))
            pids.append({pid for _, pid, *_ in made.values()})
    assert pids[0] == pids[1] and len(pids[0]) == 2


def len_of(images):
    return None


# How many


def number(setting="auto", device="cpu", threads=1, memory=1e9, seconds=1e6):
    return workers.worker_count(setting, device=device, threads=threads, memory=memory, seconds=seconds)


def test_as_many_as_cores_memory_and_work_allow(monkeypatch):
    monkeypatch.setattr(workers, "cores", lambda: 8)
    monkeypatch.setattr(workers, "available_memory", lambda: 5.5e9)
    assert number() == 5
    assert number(memory=1e8) == 8
    assert number(memory=1e8, threads=3) == 2
    assert number(memory=1e8, threads=16) == 1
    assert number(memory=9e9) == 1
    assert number(seconds=20.0) == 2
    assert number(seconds=0.0) == 1
    assert number(device="cuda") == number(device="mps") == 1
    assert number(7) == 7


def test_a_container_has_fewer_cores_and_less_memory(monkeypatch, tmp_path):
    monkeypatch.setattr(workers, "_CGROUP", tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1, 5})
    assert workers.cores() == 3 and workers.available_memory() > 1e6
    (tmp_path / "cpu.max").write_text("max 100000\n")
    assert workers.cores() == 3
    (tmp_path / "cpu.max").write_text("150000 100000\n")
    assert workers.cores() == 2
    (tmp_path / "cpu.max").write_text("50000 100000\n")
    assert workers.cores() == 1
    (tmp_path / "memory.stat").write_text("anon 900000\nfile 5\n")
    (tmp_path / "memory.max").write_text("max\n")
    assert workers.available_memory() > 1e6
    (tmp_path / "memory.max").write_text("1000000\n")
    assert workers.available_memory() == 100000


def test_a_small_model_is_given_one_thread(monkeypatch):
    import torch

    monkeypatch.setattr(torch, "get_num_threads", lambda: 6)
    assert workers.threads(6e6, "cpu") == 1
    assert workers.threads(860e6, "cpu") == workers.threads(6e6, "cuda:1") == 6
