r"""Keys and values of cross-attentions, solved anew in closed form (Orgad et al. 2023; Gandikota et al. 2024).

Wanted is the matrix :math:`W^*` that minimises

.. math:: \sum_i \|W^* c_i - W t_i\|^2 + \rho \sum_j \|W^* k_j - W k_j\|^2 + \lambda \|W^* - W\|_F^2

over the states :math:`c_i` of the words that are edited, their targets :math:`t_i` and the states :math:`k_j` that are
kept: UCE's Eq. 7 where :math:`\lambda \to 0`, TIME's Eq. 4 where there is no :math:`k_j`. All targets are what the old
matrix makes of a text state, so that

.. math:: W^* = W X, \quad X = \Big(\sum_i t_i c_i^T + \rho \sum_j k_j k_j^T + \lambda I\Big)
          \Big(\sum_i c_i c_i^T + \rho \sum_j k_j k_j^T + \lambda I\Big)^{-1}

with the same :math:`X` for the keys and values of every cross-attention: the edit is a linear map of what they read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from probes.config.edit_options import Edit
from probes.models.edits.states import Texts, aligned, onward


class Goal(NamedTuple):
    """States and what they are to become; float64, a state a row.

    Attributes
    ----------
    edited, targets : Tensor, shape (states, width)
    kept : Tensor, shape (states that are kept, width)
    """

    edited: Tensor
    targets: Tensor
    kept: Tensor


def goal(edit: Edit, texts: Mapping[str, Texts], states: Mapping[str, Tensor]) -> Goal:
    """Return what the states of an edit's words are to become.

    Parameters
    ----------
    texts : mapping of str to Texts
        The contexts with each word, see `probes.models.edits.states.written`.
    states : mapping of str to Tensor, shape (contexts, tokens, width)
        The text states of each word in its contexts.
    """
    taken = {word: onward(states[word], texts[word].last, edit.positions) for word in texts}
    edited, targets = [], []
    for word, shares in edit.words.items():
        for context in range(len(edit.contexts)):
            own = taken[word][context]
            count = min([len(own), *(len(taken[other][context]) for other in shares)])
            own = own[:count]
            moved = own.clone()
            for other, share in shares.items():
                _, there = aligned(own, taken[other][context])
                moved += share * (there - own)
            edited.append(own)
            targets.append(moved)
    width = edited[0].shape[-1]
    kept = [states[word].reshape(-1, width) for word in edit.keep]
    return Goal(torch.cat(edited), torch.cat(targets), torch.cat(kept) if kept else edited[0][:0])


def solve(wanted: Goal, ridge: float, keep_weight: float) -> Tensor:
    """The map X of the states that cross-attentions read, such that the new matrix is W X.

    Returns
    -------
    Tensor, shape (width, width)
        float64; the identity where no target differs from its state.
    """
    held = keep_weight * wanted.kept.T @ wanted.kept
    held += ridge * torch.eye(wanted.edited.shape[1], dtype=torch.float64)
    right = wanted.targets.T @ wanted.edited + held
    left = wanted.edited.T @ wanted.edited + held
    return torch.linalg.solve(left, right.T).T  # left is symmetric


def left_over(wanted: Goal, mapping: Tensor) -> dict[str, float]:
    """Return how far the map falls short of its goal.

    Returns
    -------
    dict
        ``edited``: the squared distance of the edited states from their targets after the edit, over that before it.
        ``kept``: the squared change of the kept states over their squared length. NaN where there are none.
    """

    def ratio(numbers: Tensor, over: Tensor) -> float:
        return float(numbers.square().sum() / over.square().sum()) if over.any() else float("nan")

    return {
        "edited": ratio(wanted.edited @ mapping.T - wanted.targets, wanted.edited - wanted.targets),
        "kept": ratio(wanted.kept @ mapping.T - wanted.kept, wanted.kept),
    }
