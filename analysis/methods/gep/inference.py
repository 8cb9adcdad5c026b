"""How sure the differences and the score of an audit are: contexts, images of one context, or contexts and seeds.

Frequencies are means over all images that were read (Zhang et al. 2023, Eq. 1), so an attribute that lacks a context
or most labels has fewer images and nothing else changes. What is drawn anew decides on the unit:

- of several contexts each has noises of its own: contexts (`analysis.stats.swaps`);
- of one context, or an occupation (Table 10): its images, and what is said is said of it alone;
- with `sampler.noise: shared` the seeds repeat over the contexts: contexts and seeds are crossed samples, the variance
  is the sum of both (`analysis.stats.crossed`), and the test of the score flips the signs of both.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analysis.methods.gep.scores import Audit
from analysis.stats.absolute_mean import AbsoluteMean, inverted_mean
from analysis.stats.bootstrap import bootstrap_interval
from analysis.stats.crossed import FEW_SEEDS, FEWEST_SEEDS, crossed_mean
from analysis.stats.swaps import crossed_covariance, crossed_swaps, word_swaps
from probes.config.schema import Measure

CONTEXTS, IMAGES, CROSSED = "contexts", "images", "contexts and seeds"
SHARED, UNPAIRED = "shared", "unpaired"


@dataclass(frozen=True)
class Inference:
    """Differences between two words and their score, with what errors they have; arrays have shape (n_attributes,).

    ``unit`` is `CONTEXTS`, `IMAGES` or `CROSSED`, ``n_units`` how many of them were read for each attribute,
    ``n_contexts`` those read for any. ``reason`` says why an interval or p-value is NaN, ``score_reason`` the same of
    the score, or which attributes it leaves out. ``score.raw`` is the paper's score, of the attributes that were read
    in more than one unit; floor and p-values are of that, ``smallest_p`` the smallest that so many units can give.
    """

    unit: str
    n_contexts: int
    difference: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    p_value: NDArray[np.float64]
    p_adjusted: NDArray[np.float64]
    n_units: NDArray[np.int64]
    reason: NDArray[np.object_]
    score: AbsoluteMean
    floor: float
    score_p: float
    smallest_p: float
    score_reason: str


def infer(one: Audit, first: str, second: str, measure: Measure) -> Inference:
    """Return how sure the differences between two words and their score are."""
    values = one.of(first, second)
    values = values[~np.isnan(values).all(axis=(1, 2, 3))]
    read = ~np.isnan(values)
    sums = np.where(read, values, 0.0)
    if one.noise == SHARED and len(values) > 1:
        return _crossed(sums, read.astype(float), measure)
    if len(values) != 1:
        return _by_units(sums.sum(axis=2), read.sum(axis=2), len(values), CONTEXTS, measure)
    of_images = [part[0].swapaxes(0, 1) for part in (sums, read.astype(float))]
    # in the explicit setting each attribute has prompts, and so images and noises, of its own
    swapped = {"dealt": one.noise == UNPAIRED, "apart": one.setting == "explicit" and one.noise != SHARED}
    return _by_units(*of_images, 1, IMAGES, measure, **swapped)


def over_units(units: Iterable[str]) -> str:
    """Return what intervals and tests are over, in words, from the units of some rows.

    Examples
    --------
    >>> over_units(["contexts", "contexts"]), over_units(["images"])
    ('over contexts', 'over the images of one context')
    """
    words = {IMAGES: "the images of one context"}
    return "over " + " or ".join(words.get(unit, unit) for unit in dict.fromkeys(units))


def parts(sums: NDArray[np.float64], counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return what each unit adds to the error of a difference of frequencies, shape (n_units, n_attributes).

    `sums` and `counts` (n_units, 2, n_attributes) are those of `analysis.stats.swaps.word_swaps`. The parts add up
    to 0; NaN where a unit was not read for an attribute.
    """
    total = counts.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        each = (sums - counts * (sums.sum(axis=0) / total)) / total
    return np.where(counts.any(axis=1), each[:, 0] - each[:, 1], np.nan)


