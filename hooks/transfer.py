"""Transfers from a GPU, for which the host waits."""

from __future__ import annotations

import torch
from torch import Tensor


def to_cpu(tensors: list[Tensor]) -> list[Tensor]:
    """Return tensors on the CPU, in their order, with one transfer from each device; integers become of one dtype."""
    moved = list(tensors)
    for device in {tensor.device for tensor in tensors}:
        chosen = [i for i, tensor in enumerate(tensors) if tensor.device == device]
        joined = torch.cat([tensors[i].flatten() for i in chosen]).cpu()
        for i, part in zip(chosen, joined.split([tensors[i].numel() for i in chosen])):
            moved[i] = part if tensors[i].ndim == 1 else part.view(tensors[i].shape)
    return moved
