"""A gap as a share of the distance between the two sides of its contrast: an effect size that people can read.

Cosine distances are half the squared distance of unit vectors. On such distances the share says where the reference
stands when it is projected on the line through both sides: −1 at the second side, 0 halfway, 1 at the first.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product

import pandas as pd

from analysis.metrics.registry import Metric

NAN = math.nan


@dataclass(frozen=True)
class SideShares:
    """The gap of one measure, and the gap over words, in units of the distance between the two sides.

    Shares are NaN where the sides lie no farther apart than the smallest gap that matters: noise over noise. The
    distance is taken as measured, so the ends are those of the gap in another unit: in simulated worlds they cover as
    often as they say or more often, the more the reference leans (docs/validation/statistics.md).
    """

    distance: float = NAN
    share: float = NAN
    share_low: float = NAN
    share_high: float = NAN
    word_distance: float = NAN
    word_share: float = NAN
    word_share_low: float = NAN
    word_share_high: float = NAN


def side_distance(rows: pd.DataFrame, metric: Metric, first: Sequence[str], second: Sequence[str]) -> float:
    """Return the mean distance between two sides, less half the mean distance of the words within each.

    1 − similarity, or the measure itself where lower is nearer; NaN where a pair is missing. On squared distances it is
    that of the two centres of the words, without what a few words are off them by chance.

    >>> from analysis.metrics.registry import METRICS
    >>> rows = pd.DataFrame({"pair": ["m-f", "m-l", "f-l"], "mean": [0.5, 0.4, 0.8]})
    >>> round(side_distance(rows, METRICS["cosine"], ["m"], ["f", "l"]), 6)
    0.45
    """
    means = {frozenset(str(pair).split("-")): float(mean) for pair, mean in zip(rows["pair"], rows["mean"])}

    def mean_distance(pairs: Sequence[tuple[str, str]]) -> float:
        values = [means.get(frozenset(pair), NAN) for pair in pairs]
        mean = sum(values) / len(values)
        return 1 - mean if metric.higher_is_nearer else mean

    within = [list(combinations(side, 2)) for side in (first, second)]
    return mean_distance(list(product(first, second))) - sum(mean_distance(own) / 2 for own in within if own)


def side_shares(
    row: Mapping,
    disparity: pd.DataFrame,
    metric: Metric,
    first: Sequence[str],
    second: Sequence[str],
) -> SideShares:
    """Return a gap as a share of the distance between its sides."""
    rows = metric.rows_of(disparity)
    distance = side_distance(rows, metric, first[:1], second[:1])
    word_distance = side_distance(rows, metric, first, second)
    delta = _float(row.get("delta"))
    least = delta if math.isfinite(delta) else 0.0
    own = [
        _float(row.get(name)) / distance if distance > least else NAN for name in ("gap", "ci_low", "ci_high")
    ]
    tested = math.isfinite(_float(row.get("p_control"))) and word_distance > least
    words = [
        _float(row.get(name)) / word_distance if tested else NAN
        for name in ("word_gap", "word_low", "word_high")
    ]
    return SideShares(distance, *own, word_distance, *words)


def _float(value: float | None) -> float:
    return NAN if value is None else float(value)