def _by_units(
    sums: NDArray[np.float64],
    counts: NDArray[np.float64],
    n_contexts: int,
    unit: str,
    measure: Measure,
    **swapped: bool,
) -> Inference:
    """Inference over units that are independent of each other, shape (n_units, 2, n_attributes)."""
    each = parts(sums, counts)
    units = (~np.isnan(each)).sum(axis=0)
    known = (units > 1) & (counts.sum(axis=0) > 0).all(axis=0)
    test = word_swaps(sums, counts, permutations=measure.permutations, seed=measure.seed, **swapped)
    # one value a unit, whose mean is the difference of the frequencies over all images
    linear = test.difference + each * units
    interval = bootstrap_interval(
        np.where(np.isnan(test.difference), np.nan, linear),
        level=measure.level,
        resamples=measure.bootstrap,
        seed=measure.seed,
    )
    spread = np.nan_to_num(each[:, known]) * np.sqrt(units[known] / (units[known] - 1))
    freedom = int(units[known].min()) - 1 if known.any() else 1
    held = test
    if not known.all() and known.any():
        chosen = (sums[:, :, known], counts[:, :, known])
        held = word_swaps(*chosen, permutations=measure.permutations, seed=measure.seed, **swapped)
    flips = None if held.reason else held.flips
    options = {"freedom": freedom, "level": measure.level, "flips": flips}
    score = inverted_mean(test.difference[known], spread.T @ spread, **options)
    reason = np.where(interval.reason == "", test.reasons, interval.reason)
    return Inference(
        unit=unit,
        n_contexts=n_contexts,
        difference=test.difference,
        low=interval.low,
        high=interval.high,
        p_value=test.p_values,
        p_adjusted=test.p_adjusted,
        n_units=units,
        reason=_named(reason, unit),
        score=score,
        floor=held.floor,
        score_p=held.p_value,
        smallest_p=held.smallest,
        score_reason=_score_reason(str(_named(np.array([held.reason], object), unit)[0]), known, unit),
    )


def _crossed(sums: NDArray[np.float64], counts: NDArray[np.float64], measure: Measure) -> Inference:
    """Inference over contexts and seeds, shape (n_contexts, 2, n_seeds, n_attributes)."""
    contexts, _, seeds, attributes = sums.shape
    total = counts.sum(axis=(0, 2))
    cells = (side.swapaxes(1, 2).reshape(-1, 2, attributes) for side in (sums, counts))
    each = np.nan_to_num(parts(*cells)).reshape(contexts, seeds, attributes)
    read = counts.any(axis=(1, 2))
    units = read.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        frequency = sums.sum(axis=(0, 2)) / total
    difference = frequency[0] - frequency[1]
    linear = difference + np.where(read[:, None], each, np.nan) * units * seeds
    found = crossed_mean(linear, level=measure.level)
    known = (units > 1) & ~np.isnan(difference)
    kept, why = each[:, :, known], "" if seeds >= FEWEST_SEEDS else FEW_SEEDS
    floor = p_value = smallest = np.nan
    score, adjusted = inverted_mean([], np.zeros((0, 0))), np.full(attributes, np.nan)
    if known.any() and not why:
        with np.errstate(invalid="ignore", divide="ignore"):
            pooled = sums.sum(axis=(0, 1, 2)) / counts.sum(axis=(0, 1, 2))
            null = (sums - counts * pooled) / total[None, :, None]
            share = counts / total[None, :, None]
            share = share[:, 0] - (share[:, 0] - share[:, 1]) * (total[0] / total.sum(axis=0))
        null, share = (np.nan_to_num(one)[:, :, known] for one in (null[:, 0] - null[:, 1], share))
        test = crossed_swaps(null, share, draws=measure.permutations, seed=measure.seed)
        floor, p_value, smallest, adjusted[known] = test.floor, test.p_value, test.smallest, test.p_adjusted
        covariance, freedom = crossed_covariance(kept)
        flips = test.flips if null.any() else None
        score = inverted_mean(
            difference[known], covariance, freedom=freedom, level=measure.level, flips=flips
        )
    raw = float(np.abs(difference[known]).mean()) if known.any() else np.nan
    if not why and known.any() and not null.any():
        p_value = smallest = np.nan
        why = "no difference in any context"
    return Inference(
        unit=CROSSED,
        n_contexts=contexts,
        difference=difference,
        low=found.low,
        high=found.high,
        p_value=found.p_value,
        p_adjusted=adjusted,
        n_units=units,
        reason=_named(found.reason, CONTEXTS),
        score=score if score.n else AbsoluteMean(np.nan, np.nan, np.nan, raw, int(known.sum())),
        floor=floor,
        score_p=p_value,
        smallest_p=smallest,
        score_reason=_score_reason(why, known, CONTEXTS),
    )


def _score_reason(reason: str, known: NDArray[np.bool_], unit: str) -> str:
    """Why there is no floor, or which attributes are left out of the score."""
    if not known.any():
        return reason or f"no attribute was read in two {unit}"
    left = int((~known).sum())
    if left and not reason:
        return f"without {left} of {len(known)} attributes, which were read in fewer than two {unit}"
    return reason


def _named(reasons: NDArray[np.object_], unit: str) -> NDArray[np.object_]:
    """Reasons with the unit in the place of the prompt."""
    names = {CONTEXTS: "context", IMAGES: "image"}
    return np.array([text.replace("prompt", names[unit]) for text in reasons], dtype=object)
