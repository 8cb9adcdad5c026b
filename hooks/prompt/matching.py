"""Tokens of one sequence found in another by equality of their states, bit for bit."""

from __future__ import annotations

from collections import defaultdict

import torch
from torch import Tensor


def matched_tokens(states: Tensor, given: Tensor) -> Tensor | None:
    """Number of the token (rows, positions) of a text encoder's run at each position of what a denoiser is given.

    -1 where none of the run's states stands; a position of zeros is padding. None unless in every row all positions but
    padding are found, or all tokens are. Of tokens with equal states the one that follows the token before is taken.

    Examples
    --------
    >>> states = torch.tensor([[[1.0], [2.0], [3.0], [4.0]]])
    >>> matched_tokens(states, torch.tensor([[[3.0], [4.0], [0.0]]]))
    tensor([[ 2,  3, -1]])
    >>> matched_tokens(states, torch.tensor([[[3.0], [5.0], [0.0]]])) is None
    True
    """
    found = []
    for tokens, positions in zip(states, given, strict=True):
        some = positions.ne(0).any(-1)
        if not bool(some.any()):
            return None
        where = some.nonzero()
        edges = positions[[int(where[0]), int(where[-1])]]  # seen at once, before every state is read
        if not bool((tokens[None] == edges[:, None]).all(-1).any()):
            return None
        row = torch.tensor(_in_order(_keys(tokens), _keys(positions)))
        row[~some.cpu()] = -1
        if not (row[some.cpu()] >= 0).all() and len(set(row.tolist()) - {-1}) < len(tokens):
            return None
        found.append(row)
    return torch.stack(found)


def _keys(states: Tensor) -> list[bytes]:
    return [row.tobytes() for row in states.detach().contiguous().view(torch.uint8).cpu().numpy()]


def _in_order(tokens: list[bytes], positions: list[bytes]) -> list[int]:
    places: dict[bytes, list[int]] = defaultdict(list)
    for index, key in enumerate(tokens):
        places[key].append(index)
    found, before = [], -1
    for key in positions:
        there = places.get(key, [-1])
        before = before + 1 if before + 1 in there else there[0]
        found.append(before)
    return found
