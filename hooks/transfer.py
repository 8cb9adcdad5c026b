"""Transfers between CPU and GPU for which the host waits as seldom as it can. Imports no torch by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
    from torch import Tensor


def to_device(values: Tensor, device: torch.device) -> Tensor:
    """Return a tensor of the CPU on a device, by way of pinned memory, so that a GPU is not waited for."""
    values = values.pin_memory() if device.type == "cuda" and values.is_cpu else values
    return values.to(device, non_blocking=True)


def to_cpu(tensors: list[Tensor]) -> list[Tensor]:
    """Return tensors on the CPU, in their order, with one transfer from each device; integers become of one dtype."""
    import torch

    moved = list(tensors)
    for device in {tensor.device for tensor in tensors}:
        chosen = [i for i, tensor in enumerate(tensors) if tensor.device == device]
        joined = torch.cat([tensors[i].flatten() for i in chosen]).cpu()
        for i, part in zip(chosen, joined.split([tensors[i].numel() for i in chosen])):
            moved[i] = part if tensors[i].ndim == 1 else part.view(tensors[i].shape)
    return moved
