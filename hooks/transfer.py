"""Transfers between CPU and GPU for which the host waits as seldom as it can."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TypeVar

import torch
from torch import Tensor

Key = TypeVar("Key", bound=Hashable)


def to_device(values: Tensor, device: torch.device) -> Tensor:
    """Return a tensor of the CPU on a device, in pinned memory before, so that a GPU is not waited for."""
    values = values.pin_memory() if device.type == "cuda" and values.is_cpu else values
    return values.to(device, non_blocking=True)


def to_cpu(tensors: Mapping[Key, Tensor]) -> dict[Key, Tensor]:
    """Return tensors on the CPU, by the same keys, with one transfer from each device; integers become one dtype."""
    moved = dict(tensors)
    for device in {tensor.device for tensor in tensors.values()}:
        keys = [key for key, tensor in tensors.items() if tensor.device == device]
        joined = torch.cat([tensors[key].flatten() for key in keys]).cpu()
        for key, part in zip(keys, joined.split([tensors[key].numel() for key in keys])):
            moved[key] = part if tensors[key].ndim == 1 else part.view(tensors[key].shape)
    return moved
