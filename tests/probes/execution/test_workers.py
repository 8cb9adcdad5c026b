"""How many workers a stage has, by cores, memory and work."""

import os

import pytest
import torch

from probes.execution import workers
from probes.fields.types import WORKER
from probes.models.weights import pick_device


def number(setting="auto", device="cpu", threads=1, images=10_000):
    return workers.worker_count(setting, device=device, threads=threads, images=images)


def test_as_many_as_cores_memory_and_work_allow(monkeypatch):
    monkeypatch.setattr(workers, "core_count", lambda: 8)
    monkeypatch.setattr(workers, "total_memory", lambda: 64e9)
    assert number() == 8
    assert number(threads=3) == 2
    assert number(threads=16) == 1
    assert number(images=2 * workers.EACH) == 2
    assert number(images=0) == 1
    assert number(device="cuda:1") == number(device="mps") == 1
    assert number(7) == 7
    monkeypatch.setattr(workers, "total_memory", lambda: 3.5 * workers.PROCESS_BYTES)
    assert number() == 3
    monkeypatch.setattr(workers, "total_memory", lambda: 1e9)
    assert number() == 1


@pytest.mark.parametrize(("kinds", "expected"), [(["H200"] * 4, 4), (["H200", "L4"], 1)])
def test_every_gpu_of_one_kind_has_a_worker(monkeypatch, kinds, expected):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: len(kinds))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda number: kinds[number])
    assert number(device="cuda") == expected and number(device="cuda", images=2 * workers.EACH) <= 2
    for worker in range(len(kinds)):
        monkeypatch.setenv(WORKER, str(worker))
        assert (pick_device("cuda").index or 0) == (pick_device("auto").index or 0) == worker
        assert pick_device("cuda:1").index == 1 and pick_device("cpu").type == "cpu"


def test_a_container_has_fewer_cores(monkeypatch, tmp_path):
    monkeypatch.setattr(workers, "_CGROUP", tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1, 5})
    assert workers.core_count() == 3 and workers.total_memory() > 1e6
    (tmp_path / "cpu.max").write_text("max 100000\n")
    assert workers.core_count() == 3
    (tmp_path / "cpu.max").write_text("150000 100000\n")
    assert workers.core_count() == 2
    (tmp_path / "cpu.max").write_text("50000 100000\n")
    assert workers.core_count() == 1


def test_a_small_model_is_given_one_thread(monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 6)
    assert workers.thread_count(6e6, "cpu") == 1
    assert workers.thread_count(860e6, "cpu") == workers.thread_count(6e6, "cuda:1") == 6
