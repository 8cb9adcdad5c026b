"""The torch device that a stage works on: how it may be named, and which it is. Imports no torch until asked."""

from __future__ import annotations

from typing import Any

from probes.errors import UserError

NAME = r"^(auto|cpu|mps|cuda(:[0-9]{1,3})?)$"  # on whatever machine
EXPECTED = "auto, cpu, cuda, cuda:1 or mps"


def pick_dtype(name: str, device: Any, *, bundled: bool) -> str:
    """The number format to draw in.

    Parameters
    ----------
    name
        ``auto``: float16 on a CUDA device, which takes half the memory and a fraction of the time; float32 elsewhere,
        and for the bundled benchmark models everywhere, as they are small and their pages were measured in it. Any
        other name is itself.
    device
        Of torch, from `pick_device`.
    bundled
        Whether the model comes with the package.

    Examples
    --------
    >>> pick_dtype("auto", "cuda:1", bundled=False), pick_dtype("auto", "cpu", bundled=False)
    ('float16', 'float32')
    >>> pick_dtype("auto", "cuda", bundled=True), pick_dtype("bfloat16", "cpu", bundled=True)
    ('float32', 'bfloat16')
    """
    if name != "auto":
        return name
    return "float16" if str(device).startswith("cuda") and not bundled else "float32"


def pick_device(name: str, field: str | None = None, prefer: str = "auto") -> Any:
    """The torch device of this name.

    Parameters
    ----------
    name
        ``auto`` takes `prefer`; if that is ``auto`` too, a GPU where there is one.
    field
        Where the name stands, for the error; default the option ``--device``.
    prefer
        What ``auto`` takes where this machine has it, and else the CPU.

    Raises
    ------
    UserError
        There is no device of this name, or not on this machine.
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
        raise UserError(f"{place}: expected {EXPECTED}, got {name!r}: choose one of them") from None
    if (device.index or 0) >= there.get(device.type, 0):
        raise UserError(f"{place}: expected a device of this machine, got {name}: use cpu")
    return device
