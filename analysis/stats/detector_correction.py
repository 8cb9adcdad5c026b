r"""Presence of objects corrected by the detector's error rates, with their uncertainty.

A detector with sensitivity s and false positive rate f shows an object of frequency π in the share
:math:`p = s \pi + f (1 - \pi)` of the images, so

.. math:: \hat\pi = (p - f) / (s - f)

(the matrix method; Rogan and Gladen 1978). A detector that sees less on the images of one side makes a difference of
its own, so s and f are those of the side; what few labels say of one side is drawn towards what both sides say, and
that towards all objects, with the weight of `OBJECT_WEIGHT` and `SIDE_WEIGHT` labelled images. Unshrunk rates of a side
have no bias and, with three labelled images that hold the object, a standard error of 0.1 to 0.3; pooled ones have
little variance and the bias that the correction is to remove.

Where labels and detections come from the same prompts, a prompt is corrected by rates of the other prompts
(cross-fitting); otherwise the corrected value would be the labels' own, and say nothing of the correction.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from analysis.stats.effects import wilson_interval
from analysis.stats.resampling import ONE_PROMPT
from analysis.stats.sign_flips import flip_p_values

OBJECT_WEIGHT, SIDE_WEIGHT = 2.0, 4.0  # labelled images
FOLDS = 12
SEES = 0.2  # smallest s - f: below, detections say next to nothing of the object, and none seen is not none there
LEAST_SEES = 0.1  # in a single draw
CORRECTION_STREAM = 21  # one seed draws nothing twice
IMPUTATIONS = 400
LEAST_SIZE = 1e-3  # effective images of a score; with fewer its interval is 0 to 1 anyway
BLOCK = 512  # objects at a time
BLIND = "the detector hardly tells images with the object from those without"
NO_LABELS = "no labelled image"


@dataclass(frozen=True)
class Labels:
    """Labelled images by prompt, side and object; arrays of shape (n_prompts, 2, n_objects).

    Attributes
    ----------
    hits, missed, false, rejected : ndarray of float64
        Images with the object that were detected or not, and images without it that were detected or not. Not whole
        where images are weighted.
    aligned : bool
        Whether the prompts are those of the detections, in their order (0 where a prompt has no label).
    """

    hits: NDArray[np.float64]
    missed: NDArray[np.float64]
    false: NDArray[np.float64]
    rejected: NDArray[np.float64]
    aligned: bool


@dataclass(frozen=True)
class Corrected:
    """Presence behind the detector; arrays of shape (n_objects,), or (2, n_objects) for the sides.

    Attributes
    ----------
    presence : ndarray of float64, shape (2, n_objects)
        Corrected share of the images, within 0 to 1.
    sensitivity, specificity : ndarray of float64, shape (2, n_objects)
        Shrunk, of all labels.
    difference, difference_low, difference_high : ndarray of float64
        Second side less first.
    score, score_low, score_high : ndarray of float64
        Bias score, second side over both.
    p_value : ndarray of float64
        Mean of the exact sign-flip p-values of imputed truths; 1 where the detector sees next to nothing.
    reason : ndarray of object (str)
        Why the numbers are NaN; empty where they are not.
    """

    presence: NDArray[np.float64]
    sensitivity: NDArray[np.float64]
    specificity: NDArray[np.float64]
    difference: NDArray[np.float64]
    difference_low: NDArray[np.float64]
    difference_high: NDArray[np.float64]
    score: NDArray[np.float64]
    score_low: NDArray[np.float64]
    score_high: NDArray[np.float64]
    p_value: NDArray[np.float64]
    reason: NDArray[np.object_]


def corrected_presence(
    detected: ArrayLike,
    images: ArrayLike,
    labels: Labels,
    *,
    level: float = 0.95,
    resamples: int = 2000,
    imputations: int = IMPUTATIONS,
    seed: int = 0,
) -> Corrected:
    r"""Correct the presence of objects on two sides for what the detector misses and invents.

    Intervals come from a bootstrap over prompts that draws detections and labels together where both are of the same
    prompts, and each on its own otherwise; in every draw the centre that rates are shrunk to is drawn too, from the
    beta distribution that its weight stands for, so that rates nobody labelled are as uncertain as they are. The
    difference has a t interval with that standard error, after adding two prompts of which one image differs, one
    either way (Bonett and Price); the score Wilson's with the effective size :math:`b (1 - b) / v`.

    The p-value asks whether the difference would be significant if the truth behind the detections were tested: truths
    are imputed from the detections by Bayes' rule with rates and prevalences of single draws, all images of a prompt
    and side together (errors agree between images that differ in a word alone), each is tested by sign flips, and the
    p-values are averaged. A mean of p-values can reject at most twice as often as it says, whatever they depend on;
    simulated (`lab.validate.statistics.objects`) it rejects less often than it says.

    Parameters
    ----------
    detected : array_like of int, shape (n_prompts, 2, n_objects)
        Images of the prompt and side in which the object was detected.
    images : array_like of int, shape (n_prompts, 2)
        Images of the prompt and side.
    labels : Labels
    level : float
    resamples, imputations, seed : int

    Source
    ------
    Rogan and Gladen 1978; Buonaccorsi 2010, chapter 3; Rubin 1987 for imputation; Meng 1994
    for the mean of p-values; Chernozhukov et al. 2018 for cross-fitting.

    Examples
    --------
    Detected in half of the images; labels elsewhere say that half of what is there is missed and nothing invented.

    >>> n = np.full((8, 2), 10)
    >>> x = np.stack([n * 0, n // 2], axis=2)[:, :, 1:]
    >>> many = np.full((50, 2, 1), 200.0)
    >>> labels = Labels(many, many, many * 0, many * 2, aligned=False)
    >>> corrected_presence(x, n, labels, resamples=50).presence.round(2).tolist()
    [[1.0], [1.0]]
    """
    x, n = np.asarray(detected, np.float64), np.asarray(images, np.float64)
    width = x.shape[2]
    blocks = [
        _block(
            x[:, :, block],
            n,
            [a[:, :, block] for a in (labels.hits, labels.missed, labels.false, labels.rejected)],
            _overall(labels),
            labels.aligned,
            (level, resamples, imputations, np.random.default_rng([seed, CORRECTION_STREAM, block.start])),
        )
        for block in (slice(start, start + BLOCK) for start in range(0, max(width, 1), BLOCK))
    ]
    return Corrected(*(np.concatenate(parts, axis=-1) for parts in zip(*blocks)))


def _overall(labels: Labels) -> tuple[float, float]:
    """Sensitivity and false positive rate over all objects; half a labelled image each way, so never 0 or 1."""
    hits, missed, false, rejected = (
        float(a.sum()) for a in (labels.hits, labels.missed, labels.false, labels.rejected)
    )
    return (hits + 0.5) / (hits + missed + 1), (false + 0.5) / (false + rejected + 1)


def _block(x, n, counts, overall, aligned, options) -> tuple[NDArray, ...]:
    level, resamples, imputations, rng = options
    rows, _, width = x.shape
    fold = np.arange(rows) % min(FOLDS, rows) if aligned else np.zeros(rows, int)
    weights = np.vstack([np.ones(rows), _resamples(rows, resamples, rng)])
    of_labels = (
        weights
        if aligned
        else np.vstack([np.ones(len(counts[0])), _resamples(len(counts[0]), resamples, rng)])
    )
    sums = [_weighted(of_labels, a) for a in counts]  # (1 + resamples, 2, width)
    centres = _centres(sums, overall, rng)
    s_all, f_all = _rates(sums, centres)
    corrected, size, rates = np.zeros_like(sums[0]), _weighted(weights, n[:, :, None]), []
    for k in range(int(fold.max()) + 1 if rows else 0):
        inside = fold == k
        left = sums
        if aligned and rows > 1:
            left = [total - _weighted(weights[:, inside], a[inside]) for total, a in zip(sums, counts)]
        s, f = _rates(left, centres)
        share_x, share_n = (
            _weighted(weights[:, inside], x[inside]),
            _weighted(weights[:, inside], n[inside][:, :, None]),
        )
        corrected += (share_x - f * share_n) / np.maximum(s - f, LEAST_SEES)
        rates.append((s[1:], f[1:]))
    with np.errstate(invalid="ignore", divide="ignore"):
        presence = corrected / size
        clipped = np.clip(presence, 0, 1)
        gaps = presence[1:, 1] - presence[1:, 0]
        both = clipped[0].sum(axis=0)
        score = np.where(both > 0, clipped[0, 1] / both, np.nan)
        grown = rows / (rows - 1) if rows > 1 else np.nan
        v11, v22 = presence[1:, 0].var(axis=0) * grown, presence[1:, 1].var(axis=0) * grown
        v12 = (v11 + v22 - gaps.var(axis=0) * grown) / 2
        per = size[0].mean() / max(rows, 1)
        value = clipped[0, 1] - clipped[0, 0]
        spread = (gaps.var(axis=0) * grown * rows**2 + 2 / per**2) / (rows + 2) ** 2
        half = _t(level, rows - 1) * np.sqrt(spread + 2 * rows * value**2 / (rows + 2) ** 3)
        middle = value * rows / (rows + 2)
        v = ((1 - score) ** 2 * v22 + score**2 * v11 - 2 * score * (1 - score) * v12) / both**2
        with_object = (x.sum(axis=1) > 0).sum(axis=0)
        effective = np.where((score == 0) | (score == 1), with_object, score * (1 - score) / v)
        effective = np.where(effective > 0, np.clip(effective, LEAST_SIZE, n.sum()), 0.0)
    score_low, score_high = wilson_interval(score, np.nan_to_num(effective), level)
    reason = np.full(width, "", dtype=object)
    reason[((s_all - f_all)[0] <= SEES).any(axis=0)] = BLIND
    reason[sum(a.sum(axis=(0, 1)) for a in counts) == 0] = NO_LABELS
    if rows < 2:
        reason[:] = ONE_PROMPT
    p_value = (
        _imputed(x, n, fold, rates, clipped[1:], imputations, rng) if rows > 1 else np.full(width, np.nan)
    )
    columns = (
        *(clipped[0], s_all[0], 1 - f_all[0], value),
        *(
            np.clip(middle - half, -1, 1),
            np.clip(middle + half, -1, 1),
            score,
            score_low,
            score_high,
            p_value,
        ),
    )
    *columns, p_value = (np.where(reason == "", column, np.nan) for column in columns)
    return *columns, np.where(reason == BLIND, 1.0, p_value), reason


def _resamples(rows: int, resamples: int, rng: np.random.Generator) -> NDArray[np.float64]:
    return (
        rng.multinomial(rows, np.full(rows, 1 / rows), resamples).astype(float)
        if rows
        else np.ones((resamples, 0))
    )


def _weighted(weights: NDArray, values: NDArray) -> NDArray[np.float64]:
    """Sums over prompts in each draw: (draws, n_prompts) and (n_prompts, 2, width) to (draws, 2, width)."""
    return (weights @ values.reshape(len(values), -1)).reshape(len(weights), *values.shape[1:])


def _centres(sums, overall, rng):
    """Return what the rates of a side are drawn towards: of each draw, sensitivity and false positive rate."""
    centres = []
    for one, other, rate in ((sums[0], sums[1], overall[0]), (sums[2], sums[3], overall[1])):
        centre = np.full(one.shape[::2], rate)
        centre[1:] = rng.beta(OBJECT_WEIGHT * rate, OBJECT_WEIGHT * (1 - rate), centre[1:].shape)
        yes, no = one.sum(axis=1), other.sum(axis=1)
        middle = np.clip((yes + OBJECT_WEIGHT * centre) / (yes + no + OBJECT_WEIGHT), 1e-6, 1 - 1e-6)
        side = np.repeat(middle[:, None], 2, axis=1)
        side[1:] = rng.beta(SIDE_WEIGHT * side[1:], SIDE_WEIGHT * (1 - side[1:]))
        centres.append(side)
    return centres


def _rates(sums, centres) -> tuple[NDArray, NDArray]:
    """Sensitivity and false positive rate of each draw, side and object."""
    return tuple(
        (one + SIDE_WEIGHT * centre) / (one + other + SIDE_WEIGHT)
        for one, other, centre in ((sums[0], sums[1], centres[0]), (sums[2], sums[3], centres[1]))
    )


def _imputed(x, n, fold, rates, presence, imputations, rng) -> NDArray[np.float64]:
    """Mean sign-flip p-value over imputed truths."""
    draws = rng.choice(len(presence), min(imputations, len(presence)), replace=False)
    factor = np.lcm.reduce(n.sum(axis=0).astype(np.int64)) / n.sum(axis=0)  # sides with unequally many images
    factor = factor / np.gcd.reduce(factor.astype(np.int64))
    total = np.zeros(x.shape[2])
    of_folds = [np.stack([rate[kind][draws] for rate in rates], axis=1) for kind in (0, 1)]
    for prior, *of_fold in zip(presence[draws], *of_folds):
        s, f = (rate[fold] for rate in of_fold)  # (n_prompts, 2, width)
        shown = s * prior + f * (1 - prior)
        with np.errstate(invalid="ignore", divide="ignore"):
            real = np.nan_to_num(s * prior / shown)
            hidden = np.nan_to_num((1 - s) * prior / (1 - shown))
        truth = x * (rng.random(x.shape) < real) + (n[:, :, None] - x) * (rng.random(x.shape) < hidden)
        total += flip_p_values(factor[1] * truth[:, 1] - factor[0] * truth[:, 0])
    return total / len(draws)


def _t(level: float, freedom: int) -> float:
    return float(special.stdtrit(max(freedom, 1), (1 + level) / 2))
