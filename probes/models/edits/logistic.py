"""Linear probes: logistic regressions with an L2 penalty, many at once."""

from __future__ import annotations

import torch
from torch import Tensor

STEPS, HALVINGS = 100, 30  # of Newton's method, at most
GRADIENT = 1e-8  # of the largest entry, where it has converged


def fit(rows: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    r"""Fit logistic regressions of the same labels on different features.

    Minimises :math:`\sum_i s_i \log(1 + e^{-z_i (w^T x_i / \sigma + b)}) + \|w\|^2 / 2`, where :math:`z_i = \pm 1`,
    :math:`\sigma` is the features' standard deviation over all channels, and :math:`s_i` gives both labels the same
    weight in sum: scikit-learn's ``LogisticRegression(class_weight="balanced")`` with its default penalty.

    Parameters
    ----------
    rows : Tensor, shape (fits, images, channels)
    labels : Tensor of bool, shape (images,)
        Both occur.

    Returns
    -------
    weights : Tensor, shape (fits, channels)
        Of the features as they are; 0 where they are all the same.
    intercepts : Tensor, shape (fits,)
    """
    rows = rows.double()
    centre = rows.mean(1, keepdim=True)
    apart = rows - centre
    spread = apart.square().mean((1, 2)).sqrt()[:, None, None]
    scale = torch.where(spread > 1e-12 * (1e-30 + centre.abs().amax()), spread, torch.inf)
    left, values, right = torch.linalg.svd(apart / scale, full_matrices=False)
    # the solution lies in the span of the rows: as few unknowns as images, and the intercept
    design = torch.cat([left * values[:, None], torch.ones_like(left[..., :1])], 2)
    counts = torch.stack([(~labels).sum(), labels.sum()]).double()
    weights = (len(labels) / (2 * counts))[labels.long()]
    penalty = torch.ones(design.shape[2], dtype=torch.float64)
    penalty[-1] = 0
    found = _newton(design, labels.double(), weights, penalty)
    weight = (found[:, None, :-1] @ right / scale)[:, 0]
    return weight, found[:, -1] - (weight * centre[:, 0]).sum(1)


def _newton(design: Tensor, labels: Tensor, weights: Tensor, penalty: Tensor) -> Tensor:
    def loss(at: Tensor) -> Tensor:
        logits = (design @ at[..., None])[..., 0]
        each = torch.nn.functional.softplus(logits) - labels * logits
        return (weights * each).sum(1) + (penalty * at.square()).sum(1) / 2

    at = torch.zeros(len(design), design.shape[2], dtype=torch.float64)
    for _ in range(STEPS):
        odds = torch.sigmoid((design @ at[..., None])[..., 0])
        gradient = (design.mT @ (weights * (odds - labels))[..., None])[..., 0] + penalty * at
        if gradient.abs().max() < GRADIENT:
            break
        curvature = weights * odds * (1 - odds)
        hessian = design.mT @ (curvature[..., None] * design) + torch.diag(penalty)
        step = torch.linalg.solve(hessian, gradient)
        before, factor = loss(at), torch.ones(len(at), 1, dtype=torch.float64)
        for _ in range(HALVINGS):
            worse = loss(at - factor * step) > before
            if not worse.any():
                break
            factor = torch.where(worse[:, None], factor / 2, factor)
        at = at - factor * step
    return at


def accuracy(rows: Tensor, labels: Tensor, groups: Tensor) -> Tensor:
    """Return the balanced accuracy of each probe on groups that it was not fitted to, (fits,).

    Parameters
    ----------
    rows, labels
        See `fit`.
    groups : Tensor of int, shape (images,)
        Left out one at a time. Where what is left has one label alone, that is what is said of the group.
    """
    said = torch.zeros(len(rows), len(labels), dtype=torch.bool)
    for group in groups.unique():
        out = groups == group
        kept = labels[~out]
        if kept.any() and not kept.all():
            weight, intercept = fit(rows[:, ~out], kept)
            said[:, out] = (rows[:, out].double() @ weight[..., None])[..., 0] + intercept[:, None] > 0
        else:
            said[:, out] = bool(kept.any())
    right = (said == labels).double()
    return (right[:, labels].mean(1) + right[:, ~labels].mean(1)) / 2
