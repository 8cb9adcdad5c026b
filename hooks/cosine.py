"""The cosine, written once: of captures on their device, of stored vectors and of counts. Imports no torch by itself.

Of captures it is the cosine of the flattened rows, as in Wu et al. 2025, equations 1 and 2, in float32 whatever the
model's dtype. Which positions of a text site enter (its readouts) the paper leaves open.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from hooks.errors import HookError

if TYPE_CHECKING:
    from torch import Tensor

Numbers = TypeVar("Numbers")  # an ndarray or a Tensor


def cosine_of(dots: Numbers, norms: Numbers) -> Numbers:
    r"""Return cosines from dot products of pairs of vectors and products of their lengths; NaN where a length is 0.

    .. math:: \cos(u, v) = \frac{u \cdot v}{\lVert u \rVert \, \lVert v \rVert}

    From -1 to 1, which rounding does not leave; NaN where a vector is zero, which has no direction.

    Source
    ------
    Wu et al. 2025, equations 1 and 2.

    Examples
    --------
    >>> cosine_of(np.array([24.0, 0.0]), np.array([25.0, 0.0])).tolist()
    [0.96, nan]
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        return (dots / norms).clip(-1.0, 1.0)


def cosine(values: Tensor, left: Tensor | slice, right: Tensor | slice) -> Tensor:
    """Return the cosine (pairs,), float32, of flattened rows `left[p]` and `right[p]` of `values` for each pair p.

    By multiplying and summing, which is pairwise and good to 1e-7: `vector_norm` and `matmul` sum naively on a CPU,
    and on a GPU a matmul may be rounded to TF32.
    """
    from torch.linalg import vecdot

    flat = values.flatten(1).float()
    norms = vecdot(flat, flat).sqrt()
    return cosine_of(vecdot(flat[left], flat[right]), norms[left] * norms[right])


def cosine_of_tokens(
    values: Tensor, left: Tensor, right: Tensor, positions: Sequence[tuple[Sequence[int], Sequence[int]]]
) -> Tensor:
    """Return the cosine (pairs,) over matched tokens of two rows of `values` (rows, tokens, width); NaN without tokens.

    `positions` has two lists of one length for each pair: the k-th on the left is compared with the k-th on the right.
    HookError for a position beyond the tokens.
    """
    import torch

    highest = max((position for a, b in positions for position in (*a, *b)), default=-1)
    if highest >= values.shape[1]:
        raise HookError(
            f"shared_positions: expected positions below the {values.shape[1]} of the prompt, but got {highest}"
        )
    pairs, longest = len(positions), max((len(a) for a, _ in positions), default=0)
    places = np.full((2, pairs, longest), -1)  # of tokens, counted over all rows
    for side, rows in enumerate((left.tolist(), right.tolist())):
        for pair, sides in enumerate(positions):
            places[side, pair, : len(sides[side])] = np.array(sides[side]) + rows[pair] * values.shape[1]
    index = torch.from_numpy(places.ravel()).to(values.device, non_blocking=values.is_cuda)
    tokens = values.flatten(0, 1)[index.clamp(min=0)].float().masked_fill(index[:, None] < 0, 0.0)
    return cosine(tokens.unflatten(0, (2 * pairs, longest)), slice(pairs), slice(pairs, None))


def group_size(pairs: Sequence[tuple[int, int]], rows: int) -> int:
    """Return the smallest size of equal groups of consecutive rows such that no pair is in two groups."""
    for size in range(1, rows):
        if rows % size == 0 and all(i // size == j // size for i, j in pairs):
            return size
    return rows


def cosine_of_gram(products: np.ndarray, group: int, pairs: np.ndarray) -> np.ndarray:
    """Return cosines (calls, pairs) of pairs of rows from the dot products of `gram`, shape (calls, rows * group)."""
    table = products.reshape(len(products), -1, group)
    rows, (left, right) = np.arange(table.shape[1]), pairs.T
    norms = np.sqrt(table[:, rows, rows % group])
    return cosine_of(table[:, left, right % group], norms[:, left] * norms[:, right])
