r"""Linear probes: how well can two words be told apart from an activation, and from when on?

A probe is an L2-regularised logistic regression of the first word (1) against the second (0) from standardised
activations, fitted to some prompts and scored on others. Readable is not used: a probe says that something can be read
at a place, never that the model makes use of it; for that one intervenes.

- *accuracy*, *auc* (area under the ROC curve) of prompts that are held out;
- *transfer*: AUC of the same probe on other rows of these prompts: of words of the same meaning, or of the neutral word
  against the outcome of its image;
- *selectivity* (Hewitt and Liang 2019): accuracy less that of a control task, whose labels are flipped at random prompt
  by prompt, both on seeds that are held out. On prompts that are held out the control is chance whatever is to be read;
- *bits*, the description length (Voita and Titov 2020, §2.2, online code): by which labels are told to somebody who has
  the activations, prompts arriving in portions; 1 bit a label where nothing can be read.

Intervals are bootstrap intervals over prompts, widened for what the probes of the folds have in common
(`analysis.stats.auc.across_folds`). AUC is taken of pairs of rows that the same probe has scored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special
from sklearn.linear_model import LogisticRegression

from analysis.methods.decoding import FOLDS, STRENGTH
from analysis.stats.auc import Bootstrap, IntervalEstimate, across_folds

VERSION = "decoding/3"
CONTROLS = 2  # control tasks, whose mean is taken
# of the prompts, after each of which the online code fits again
PORTIONS = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0)
ROUNDING = 1e-5  # spread of a channel, over the largest mean square of any, below which it counts as rounding
SHARE = 0.9  # of the last step's AUC, at which the decoding step is reached
ONE_SEED = "one seed: prompts are held out, of which the control is chance"
_FOLDS, _FLIPS, _ORDERS = 11, 12, 13  # streams of random numbers: one seed gives independent draws to each
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Choice:
    """Options of the fit of probes and of their intervals."""

    folds: int = FOLDS  # portions of the prompts, each held out once
    strength: float = STRENGTH  # C of scikit-learn, on standardised channels
    resamples: int = 2000
    level: float = 0.95
    seed: int = 0  # of folds, flips, orders and resamples


USUAL = Choice()


@dataclass(frozen=True)
class PlaceRows:
    """Rows of one place: their activations, and the prompt and seed that each was generated for."""

    x: Floats  # (n, d)
    prompt: Integers  # (n,), counted from 0; the unit of folds and intervals
    seed: Integers  # (n,)
    label: Floats  # (n,), 1 or 0; NaN: the row is left out


def decode(
    rows: PlaceRows, others: Mapping[str, PlaceRows], choice: Choice = USUAL
) -> dict[str, IntervalEstimate]:
    """Scores by name, as the module has them, of probes fitted to the rows of one place; transfers by their own names.

    Rows of `others`, numbered as `rows` by prompt, are scored by the probe that was not fitted to their prompt.
    """
    bits = description_length(rows, strength=choice.strength, seed=choice.seed)
    return {
        **cross_validated(rows, choice, others),
        "selectivity": _selectivity(rows, *_folds(rows, others, choice), choice),
        "bits": IntervalEstimate(bits, np.nan, np.nan, len(rows.label)),
    }


def cross_validated(
    rows: PlaceRows,
    choice: Choice = USUAL,
    others: Mapping[str, PlaceRows] = MappingProxyType({}),
    *,
    widened: bool = True,
) -> dict[str, IntervalEstimate]:
    """Accuracy and AUC of held-out prompts, and transfers; intervals not widened take the fitted probes as given."""
    fold, boot = _folds(rows, others, choice)
    transfers = [(one, fold[one.prompt]) for one in others.values()]
    scored, *of_others = _by_stratum(rows, fold[rows.prompt], choice.strength, *transfers)
    found = {
        "accuracy": boot.mean(rows.prompt, _correct(scored, rows.label)),
        "auc": boot.auc(rows.prompt, scored, rows.label, fold[rows.prompt]),
    }
    for name, odds, (one, stratum) in zip(others, of_others, transfers):
        found[name] = boot.auc(one.prompt, odds, one.label, stratum)
    folds = len(np.unique(fold))
    return {name: across_folds(one, folds) for name, one in found.items()} if widened else found


def _folds(rows: PlaceRows, others: Mapping[str, PlaceRows], choice: Choice) -> tuple[Integers, Bootstrap]:
    """The fold in which each prompt is held out, and the bootstrap over prompts."""
    prompts = 1 + max(int(one.prompt.max(initial=0)) for one in (rows, *others.values()))
    boot = Bootstrap(prompts, choice.resamples, choice.level, choice.seed)
    return fold_of_prompts(prompts, choice.folds, choice.seed), boot


def fold_of_prompts(prompts: int, folds: int, seed: int) -> Integers:
    """The fold in which each prompt is held out, at random, of sizes that differ by one at most."""
    order = np.random.default_rng([seed, _FOLDS]).permutation(prompts)
    fold = np.empty(prompts, np.int64)
    fold[order] = np.arange(prompts) % min(folds, prompts)
    return fold


def fitted(x: Floats, label: Floats, strength: float = STRENGTH) -> Callable[[Floats], Floats]:
    """A probe: a function from activations (n, d) to the log-odds of label 1.

    Channels are centred and divided by their standard deviation over `x`. One whose spread is but rounding
    (`ROUNDING`) is left out: rows of a batch differ in their last bits by where in the batch they stand.
    Labels of one kind alone give log-odds 0 for everything, since nothing is known.
    """
    if len(np.unique(label)) < 2:
        return lambda new: np.zeros(len(new))
    mean, spread = x.mean(axis=0), x.std(axis=0)
    varied = spread > ROUNDING * np.sqrt((x**2).mean(axis=0).max())
    if not varied.any():
        odds = special.logit(label.mean())
        return lambda new: np.full(len(new), odds)
    model = LogisticRegression(C=strength, max_iter=2000)
    model.fit((x[:, varied] - mean[varied]) / spread[varied], label)
    weights, odds = model.coef_[0] / spread[varied], float(model.intercept_[0])
    return lambda new: ((new[:, varied] - mean[varied]) * weights).sum(axis=1) + odds


def _by_stratum(
    rows: PlaceRows, stratum: Integers, strength: float, *others: tuple[PlaceRows, Integers]
) -> list[Floats]:
    """Log-odds of every row, and of every row of `others`, by the probe that was not fitted to its stratum."""
    every = [(rows, stratum), *others]
    scored = [np.full(len(one.label), np.nan) for one, _ in every]
    for held in np.unique(stratum):
        known = stratum != held
        probe = fitted(rows.x[known], rows.label[known], strength)
        for odds, (one, strata) in zip(scored, every):
            odds[strata == held] = probe(one.x[strata == held])
    return scored


def _correct(scored: Floats, label: Floats) -> Floats:
    """1 where a row is classified correctly, 0 where wrongly, half where the log-odds are 0."""
    side = np.sign(np.where(np.abs(scored) < 1e-9, 0.0, scored))
    return 0.5 + 0.5 * side * np.where(label > 0.5, 1.0, -1.0)


def _selectivity(rows: PlaceRows, fold: Integers, boot: Bootstrap, choice: Choice) -> IntervalEstimate:
    """Accuracy less that of the control task, both of held-out seeds, or of held-out prompts where there is one."""
    seeds = np.unique(rows.seed)
    stratum = np.searchsorted(seeds, rows.seed) if len(seeds) > 1 else fold[rows.prompt]
    rng, control = np.random.default_rng([choice.seed, _FLIPS]), []
    for _ in range(CONTROLS):
        flip = rng.integers(0, 2, len(fold))[rows.prompt]
        label = np.where(flip == 1, 1 - rows.label, rows.label)
        control.append(_correct(*_by_stratum(replace(rows, label=label), stratum, choice.strength), label))
    correct = _correct(*_by_stratum(rows, stratum, choice.strength), rows.label)
    found = boot.mean(rows.prompt, correct - np.mean(control, axis=0))
    found = across_folds(found, len(np.unique(stratum)), bounds=(-1.0, 1.0))
    return found if len(seeds) > 1 else replace(found, reason=ONE_SEED)


def description_length(rows: PlaceRows, *, strength: float = STRENGTH, seed: int = 0) -> float:
    r"""Bits a label in the online code (Voita and Titov 2020, §2.2.2); 1 where nothing can be read.

    .. math:: \frac{1}{n} \Big( n_1 + \sum_{i \ge 1} -\log_2 p_{\theta_i}(y_{n_i + 1 \dots n_{i+1}}) \Big)

    with :math:`\theta_i` fitted to the first :math:`n_i` labels: the labels of the first portion of the prompts
    (`PORTIONS` of them in a random order; those that hold no prompt are left out) are sent as they are, those of each
    further one by the probe of all before it.
    """
    prompts = int(rows.prompt.max()) + 1
    ends = sorted({max(1, int(np.ceil(share * prompts))) for share in PORTIONS})
    rank = np.random.default_rng([seed, _ORDERS]).permutation(prompts)[rows.prompt]
    bits = float((rank < ends[0]).sum())
    for before, end in pairwise(ends):
        known, new = rank < before, (rank >= before) & (rank < end)
        odds = fitted(rows.x[known], rows.label[known], strength)(rows.x[new])
        signed = np.where(rows.label[new] > 0.5, odds, -odds)
        bits += float(np.logaddexp(0.0, -signed).sum() / np.log(2))
    return bits / len(rows.label)


def decoding_step(auc: ArrayLike, low: ArrayLike) -> int | None:
    """The first step whose AUC reaches `SHARE` of the last step's and whose lower bound is above chance, or None."""
    values, bounds = np.asarray(auc, float), np.asarray(low, float)
    reached = (values >= SHARE * values[-1]) & (bounds > 0.5) if len(values) else np.zeros(0, bool)
    return int(np.argmax(reached)) if reached.any() else None
