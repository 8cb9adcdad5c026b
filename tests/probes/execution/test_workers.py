"""How many workers a stage has, by cores, memory and work."""

import os

from probes.execution import workers


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
