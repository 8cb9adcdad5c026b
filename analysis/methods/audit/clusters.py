"""Pictures that share a noise: tests and intervals whose unit is the noise, not the picture."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from analysis.methods.audit.design import AuditCell
from analysis.stats.proportions import effective, wilson_interval

FLIPS = 9999


def effective_size(cell: AuditCell) -> float:
    """The number of independent pictures that the decided pictures of a cell are worth."""
    return float(effective(cell.hits[:, None], cell.of[:, None])[1][0])


def share_p_value(cell: AuditCell, reference: float) -> float:
    """The p-value that a share is the reference: exact with one picture a noise, else the score test."""
    if (cell.of <= 1).all():
        return float(stats.binomtest(cell.count, cell.decided, reference).pvalue) if cell.decided else np.nan
    size = effective_size(cell)
    if size <= 0:
        return np.nan
    if reference in (0, 1):
        return float(cell.share == reference)
    return float(2 * stats.norm.sf(abs(cell.share - reference) / np.sqrt(reference * (1 - reference) / size)))


def paired_values(first: AuditCell, second: AuditCell, about: float | None = None) -> NDArray[np.float64]:
    """Second less first of each noise that both have; with `about` what both lie beyond it, summed."""
    both = (first.of > 0) & (second.of > 0)
    a, b = (one.hits[both] / one.of[both] for one in (first, second))
    return b - a if about is None else (b - about) + (a - about)


def mean_rates(cells: Sequence[AuditCell]) -> NDArray[np.float64]:
    """The mean share of the cells in each noise; NaN where none has a decided picture."""
    of = np.array([cell.of for cell in cells])
    rates = np.ma.masked_array([cell.hits for cell in cells], of == 0) / of
    return rates.mean(axis=0).filled(np.nan)


def two_sample_p_value(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """The p-value that the noises of two models have the same share, NaN left out: Welch's t-test.

    Where no noise of either differs from another, or one model has a single noise, the noises are permuted between the
    models: Fisher's exact test where all of each are alike.
    """
    sides = [side[~np.isnan(side)] for side in (first, second)]
    sizes = [len(side) for side in sides]
    if not min(sizes):
        return np.nan
    if max(map(np.ptp, sides)) < 1e-12:
        same = abs(sides[0][0] - sides[1][0]) < 1e-12
        return 1.0 if same else float(stats.fisher_exact([[sizes[0], 0], [0, sizes[1]]]).pvalue)
    if min(sizes) < 2:
        pooled = np.concatenate(sides if sizes[0] == 1 else sides[::-1])
        apart = np.abs(pooled - pooled.mean())
        return float((apart >= apart[0] - 1e-12).mean())
    return float(stats.ttest_ind(sides[1], sides[0], equal_var=False).pvalue)


def flip_p_value(values: NDArray[np.float64], seed: int) -> float:
    """The two-sided p-value of sign flips of the values; of -1, 0 and 1 McNemar's exact test."""
    moved = values[np.abs(values) > 1e-12]
    if not len(moved):
        return 1.0 if len(values) else np.nan
    if np.ptp(np.abs(moved)) < 1e-12:
        return float(stats.binomtest(int((moved > 0).sum()), len(moved)).pvalue)
    rng = np.random.default_rng(seed)
    test = stats.permutation_test(
        (moved,), np.sum, permutation_type="samples", n_resamples=FLIPS, vectorized=False, rng=rng
    )
    return float(test.pvalue)


def paired_interval(first: AuditCell, second: AuditCell, level: float) -> tuple[float, float]:
    """The interval of the difference of two shares over the same noises, second less first.

    Wilson's intervals with effective sizes (Korn and Graubard 1998), joined by the square-and-add rule with the
    correlation over noises (Newcombe 1998, method 10 for paired proportions).
    """
    hits, of = (np.stack([getattr(one, name) for one in (second, first)], axis=1) for name in ("hits", "of"))
    rate, size, pull = effective(hits, of)
    low, high = wilson_interval(rate, size, level)
    alone = np.sqrt((pull[:, 0] ** 2).sum() * (pull[:, 1] ** 2).sum())
    correlation = (pull[:, 0] * pull[:, 1]).sum() / alone if alone > 0 else 0.0
    down, up = rate - low, high - rate
    value = rate[0] - rate[1]
    below = down[0] ** 2 - 2 * correlation * down[0] * up[1] + up[1] ** 2
    above = up[0] ** 2 - 2 * correlation * up[0] * down[1] + down[1] ** 2
    return float(value - np.sqrt(max(below, 0))), float(value + np.sqrt(max(above, 0)))


def jackknife(units: int, statistic: Callable[[NDArray[np.bool_]], float]) -> tuple[float, float]:
    """A statistic, given which noises are in, of all noises, and its jackknife variance over them."""
    everyone = np.ones(units, bool)
    if units < 2:
        return statistic(everyone), np.nan
    without = np.array([statistic(left) for left in ~np.eye(units, dtype=bool)])
    spread = without - without.mean()
    spread[np.abs(spread) < 1e-12] = 0.0  # rounding
    return statistic(everyone), float((units - 1) / units * (spread**2).sum())
