"""The gap as a share of the distance between the sides: where the reference stands between them, by projection."""

import math
from itertools import combinations, product

import numpy as np
import pandas as pd
import pytest

from analysis.metrics.registry import METRICS
from analysis.tables.similarities.side_shares import side_distance, side_shares

Z0 = METRICS["cosine"]


def unit_vectors(rng, centre, count, spread):
    points = centre + spread * rng.normal(size=(count, len(centre)))
    return points / np.linalg.norm(points, axis=1, keepdims=True)


def disparity(points, metric=Z0, turn=lambda x: x):
    rows = [(f"{a}-{b}", turn(points[a] @ points[b])) for a, b in combinations(points, 2)]
    table = pd.DataFrame(rows, columns=["pair", "mean"])
    return table.assign(space=metric.space, site=metric.site, metric=metric.metric, step=-1)


@pytest.mark.parametrize("at", [-0.6, 0.0, 0.4, 1.0])
def test_share_is_the_place_of_the_projection_between_the_sides(at):
    """On cosine distances: 2t − 1 of the projection on the line between the sides, in closed form."""
    rng = np.random.default_rng(3)
    first, second = unit_vectors(rng, np.ones(8), 2, 0.6)
    middle, half = (first + second) / 2, (first - second) / 2
    aside = rng.normal(size=8)
    aside -= (aside @ half) / (half @ half) * half
    aside -= (aside @ middle) / (middle @ middle) * middle
    inside = middle + at * half
    aside *= math.sqrt(max(1 - inside @ inside, 0)) / np.linalg.norm(aside)
    points = {"n": inside + aside, "f": second, "m": first}
    assert np.linalg.norm(points["n"]) == pytest.approx(1)
    gap = points["n"] @ first - points["n"] @ second
    row = {"gap": gap, "ci_low": gap / 2, "ci_high": 2 * gap, "delta": 0.001}
    found = side_shares(row, disparity(points), Z0, ["m"], ["f"])
    assert (found.share, found.share_low, found.share_high) == pytest.approx((at, at / 2, 2 * at), abs=1e-9)
    assert math.isnan(found.word_share)  # no words were tested


def test_a_distance_counts_itself_and_a_missing_pair_is_undefined():
    metric = METRICS["diff_pix"]
    rows = pd.DataFrame({"pair": ["f-m", "f-n", "m-n"], "mean": [20.0, 15.0, 5.0]})
    rows = rows.assign(space=metric.space, site=metric.site, metric=metric.metric, step=-1)
    found = side_shares({"gap": 10.0, "delta": 2.0}, rows, metric, ["m"], ["f"])
    assert (found.distance, found.share) == (20.0, 0.5) and math.isnan(found.share_low)
    assert math.isnan(side_shares({"gap": 10.0, "delta": 20.0}, rows, metric, ["m"], ["f"]).share)  # ≤ δ
    assert math.isnan(side_distance(rows, metric, ["m", "g"], ["f"]))


def test_share_over_words_takes_the_gap_over_words():
    rng = np.random.default_rng(8)
    sides = (np.eye(6)[0], np.eye(6)[1])
    points = dict(zip("mgfl", np.concatenate([unit_vectors(rng, side, 2, 0.2) for side in sides])))
    row = {"gap": 0.1, "word_gap": 0.2, "word_low": -0.1, "word_high": 0.5, "p_control": 0.3, "delta": 0.01}
    found = side_shares(row, disparity(points), Z0, ["m", "g"], ["f", "l"])
    across = np.mean([1 - points[a] @ points[b] for a, b in product("mg", "fl")])
    within = (1 - points["m"] @ points["g"] + 1 - points["f"] @ points["l"]) / 2
    assert found.word_distance == pytest.approx(across - within)
    assert (found.word_share, found.word_share_low, found.word_share_high) == pytest.approx(
        np.array([0.2, -0.1, 0.5]) / (across - within)
    )
