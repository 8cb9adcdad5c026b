"""A device by name: `auto` takes the best there is, or the one preferred; what is not there is refused by name."""

import pytest
import torch

from probes.errors import UserError
from probes.models.weights import pick_device


@pytest.fixture
def machine(monkeypatch):
    """Make this machine one with so many GPUs of Nvidia, and with Apple's or without."""

    def have(cuda=0, mps=False):
        monkeypatch.setattr(torch.cuda, "device_count", lambda: cuda)
        monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda > 0)
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)

    return have


@pytest.mark.parametrize(
    ("cuda", "mps", "prefer", "expected"),
    [
        (0, False, "auto", "cpu"),
        (0, True, "auto", "mps"),
        (1, True, "auto", "cuda"),
        (1, False, "cpu", "cpu"),
        (0, False, "cuda", "cpu"),
    ],
)
def test_auto(machine, cuda, mps, prefer, expected):
    machine(cuda, mps)
    assert pick_device("auto", prefer=prefer) == torch.device(expected)


@pytest.mark.parametrize("name", ["cuda", "cuda:2", "mps", "meta"])
def test_a_device_that_is_not_there_is_refused(machine, name):
    machine(cuda=2 if name == "cuda:2" else 0)
    with pytest.raises(
        UserError, match=f"^--device {name}: expected a device of this machine, got {name}: use cpu$"
    ):
        pick_device(name)
    with pytest.raises(UserError, match=f"^observe.device: expected a device of this machine, got {name}"):
        pick_device(name, "observe.device")


def test_what_is_no_device_is_refused():
    with pytest.raises(
        UserError, match=r"^--device tpu9: expected auto, cpu, cuda, cuda:1 or mps, got 'tpu9'"
    ):
        pick_device("tpu9")
