"""Tensors on a GPU: dot products of the rows of an activation, which captures keep, and the transfer to the CPU."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

BLOCK = 512  # numbers that one matrix product sums at most, before the blocks are summed pairwise
TILE = 16  # rows that a GPU multiplies at once, needed or not
_WIDENS = hasattr(torch.ops.aten.bmm, "dtype") and not torch.version.hip  # from torch 2.8


def gram(values: Tensor, group: int) -> Tensor:
    """Return dot products (rows * group,) of each row with all `group` rows of its group of consecutive rows.

    Matrix products of blocks of up to 512 numbers, then a pairwise sum: over a million numbers off by some 2e-7
    and on no processor by more than 5e-5, where one matrix product over a whole row is off by 4e-4. Half precision is
    read as it is on CUDA, since a product of two such numbers is exact in float32. Else in float32, and in float64
    where matrix products are not done in single precision (`torch.set_float32_matmul_precision`).
    """
    device = "cpu" if values.is_cpu else values.device.type  # asked most often, of small tensors
    if torch.is_autocast_enabled(device):  # which would round what it multiplies
        with torch.autocast(device, enabled=False):
            return gram(values, group)
    merged = group if device == "cpu" else group * max(1, TILE // group)
    if device == "cuda" and _WIDENS and values.dtype in (torch.float16, torch.bfloat16):
        return sum_blocks(values, group, merged, functools.partial(torch.bmm, out_dtype=torch.float32))
    if device == "cpu" and not values.is_contiguous():
        values = values.flatten(1)
    try:
        exact = device == "mps" or torch.get_float32_matmul_precision() == "highest"
    except RuntimeError:  # it was set by `fp32_precision` of one backend
        exact = False
    dtype = torch.float32 if exact else torch.float64
    return sum_blocks(values if values.dtype == dtype else values.to(dtype), group, merged, torch.bmm)


def sum_blocks(values: Tensor, group: int, merged: int, multiply: Callable[..., Tensor]) -> Tensor:
    """Return the dot products of `gram`, `multiply` taking blocks of `merged` rows, some groups, at once."""
    views, start = _block_views(values.shape, values.stride(), group, merged), values.storage_offset()
    if not views:
        return sum_blocks(values.flatten(1), group, merged, multiply)
    sums = []
    for shape, strides, offset, *within in views:
        blocks = values.as_strided(shape, strides, start + offset)
        sums.append(multiply(blocks, blocks.mT).as_strided(*within).sum(0))
    return (torch.cat(sums) if len(sums) > 1 else sums[0]).float().flatten()


@functools.lru_cache(maxsize=1024)
def _block_views(shape: tuple[int, ...], strides: tuple[int, ...], group: int, merged: int) -> list[Any]:
    """Return views of blocks of rows, and of their products within groups; none if a row has gaps in memory."""
    numbers, views = 1, []
    for step, size in sorted(zip(strides[1:], shape[1:])):
        if size != 1 and step != numbers:
            return []
        numbers *= size
    width = math.gcd(numbers, BLOCK)
    for first in range(0, shape[0], merged):
        rows, count = min(merged, shape[0] - first), numbers // width
        within = (count, rows // group, group, group), (rows**2, (rows + 1) * group, rows, 1)
        views.append(((count, rows, width), (width, strides[0], 1), first * strides[0], *within))
    return views


def to_cpu(tensors: list[Tensor]) -> list[Tensor]:
    """Return tensors on the CPU, in their order, with one transfer from each device; integers become of one dtype."""
    moved = list(tensors)
    for device in {tensor.device for tensor in tensors}:
        chosen = [i for i, tensor in enumerate(tensors) if tensor.device == device]
        joined = torch.cat([tensors[i].flatten() for i in chosen]).cpu()
        for i, part in zip(chosen, joined.split([tensors[i].numel() for i in chosen])):
            moved[i] = part if tensors[i].ndim == 1 else part.view(tensors[i].shape)
    return moved
