r"""Closed-form edit of keys and values of cross-attentions (Orgad et al. 2023; Gandikota et al. 2024).

Wanted is the matrix :math:`W^*` that minimises

.. math:: \sum_i \|W^* c_i - W t_i\|^2 + \rho \sum_j \|W^* k_j - W k_j\|^2 + \lambda \|W^* - W\|_F^2

over the states :math:`c_i` of the words that are edited, their targets :math:`t_i` and the states :math:`k_j` that are
kept: UCE's Eq. 7 where :math:`\lambda \to 0`, TIME's Eq. 4 where there is no :math:`k_j`. All targets are what the old
matrix makes of a text state, so that

.. math:: W^* = W X, \quad X = \Big(\sum_i t_i c_i^T + \rho \sum_j k_j k_j^T + \lambda I\Big)
          \Big(\sum_i c_i c_i^T + \rho \sum_j k_j k_j^T + \lambda I\Big)^{-1}

with the same :math:`X` for the keys and values of every cross-attention: the edit is a linear map of what they read.

:math:`\lambda` is the edit's ``ridge`` times the mean eigenvalue of :math:`\sum_i c_i c_i^T + \rho \sum_j k_j k_j^T`,
so that a ridge means the same whatever the length of a model's states and however many contexts there are. Most
eigenvalues lie far below their mean (states of one word differ little), and a ridge far below it leaves the map free
along directions that other captions do use: it then fits the contexts nearly without error, and moves what stands in no
context. What it does there, :func:`left_over_held_out` estimates.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from probes.config.generation import Edit
from probes.models.edits.states import Texts, onward


class Goal(NamedTuple):
    """States and what they are to become; float64, a state a row. `context` numbers the context that a state is of."""

    edited: Tensor  # (states, width)
    targets: Tensor  # (states, width)
    kept: Tensor  # (kept states, width)
    context: Tensor  # int64, (states,)
    kept_context: Tensor  # int64, (kept states,)


def goal(edit: Edit, texts: Mapping[str, Texts], states: Mapping[str, Tensor]) -> Goal:
    """Return what the states of an edit's words, ``(contexts, tokens, width)`` each, are to become."""
    taken = {word: onward(states[word], texts[word].last, edit.positions) for word in texts}
    edited, targets, numbers = [], [], []
    for word, shares in edit.words.items():
        for context in range(len(edit.contexts)):
            own = taken[word][context]
            count = min([len(own), *(len(taken[other][context]) for other in shares)])
            own = own[:count]
            moved = own.clone()
            for other, share in shares.items():
                moved += share * (taken[other][context][:count] - own)
            edited.append(own)
            targets.append(moved)
            numbers.append(torch.full((len(own),), context))
    kept = [state for word in edit.keep for state in states[word]]
    kept_numbers = [torch.full((len(one),), number % len(edit.contexts)) for number, one in enumerate(kept)]
    return Goal(
        *(torch.cat(edited), torch.cat(targets), torch.cat([edited[0][:0], *kept])),
        *(torch.cat(numbers), torch.cat([numbers[0][:0], *kept_numbers])),
    )


def solve(wanted: Goal, ridge: float, keep_weight: float) -> Tensor:
    """The map X ``(width, width)`` of the states that cross-attentions read, such that the new matrix is W X.

    `keep_weight` is ρ. X is the identity where no target differs from its state.
    """
    left, right = _sides(wanted, ridge, keep_weight)
    return torch.cholesky_solve(right.T, torch.linalg.cholesky(left)).T  # left is symmetric


def _sides(wanted: Goal, ridge: float, keep_weight: float) -> tuple[Tensor, Tensor]:
    """The matrices of which X is the second times the inverse of the first."""
    held = keep_weight * wanted.kept.T @ wanted.kept
    left = wanted.edited.T @ wanted.edited + held
    ridge = ridge * left.diagonal().mean()
    added = ridge * torch.eye(len(left), dtype=torch.float64)
    return left + added, wanted.targets.T @ wanted.edited + held + added


def left_over(wanted: Goal, mapping: Tensor) -> dict[str, float | None]:
    """Return how far the map falls short of its goal, in the contexts that it was solved from.

    ``edited``: the squared distance of the edited states from their targets after the edit, over that before it.
    ``kept``: the squared change of the kept states over their squared length. None where there are none.
    """
    return _shares(
        wanted.edited @ mapping.T - wanted.targets,
        wanted.edited - wanted.targets,
        wanted.kept @ mapping.T - wanted.kept,
        wanted.kept,
    )


def left_over_held_out(wanted: Goal, ridge: float, keep_weight: float) -> dict[str, float | None]:
    """Return how far maps fall short of the goal in the one context that each was not solved from (leave-one-out).

    As `left_over`, in sums over all contexts, each left out in turn. ``edited`` above 1: in a new context the edited
    states are farther from their targets than without the edit. None where there is one context.
    """
    missed, changed = [], []
    numbers = wanted.context.unique().tolist()
    for number in numbers if len(numbers) > 1 else ():
        here, kept_here = wanted.context == number, wanted.kept_context == number
        rest = wanted._replace(
            edited=wanted.edited[~here], targets=wanted.targets[~here], kept=wanted.kept[~kept_here]
        )
        left, right = _sides(rest, ridge, keep_weight)
        own = torch.cat([wanted.edited[here], wanted.kept[kept_here]])
        # as `solve`, of these states alone: a whole map is slow where states are wide
        mapped = (right @ torch.cholesky_solve(own.T, torch.linalg.cholesky(left))).T
        count = int(here.sum())
        missed.append(mapped[:count] - wanted.targets[here])
        changed.append(mapped[count:] - wanted.kept[kept_here])
    if not missed:
        return {"edited": None, "kept": None}
    return _shares(torch.cat(missed), wanted.edited - wanted.targets, torch.cat(changed), wanted.kept)


def _shares(missed: Tensor, asked: Tensor, changed: Tensor, kept: Tensor) -> dict[str, float | None]:
    def ratio(numbers: Tensor, over: Tensor) -> float | None:
        return float(numbers.square().sum() / over.square().sum()) if over.any() else None

    return {"edited": ratio(missed, asked), "kept": ratio(changed, kept)}
