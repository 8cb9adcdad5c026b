"""Similarity of two rows of a batch at one site: cosines, reduced where the tensors are.

Cosine of the flattened rows, as in Wu et al. (2023), Eq. 1 and 2. A site's pairs are compared in one go, in
float32 whatever the model's dtype; only one number per pair remains. The readouts of a text site (which
positions enter) are Triptych's own, see DESIGN section 4.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from hooks.cosine import cosine_of
from hooks.errors import HookError

MAX_ELEMENTS = 2**26  # of one gathered operand: 256 MiB in float32
BLOCK = 512  # numbers that one matrix product sums, before the blocks are summed pairwise
LARGEST_GROUP = 16


def cosine(values: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """Cosine (pairs,) of rows `left[p]` and `right[p]` of `values` (rows, ...), flattened, for every pair p, float32.

    Range -1 to 1; 1 means the same direction ("no difference"); NaN where a row is all zeros.

    Examples
    --------
    >>> import torch
    >>> values = torch.tensor([[3.0, 4.0], [4.0, 3.0], [-3.0, -4.0]])
    >>> cosine(values, torch.tensor([0, 0]), torch.tensor([1, 2]))
    tensor([ 0.9600, -1.0000])
    """
    dots, norms = products(values, left, right)
    return cosine_of(dots, norms[left] * norms[right])


def products(values: Tensor, left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """Dot products (pairs,) and norms (rows,) that cosines are made of, in few operations.

    The division can wait until they have left the device.
    """
    flat = values.flatten(1).float()
    norms = _norms(flat)
    per_chunk = max(1, MAX_ELEMENTS // max(1, flat.shape[1]))
    if len(left) <= per_chunk:
        return torch.linalg.vecdot(flat[left], flat[right]), norms
    dots = [
        torch.linalg.vecdot(flat[a], flat[b]) for a, b in zip(left.split(per_chunk), right.split(per_chunk))
    ]
    return torch.cat(dots), norms


def group_size(pairs: Sequence[tuple[int, int]], rows: int) -> int | None:
    """Smallest number of consecutive rows that groups of one size can have so that no pair crosses two.

    None if there is none up to 16; then `products` serves.

    Examples
    --------
    >>> group_size([(0, 1), (0, 2), (3, 5)], rows=6)
    3
    >>> group_size([(0, 1), (2, 3)], rows=4)
    2
    """
    for size in range(1, min(rows, LARGEST_GROUP) + 1):
        if rows % size == 0 and all(i // size == j // size for i, j in pairs):
            return size
    return None


def gram(values: Tensor, group: int) -> Tensor | None:
    """Dot products (rows * group,) of all rows within each group of consecutive rows, in one pass over the numbers.

    Matrix products of blocks of 512 numbers, then a pairwise sum: over a million numbers off by some 2e-7
    and on no processor by more than 5e-5, where one matrix product over a whole row is off by 4e-4. None
    where matrix products are not done in single precision (`torch.set_float32_matmul_precision`); then
    `products` serves.

    Examples
    --------
    >>> import torch
    >>> gram(torch.tensor([[3.0, 4.0], [4.0, 3.0]]), 2)
    tensor([25., 24., 24., 25.])
    """
    if torch.get_float32_matmul_precision() != "highest":
        return None
    flat = values.flatten(1).float()
    whole = flat.shape[1] // BLOCK * BLOCK
    total = torch.zeros((len(flat) // group, group, group), dtype=torch.float32, device=flat.device)
    for part, block in ((flat[:, :whole], BLOCK), (flat[:, whole:], flat.shape[1] - whole)):
        if part.shape[1] == 0:
            continue
        blocks = part.view(-1, group, part.shape[1] // block, block).transpose(1, 2)
        if len(blocks) == 1 or flat.device.type == "cpu":  # a loop copies nothing
            for index, one in enumerate(blocks):
                total[index] += _multiplied(one).sum(0)
        else:
            total += _multiplied(blocks.flatten(0, 1)).unflatten(0, blocks.shape[:2]).sum(1)
    return total.flatten()


def _multiplied(blocks: Tensor) -> Tensor:
    shape = (len(blocks), blocks.shape[1], blocks.shape[1])
    out = torch.empty(shape, dtype=torch.float32, device=blocks.device)
    return torch.bmm(blocks, blocks.mT, out=out)  # with `out`, autocast leaves it in float32


def _norms(flat: Tensor) -> Tensor:
    """Norms of rows by multiplying and summing, which is pairwise and good to 1e-7.

    `vector_norm` and `matmul` sum naively on a CPU, off by up to 3e-4 in the million elements of a UNet
    block; on a GPU a matmul may be rounded to TF32.
    """
    return torch.linalg.vecdot(flat, flat).sqrt()


def cosine_at(values: Tensor, left: Tensor, right: Tensor, positions: Tensor) -> Tensor:
    """Cosine (pairs,) at one position per row of `values` (rows, tokens, width)."""
    rows = torch.arange(values.shape[0], device=values.device)
    return cosine(values[rows, positions], left, right)


class SharedPositions:
    """Aligned token positions of the words a pair shares, padded so that all pairs are compared at once.

    The k-th position on the left is compared with the k-th on the right. Two empty lists give NaN.
    """

    def __init__(self, positions: Sequence[tuple[Sequence[int], Sequence[int]]], n_pairs: int) -> None:
        if len(positions) != n_pairs:
            raise HookError(
                f"shared_positions: expected one entry per pair ({n_pairs}), but got {len(positions)}"
            )
        for p, (a, b) in enumerate(positions):
            if len(a) != len(b):
                raise HookError(
                    f"shared_positions[{p}]: expected two lists of one length, but got {len(a)} and {len(b)}"
                )
            if any(position < 0 for position in (*a, *b)):
                raise HookError(f"shared_positions[{p}]: expected positions from 0, but got {min(*a, *b)}")
        self.positions = positions
        longest = max((len(a) for a, _ in positions), default=0)
        self.left = torch.tensor([[*a, *[0] * (longest - len(a))] for a, _ in positions], dtype=torch.int64)
        self.right = torch.tensor([[*b, *[0] * (longest - len(b))] for _, b in positions], dtype=torch.int64)
        self.used = torch.tensor([[1.0] * len(a) + [0.0] * (longest - len(a)) for a, _ in positions])
        self.highest = max((position for a, b in positions for position in (*a, *b)), default=-1)

    def cosine(self, values: Tensor, left: Tensor, right: Tensor) -> Tensor:
        """Cosine of pairs over their shared positions, flattened; NaN for a pair that shares none."""
        if self.highest >= values.shape[1]:
            raise HookError(
                f"shared_positions: expected positions below the {values.shape[1]} of the prompt, "
                f"but got {self.highest}"
            )
        device = values.device
        used = self.used.to(device)[:, :, None]
        a = (values[left[:, None], self.left.to(device)].float() * used).flatten(1)
        b = (values[right[:, None], self.right.to(device)].float() * used).flatten(1)
        return cosine_of(torch.linalg.vecdot(a, b), _norms(a) * _norms(b))
