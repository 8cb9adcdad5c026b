"""Differences of shares, and of their distances from the reference, between two lists of cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from analysis.methods.audit import clusters
from analysis.methods.audit.design import AuditCell, Design
from analysis.methods.audit.shares import NO_PICTURE, ONE_NOISE, cell_size
from analysis.stats.proportions import (
    newcombe_interval,
    normal_p,
    square_and_add,
    squared_distance,
    stratified_exact_test,
    wilson_interval,
)

COUNTS = ("count", "decided")
NUMBERS = (
    *(
        "decided_first",
        "decided_second",
        "share_first",
        "share_second",
        "difference",
        "low",
        "high",
        "p_value",
    ),
    *(
        "distance_first",
        "distance_second",
        "distance_difference",
        "distance_low",
        "distance_high",
        "p_distance",
    ),
)


@dataclass(frozen=True)
class Pair:
    """Two cells made for the same but for what is compared, and the reference of their shares."""

    first: AuditCell
    second: AuditCell
    reference: float

    @property
    def defined(self) -> bool:
        """Whether both have decided pictures."""
        return bool(self.first.decided and self.second.decided)


def compare_pair(pair: Pair, design: Design, *, paired: bool) -> dict:
    """The difference of two cells, second less first: `NUMBERS` and ``reason``.

    It has Newcombe's interval, and Fisher's test; of the same noises (`paired`) the interval for pairs, and sign flips
    (McNemar); of two models' noises Welch's test. Distances are absolute differences from the reference; the interval
    of their difference joins those of the shares, and ``p_distance`` is the larger p-value of two tests: that the
    shares are equal, and that they lie on both sides of the reference, equally far.
    """
    if not pair.defined:
        return dict.fromkeys(NUMBERS, np.nan) | _counts([pair]) | {"reason": NO_PICTURE}
    a, b, r = pair.first, pair.second, pair.reference
    if not design.clustered:
        return {**_of_counts(a.count, a.decided, b.count, b.decided, r, design.level)}
    sizes = cell_size(a, design), cell_size(b, design)
    if paired:
        ends = clusters.paired_interval(a, b, design.level)
        p_value = clusters.flip_p_value(clusters.paired_values(a, b), design.seed)
        p_mirrored = clusters.flip_p_value(clusters.paired_values(a, b, r), design.seed)
    else:
        ends = newcombe_interval(b.share, sizes[1], a.share, sizes[0], design.level)
        p_value = clusters.two_sample_p_value(*(clusters.mean_rates([cell]) for cell in (a, b)))
        p_mirrored = _equally_far((a.share, b.share), sizes, r)
    return _counts([pair]) | _said((a.share, b.share), sizes, r, design.level, ends, (p_value, p_mirrored))


@lru_cache(maxsize=65536)
def _of_counts(x: int, n: int, y: int, m: int, reference: float, level: float) -> dict:
    """`compare_pair` of two cells of independent pictures, by their counts."""
    ends = newcombe_interval(y / m, m, x / n, n, level)
    p_value = stratified_exact_test([y], [m], [x], [n])
    if reference == 0.5:  # then the second share is that of the first's other answers
        p_mirrored = stratified_exact_test([y], [m], [n - x], [n])
    else:
        p_mirrored = _equally_far((x / n, y / m), (n, m), reference)
    said = _said((x / n, y / m), (n, m), reference, level, ends, (p_value, p_mirrored))
    return {"decided_first": n, "decided_second": m} | said


def _said(
    shares: tuple[float, float],
    sizes: tuple[float, float],
    reference: float,
    level: float,
    ends: tuple,
    p_values: tuple[float, float],
) -> dict:
    distances = [_distance_ends(*one, reference, level) for one in zip(shares, sizes)]
    return _compared(shares, distances) | {
        "low": float(ends[0]),
        "high": float(ends[1]),
        "p_value": p_values[0],
        "p_distance": float(np.maximum(*p_values)),
        "reason": "" if min(sizes) > 0 else ONE_NOISE,
    }


def _compared(shares: Sequence[float], distances: Sequence[tuple[float, float, float]]) -> dict:
    """Two shares, and two distances with the ends of their intervals, and the second less the first of either."""
    (first, *first_ends), (second, *second_ends) = distances
    low, high = square_and_add(second, second_ends, first, first_ends)
    return {
        "share_first": shares[0],
        "share_second": shares[1],
        "difference": shares[1] - shares[0],
        "distance_first": first,
        "distance_second": second,
        "distance_difference": second - first,
        "distance_low": float(low),
        "distance_high": float(high),
    }


def compare_pairs(pairs: Sequence[Pair], design: Design, *, paired: bool) -> dict:
    """The mean difference of two lists of cells, paired by what they were made for, second less first.

    The interval joins those of the pairs by the square-and-add rule, and the test is exact, stratified by pair.
    Distances are root mean squares over the pairs, without what chance adds
    (`analysis.stats.proportions.squared_distance`); their test is of the mean squares. Where pictures share noises all
    are over the noises (jackknife, Student's t); where no noise differs from another the shares have Newcombe's
    interval, of as many pictures as noises, and an exact test.
    """
    known = [pair for pair in pairs if pair.defined]
    if not known:
        return dict.fromkeys(NUMBERS, np.nan) | _counts(pairs) | {"reason": NO_PICTURE}
    groups = [[(getattr(pair, side), pair.reference) for pair in known] for side in ("first", "second")]
    squares = [mean_square(group, design) for group in groups]
    tests = (
        _clustered(groups, squares, design, paired)
        if design.clustered
        else _independent(known, squares, design)
    )
    most = farthest([pair.reference for pair in known])
    distances = [mean_distance(*square, design.level, most) for square in squares]
    shares = [float(np.mean([cell.share for cell, _ in group])) for group in groups]
    reason = "" if len(known) == len(pairs) else f"over {len(known)} of {len(pairs)}"
    reason = ONE_NOISE if np.isnan(tests["low"]) else reason
    return _counts(known) | _compared(shares, distances) | tests | {"reason": reason}


def mean_distance(
    square: float, variance: float, level: float, most: float = 1.0
) -> tuple[float, float, float]:
    """A root mean square distance and the ends of its interval, at most `most`, from the mean square."""
    half = stats.norm.ppf((1 + level) / 2) * np.sqrt(variance)
    ends = (square, square - half, square + half)
    value, low, high = (float(np.sqrt(np.clip(end, 0.0, most**2))) for end in ends)
    return value, low, high


def farthest(references: Sequence[float]) -> float:
    """The root mean square of the largest distances that shares can have from their references."""
    return float(np.sqrt(np.mean([max(one, 1 - one) ** 2 for one in references])))


def mean_square(group: Sequence[tuple[AuditCell, float]], design: Design) -> tuple[float, float]:
    """The mean squared distance of cells from their references without what chance adds, and its variance.

    Where pictures share noises it is the jackknife's; where that is 0, of as many pictures as noises, the same in all
    professions.
    """
    if design.clustered:
        square, variance = clusters.jackknife(len(group[0][0].of), lambda chosen: _square(group, chosen))
        if variance > 0:
            return square, variance
        sizes = [np.count_nonzero(cell.of) for cell, _ in group]
        counts = [cell.share * n for (cell, _), n in zip(group, sizes)]
        return square, float(np.sqrt(squared_distance(counts, sizes, [r for _, r in group])[1]).mean() ** 2)
    columns = [[cell.count for cell, _ in group], [cell.decided for cell, _ in group], [r for _, r in group]]
    values, variances = squared_distance(*columns)
    known = ~np.isnan(values)
    if not known.any():
        return np.nan, np.nan
    return float(values[known].mean()), float(variances[known].sum() / known.sum() ** 2)


def _independent(pairs: Sequence[Pair], squares: Sequence[tuple[float, float]], design: Design) -> dict:
    each = [compare_pair(pair, design, paired=False) for pair in pairs]
    difference, *ends = (np.array([one[name] for one in each]) for name in ("difference", "low", "high"))
    down, up = (np.sqrt(((difference - end) ** 2).sum()) / len(pairs) for end in ends)
    counts = [
        [getattr(getattr(p, side), name) for p in pairs] for side in ("second", "first") for name in COUNTS
    ]
    return {
        "low": float(difference.mean() - down),
        "high": float(difference.mean() + up),
        "p_value": stratified_exact_test(*counts),
        "p_distance": float(normal_p(squares[1][0] - squares[0][0], squares[0][1] + squares[1][1])),
    }


def _clustered(
    groups: list[list], squares: Sequence[tuple[float, float]], design: Design, paired: bool
) -> dict:
    sizes = [len(group[0][0].of) for group in groups]

    def mean(group: list, chosen: NDArray[np.bool_]) -> float:
        with np.errstate(invalid="ignore"):
            return float(np.nanmean([cell.hits[chosen].sum() / cell.of[chosen].sum() for cell, _ in group]))

    units = min(sizes)
    apart = squares[1][0] - squares[0][0], squares[0][1] + squares[1][1]
    if paired:
        value, variance = clusters.jackknife(units, lambda c: mean(groups[1], c) - mean(groups[0], c))
        together = clusters.jackknife(units, lambda c: _square(groups[1], c) - _square(groups[0], c))
        apart = together if together[1] > 0 else apart
    else:
        means = [clusters.jackknife(n, lambda c, g=group: mean(g, c)) for n, group in zip(sizes, groups)]
        value, variance = means[1][0] - means[0][0], means[0][1] + means[1][1]
    if variance > 0:
        edge = stats.t.ppf((1 + design.level) / 2, units - 1) * np.sqrt(variance)
        low, high = max(-1.0, value - edge), min(1.0, value + edge)
        p_value = _t_p_value(value, variance, units)
    else:
        first, second = (clusters.mean_rates([cell for cell, _ in group]) for group in groups)
        if paired:
            p_value = clusters.flip_p_value((second - first)[~np.isnan(second - first)], design.seed)
        else:
            p_value = clusters.two_sample_p_value(first, second)
        worth = [np.count_nonzero(~np.isnan(rates)) * (n > 1) for rates, n in zip((first, second), sizes)]
        shares = [float(np.mean([cell.share for cell, _ in group])) for group in groups]
        low, high = newcombe_interval(shares[1], worth[1], shares[0], worth[0], design.level)
    return {
        "low": float(low),
        "high": float(high),
        "p_value": p_value,
        "p_distance": _t_p_value(*apart, units),
    }


def _t_p_value(value: float, variance: float, units: int) -> float:
    if units < 2:
        return np.nan
    return float(2 * stats.t.sf(abs(value) / np.sqrt(variance), units - 1))


def _square(group: Sequence[tuple[AuditCell, float]], chosen: NDArray[np.bool_]) -> float:
    """The mean over cells of products of two different noises' sums of answers less the reference."""
    values = []
    for cell, reference in group:
        of = cell.of[chosen]
        away = cell.hits[chosen] - reference * of
        weight = of.sum() ** 2 - (of**2).sum()
        values.append((away.sum() ** 2 - (away**2).sum()) / weight if weight > 0 else np.nan)
    return float(np.nanmean(values)) if not np.isnan(values).all() else np.nan


def _counts(pairs: Sequence[Pair]) -> dict:
    return {f"decided_{side}": sum(getattr(p, side).decided for p in pairs) for side in ("first", "second")}


def _distance_ends(share: float, size: float, reference: float, level: float) -> tuple[float, float, float]:
    """The distance of a share from the reference, and the ends of Wilson's interval of it."""
    low, high = (
        float(end) - reference for end in wilson_interval(np.float64(share), np.float64(size), level)
    )
    nearest = 0.0 if low <= 0 <= high else min(abs(low), abs(high))
    return abs(share - reference), nearest, max(abs(low), abs(high))


def _equally_far(shares: tuple[float, float], sizes: tuple[float, float], reference: float) -> float:
    """The p-value that two shares lie on both sides of the reference, equally far; variances at (x + 1) / (n + 2)."""
    if not min(sizes) > 0:
        return np.nan
    near = [(share * size + 1) / (size + 2) for share, size in zip(shares, sizes)]
    variance = sum(share * (1 - share) / size for share, size in zip(near, sizes))
    return float(normal_p(sum(shares) - 2 * reference, variance))
