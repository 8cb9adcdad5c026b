"""Dot products of the rows of an activation, on its device: what cosines of captures are made of."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

BLOCK = 512  # numbers that one matrix product sums, before the blocks are summed pairwise
TILE = 16  # rows that a GPU multiplies at once, needed or not
_HALF = (torch.float16, torch.bfloat16)
_WIDENS = hasattr(torch.ops.aten.bmm, "dtype") and not torch.version.hip  # from torch 2.8


def gram(values: Tensor, group: int) -> Tensor:
    """Return dot products (rows * group,) of each row with all `group` rows of its group of consecutive rows.

    Matrix products of blocks of 512 numbers, then a pairwise sum: over a million numbers off by some 2e-7
    and on no processor by more than 5e-5, where one matrix product over a whole row is off by 4e-4. Half precision is
    read as it is on CUDA, since a product of two such numbers is exact in float32. Else in float32, and in float64
    where matrix products are not done in single precision (`torch.set_float32_matmul_precision`).

    Examples
    --------
    >>> gram(torch.tensor([[3.0, 4.0], [4.0, 3.0]]), 2)
    tensor([25., 24., 24., 25.])
    """
    device = "cpu" if values.is_cpu else values.device.type  # asked most often, of small tensors
    if torch.is_autocast_enabled(device):  # which would round what it multiplies
        with torch.autocast(device, enabled=False):
            return gram(values, group)
    if device == "cpu":
        in_groups, values = 1, values if values.is_contiguous() else values.flatten(1)
    else:
        in_groups = max(1, TILE // group)
    if device == "cuda" and _WIDENS and values.dtype in _HALF:
        return sum_blocks(values, group, in_groups, functools.partial(torch.bmm, out_dtype=torch.float32))
    try:
        exact = device == "mps" or torch.get_float32_matmul_precision() == "highest"
    except RuntimeError:  # it was set by `fp32_precision` of one backend
        exact = False
    dtype = torch.float32 if exact else torch.float64
    values = values if values.dtype == dtype else values.to(dtype)
    return sum_blocks(values, group, in_groups, torch.bmm)


def sum_blocks(
    values: Tensor, group: int, in_groups: int, multiply: Callable[[Tensor, Tensor], Tensor]
) -> Tensor:
    """Return the dot products of `gram`, `multiply` taking blocks of the rows of `in_groups` groups at once."""
    views = _block_views(values.shape, values.stride(), group, in_groups)
    if not views:
        return sum_blocks(values.flatten(1), group, in_groups, multiply)
    sums, start = [], values.storage_offset()
    for parts in views:
        products = []
        for shape, strides, offset, *within in parts:
            blocks = values.as_strided(shape, strides, start + offset)
            products.append(multiply(blocks, blocks.mT).as_strided(*within).sum(0))
        sums.append(functools.reduce(operator.add, products))
    return (torch.cat(sums) if len(sums) > 1 else sums[0]).float().flatten()


@functools.lru_cache(maxsize=1024)
def _block_views(
    shape: tuple[int, ...], strides: tuple[int, ...], group: int, in_groups: int
) -> list[list[tuple[Any, ...]]]:
    """Return how to view the blocks of the rows of `in_groups` groups, and in their products those within a group.

    By shape, strides and offset; the numbers of a row as they lie in memory. Empty if they do not lie together.
    """
    numbers, rows, stride = 1, shape[0], strides[0]
    for step, size in sorted(zip(strides[1:], shape[1:])):
        if size != 1 and step != numbers:
            return []
        numbers *= size
    whole, rest = divmod(numbers, BLOCK)
    cuts = [(0, whole, BLOCK)] if whole else []
    cuts += [(whole * BLOCK, 1, rest)] if rest or not whole else []
    views = []
    for first in range(0, rows, group * in_groups):
        size = min(group * in_groups, rows - first)
        within = (size // group, group, group), (size * group + group, size, 1)
        views.append(
            [
                (
                    (count, size, width),
                    (width, stride, 1),
                    first * stride + offset,
                    (count, *within[0]),
                    (size**2, *within[1]),
                )
                for offset, count, width in cuts
            ]
        )
    return views
