r"""A mean absolute difference over samples that are crossed, such as contexts and the seeds of a noise that they share.

Flipping the signs of whole contexts takes them for independent, which with a shared noise they are not: where seeds
have a part of their own it rejects a true null in up to 97 % of cases (`docs/validation/statistics.md`). Here signs of
contexts and signs of seeds are flipped, each on its own, and the two sums are added. What context and seed leave
unexplained is in both: each difference is scaled to the variance :math:`V_c + V_s - V_{cs}` (Cameron, Gelbach and
Miller 2011). It is a wild bootstrap, not an exact test, and rejects less often than it says.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from analysis.stats.absolute_mean import Flips
from analysis.stats.crossed import crossed_variances

_TOLERANCE = 1e-9


def crossed_score_test(
    parts: NDArray[np.float64], *, draws: int = 10000, seed: int = 0
) -> tuple[float, float, float]:
    """Hold a mean absolute difference against signs of contexts and of seeds.

    Parameters
    ----------
    parts : ndarray of float64, shape (n_contexts, n_seeds, n_attributes)
        What each context and seed adds to the difference of each attribute, which is their sum.
    draws, seed : int

    Returns
    -------
    floor, sd, p_value : float
        Mean and standard deviation of the score under the flips, and the part of them with a score as large.

    Examples
    --------
    Three seeds that agree at every context still agree in a quarter of their own flips.

    >>> floor, sd, p = crossed_score_test(np.ones((8, 3, 1)) / 24)
    >>> 0.1 < p < 0.25
    True
    """
    score = float(np.abs(parts.sum(axis=(0, 1))).mean())
    drawn = np.abs(_flipped(parts, draws, seed)[0][0]).mean(axis=1)
    reached = int((drawn >= score * (1 - _TOLERANCE) - 1e-15).sum())
    return float(drawn.mean()), float(drawn.std()), (1 + reached) / (1 + draws)


def crossed_adjusted(parts: NDArray[np.float64], *, draws: int = 10000, seed: int = 0) -> NDArray[np.float64]:
    """Return p-values of the differences, adjusted over attributes by max-T under the flips of `crossed_score_test`.

    NaN of an attribute whose parts are all 0.
    """
    (drawn,), variance = _flipped(parts, draws, seed)
    spread = np.sqrt(variance)
    with np.errstate(invalid="ignore", divide="ignore"):
        observed = np.abs(parts.sum(axis=(0, 1))) / spread
        largest = np.fmax.reduce(np.abs(drawn) / spread, axis=1, initial=0.0)
    reached = (largest[:, None] >= observed * (1 - _TOLERANCE) - 1e-15).sum(axis=0)
    return np.where(variance > 0, (1 + reached) / (1 + draws), np.nan)


def crossed_flips(parts: NDArray[np.float64], ones: NDArray[np.float64], *, draws: int, seed: int) -> Flips:
    """Return the flips of `crossed_score_test`, for `analysis.stats.absolute_mean.inverted_mean`.

    `ones` is what each context and seed adds to a difference of 1 that is the same in all of them.
    """
    return Flips(*_flipped(parts, draws, seed, ones)[0], 1)


def _flipped(
    parts: NDArray[np.float64], draws: int, seed: int, *others: NDArray[np.float64]
) -> tuple[list[NDArray[np.float64]], NDArray[np.float64]]:
    """Differences under the flips, shape (draws, n_attributes), those of `others`, and the variances they have."""
    of_contexts, of_seeds = parts.sum(axis=1), parts.sum(axis=0)
    rng = np.random.default_rng(seed)
    signs = [2.0 * rng.integers(0, 2, (draws, len(side))) - 1 for side in (of_contexts, of_seeds)]
    by_context, by_seed, both = (
        (side**2).reshape(-1, parts.shape[2]).sum(axis=0) for side in (of_contexts, of_seeds, parts)
    )
    variance = np.maximum.reduce([by_context + by_seed - both, by_context, by_seed])
    held = by_context + by_seed
    scale = np.sqrt(np.divide(variance, held, out=np.ones(len(held)), where=held > 0))
    sums = [(one.sum(axis=1), one.sum(axis=0)) for one in (parts, *others)]
    return [(signs[0] @ first + signs[1] @ second) * scale for first, second in sums], variance


def crossed_covariance(parts: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    """Return the covariance of differences over contexts and seeds, and its degrees of freedom (Satterthwaite).

    Of what each context and seed adds to the error of each attribute's difference, (n_contexts, n_seeds, n_attributes);
    that of seeds so far as it goes beyond what both hold (`crossed.crossed_variances`).
    """
    contexts, seeds, attributes = parts.shape
    each = parts * contexts * seeds
    by_context, by_seed = crossed_variances(each, np.full(attributes, contexts))
    of_contexts, of_seeds = parts.sum(axis=1), parts.sum(axis=0)
    first = of_contexts.T @ of_contexts * contexts / (contexts - 1)
    second = of_seeds.T @ of_seeds * seeds / (seeds - 1)
    variance = np.diag(second)
    scale = np.sqrt(np.divide(by_seed, variance, out=np.zeros(attributes), where=variance > 0))
    one, other = by_context.sum(), by_seed.sum()
    freedom = (one + other) ** 2 / (one**2 / (contexts - 1) + other**2 / (seeds - 1)) if one + other else 1.0
    return first + second * np.outer(scale, scale), max(float(freedom), 1.0)
