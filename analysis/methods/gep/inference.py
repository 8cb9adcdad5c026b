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
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.methods.gep.scores import Audit
from analysis.stats.absolute_mean import AbsoluteMean, inverted_mean
from analysis.stats.bootstrap import bootstrap_interval
from analysis.stats.crossed import FEW_SEEDS, FEWEST_SEEDS, crossed_mean
from analysis.stats.swaps import crossed_covariance, crossed_swaps, word_swaps
from probes.config.schema import Measure

CONTEXTS, IMAGES, CROSSED = "contexts", "images", "contexts and seeds"
SHARED, UNPAIRED = "shared", "unpaired"


def infer(
    one: Audit, first: str, second: str, measure: Measure
) -> tuple[pd.DataFrame, dict[str, float | int | str]]:
    """Return how sure the differences between two words are, a row an attribute, and their score.

    ``unit`` is `CONTEXTS`, `IMAGES` or `CROSSED`, ``n_units`` how many of them were read for an attribute,
    ``n_contexts`` those read for any. ``reason`` says why an interval or p-value is NaN, or which attributes the score
    leaves out. ``score`` is the paper's, of the attributes that were read in more than one unit; floor and p-values
    are of that, ``p_smallest`` the smallest that so many units can give.
    """
    values = one.of(first, second)
    values = values[~np.isnan(values).all(axis=(1, 2, 3))]
    read = ~np.isnan(values)
    sums, counts, unit = np.where(read, values, 0.0), read.astype(float), CONTEXTS
    if one.noise == SHARED and len(values) > 1:
        unit = CROSSED
        vector, score = _crossed(sums, counts, measure)
    elif len(values) != 1:
        vector, score = _by_units(sums.sum(axis=2), counts.sum(axis=2), unit, measure)
    else:
        unit = IMAGES
        # in the explicit setting each attribute has prompts, and so images and noises, of its own
        swapped = {"dealt": one.noise == UNPAIRED, "apart": one.setting == "explicit" and one.noise != SHARED}
        vector, score = _by_units(sums[0].swapaxes(0, 1), counts[0].swapaxes(0, 1), unit, measure, **swapped)
    about = {"unit": unit, "n_contexts": len(values)}
    return pd.DataFrame({"attribute": one.attributes, **vector, **about}), score | about


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
    sums: NDArray[np.float64], counts: NDArray[np.float64], unit: str, measure: Measure, **swapped: bool
) -> tuple[dict[str, NDArray], dict[str, Any]]:
    """Columns of the vector, and the score, over independent units; arrays (n_units, 2, n_attributes)."""
    each = parts(sums, counts)
    units = (~np.isnan(each)).sum(axis=0)
    known = (units > 1) & (counts.sum(axis=0) > 0).all(axis=0)
    drawn = {"permutations": measure.permutations, "seed": measure.seed, **swapped}
    held = test = word_swaps(sums, counts, **drawn)
    if not known.all() and known.any():
        held = word_swaps(sums[:, :, known], counts[:, :, known], **drawn)
    # one value a unit, whose mean is the difference of the frequencies over all images
    linear = np.where(np.isnan(test.difference), np.nan, test.difference + each * units)
    interval = bootstrap_interval(linear, level=measure.level, resamples=measure.bootstrap, seed=measure.seed)
    spread = np.nan_to_num(each[:, known]) * np.sqrt(units[known] / (units[known] - 1))
    score = inverted_mean(
        test.difference[known],
        spread.T @ spread,
        freedom=int(units[known].min()) - 1 if known.any() else 1,
        level=measure.level,
        flips=None if held.reason else held.flips,
    )
    reasons = np.where(interval.reason == "", test.reasons, interval.reason)
    vector = {"difference": test.difference, "low": interval.low, "high": interval.high}
    vector |= {"p_value": test.p_values, "p_adjusted": test.p_adjusted, "n_units": units}
    why = _score_reason(_named(held.reason, unit), known, unit)
    return (
        vector | {"reason": [_named(text, unit) for text in reasons]},
        _score(score, held.floor, held.p_value, held.smallest, why),
    )


def _crossed(
    sums: NDArray[np.float64], counts: NDArray[np.float64], measure: Measure
) -> tuple[dict[str, NDArray], dict[str, Any]]:
    """The same over contexts and seeds, of arrays (n_contexts, 2, n_seeds, n_attributes)."""
    contexts, _, seeds, attributes = sums.shape
    total = counts.sum(axis=(0, 2))
    cells = (side.swapaxes(1, 2).reshape(-1, 2, attributes) for side in (sums, counts))
    each = np.nan_to_num(parts(*cells)).reshape(contexts, seeds, attributes)
    read = counts.any(axis=(1, 2))
    units = read.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        frequency = sums.sum(axis=(0, 2)) / total
        pooled = sums.sum(axis=(0, 1, 2)) / counts.sum(axis=(0, 1, 2))
        null = (sums - counts * pooled) / total[None, :, None]
        share = counts / total[None, :, None]
        share = share[:, 0] - (share[:, 0] - share[:, 1]) * (total[0] / total.sum(axis=0))
    difference = frequency[0] - frequency[1]
    linear = difference + np.where(read[:, None], each, np.nan) * units * seeds
    found = crossed_mean(linear, level=measure.level)
    known = (units > 1) & ~np.isnan(difference)
    why = "" if seeds >= FEWEST_SEEDS else FEW_SEEDS
    floor = p_value = smallest = np.nan
    raw, adjusted = np.abs(difference[known]).sum() / (known.sum() or np.nan), np.full(attributes, np.nan)
    score = AbsoluteMean(np.nan, np.nan, np.nan, raw, int(known.sum()))
    if known.any() and not why:
        null, share = (np.nan_to_num(one)[:, :, known] for one in (null[:, 0] - null[:, 1], share))
        test = crossed_swaps(null, share, draws=measure.permutations, seed=measure.seed)
        floor, adjusted[known] = test.floor, test.p_adjusted
        if null.any():
            p_value, smallest = test.p_value, test.smallest
        else:
            why = "no difference in any context"
        covariance, freedom = crossed_covariance(each[:, :, known])
        flips = test.flips if null.any() else None
        score = inverted_mean(
            difference[known], covariance, freedom=freedom, level=measure.level, flips=flips
        )
    vector = {"difference": difference, "low": found.low, "high": found.high, "p_value": found.p_value}
    vector |= {"p_adjusted": adjusted, "n_units": units}
    return (
        vector | {"reason": [_named(text, CONTEXTS) for text in found.reason]},
        _score(score, floor, p_value, smallest, _score_reason(why, known, CONTEXTS)),
    )


def _score(found: AbsoluteMean, floor: float, p_value: float, smallest: float, reason: str) -> dict[str, Any]:
    """The row of a score."""
    row = {"score": found.raw, "floor": floor, "p_value": p_value, "p_smallest": smallest, "reason": reason}
    return row | {
        "debiased": found.score,
        "low": found.low,
        "high": found.high,
        "n_attributes": found.n,
    }


def _score_reason(reason: str, known: NDArray[np.bool_], unit: str) -> str:
    """Why there is no floor, or which attributes are left out of the score."""
    if not known.any():
        return reason or f"no attribute was read in two {unit}"
    left = int((~known).sum())
    if left and not reason:
        return f"without {left} of {len(known)} attributes, which were read in fewer than two {unit}"
    return reason


def _named(reason: str, unit: str) -> str:
    """A reason with the unit in the place of the prompt."""
    return reason.replace("prompt", "image" if unit == IMAGES else "context")
