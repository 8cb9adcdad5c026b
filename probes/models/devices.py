"""The torch device that a stage works on: how it may be named, and which it is. Imports no torch until asked."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from probes.errors import UserError
from probes.fields.types import DEVICES


def pick_device(name: str, field: str | None = None, prefer: str = "auto") -> Any:
    """The torch device of this name; ``auto`` is `prefer` where this machine has it, else the CPU.

    If `prefer` is ``auto``, too, it is a GPU where there is one. `field` is the place for the error, else ``--device``.
    """
    import torch

    there = {"cpu": 1, "cuda": torch.cuda.device_count(), "mps": int(torch.backends.mps.is_available())}
    if name == "auto" and prefer != "auto":
        name = prefer if there.get(torch.device(prefer).type) else "cpu"
    elif name == "auto":
        name = next(kind for kind in ("cuda", "mps", "cpu") if there[kind])
    place = f"--device {name}" if field is None else field
    try:
        device = torch.device(name)
    except RuntimeError:
        raise UserError(f"{place}: expected {DEVICES}, got {name!r}: choose one of them") from None
    if (device.index or 0) >= there.get(device.type, 0):
        raise UserError(f"{place}: expected a device of this machine, got {name}: use cpu")
    return device


@contextlib.contextmanager
def deterministic(threads: int) -> Iterator[None]:
    """Make the same input give the same bits: fixed threads, deterministic kernels, no search for the fastest."""
    import torch

    cudnn = torch.backends.cudnn
    before = cudnn.deterministic, cudnn.benchmark, torch.get_num_threads()
    cudnn.deterministic, cudnn.benchmark = True, False
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        cudnn.deterministic, cudnn.benchmark = before[:2]
        torch.set_num_threads(before[2])
