"""Can a paired difference be called absent? A test of equivalence over prompts, many columns at once.

Not significant is no proof of absence: *equivalent* is claimed only where the data rule out every difference of δ or
more.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from analysis.stats.rare_changes import (
    bounded_draws,
    effective_prompts,
    exponential_weights,
    few_carry,
    range_of,
)
from analysis.stats.resampling import (
    matrix,
    moments,
    resample_counts,
    resampled_deviations,
    studentized,
    undefined,
)


def equivalence_test(
    values: ArrayLike, delta: float, *, reach: ArrayLike, resamples: int = 2000, seed: int = 0
) -> NDArray[np.float64]:
    r"""Return p-values of the test that the mean of each column lies within :math:`\pm\delta`.

    Null: the mean is ≤ −δ or ≥ δ. The p-value is the largest of three: of two one-sided tests by Student's t of
    :math:`\bar x \mp \delta` (Schuirmann 1987); of where ±δ stands among the studentized resamples, (1 + #) / (1 +
    resamples); and of the bounded interval, which allows for rare changes that were not drawn
    (`analysis.stats.rare_changes`), with the largest difference that a prompt can have, `reach`. It keeps its level
    with skewed differences too. Where few prompts carry the variance standard errors say nothing, and the bounded
    interval decides alone. NaN with fewer than two prompts and where all values are equal; ValueError if `delta` is not
    above 0.

    >>> equivalence_test([[0.1], [-0.1], [0.2], [-0.2]], 0.5, reach=[1.0]).round(2).tolist()
    [0.07]
    """
    values = matrix(values)
    if not (np.isfinite(delta) and delta > 0):
        raise ValueError(f"delta: expected a number above 0, got {delta}")
    n, mean, sd = moments(values)
    with np.errstate(invalid="ignore", divide="ignore"):
        error = sd / np.sqrt(n)
        t_above, t_below = (mean + delta) / error, (mean - delta) / error
        p_value = np.maximum(special.stdtr(n - 1, -t_above), special.stdtr(n - 1, t_below))
        draws = studentized(
            *resampled_deviations(values, mean, resample_counts(len(values), resamples, seed))
        )
        tails = ((draws >= t_above).sum(axis=0), (draws <= t_below).sum(axis=0))
        p_value = np.maximum(p_value, (1 + np.maximum(*tails)) / (1 + (~np.isnan(draws)).sum(axis=0)))
        weights = exponential_weights(len(values), resamples, seed)
        low, high = bounded_draws(values, weights, range_of(values, np.asarray(reach)))
        beyond = np.maximum((low <= -delta).sum(axis=0), (high >= delta).sum(axis=0))
        bounded = (1 + beyond) / (1 + resamples)
    few = few_carry(effective_prompts(values), n)
    p_value = np.where(few, bounded, np.maximum(p_value, bounded))
    return np.where(undefined(values) == "", p_value, np.nan)
