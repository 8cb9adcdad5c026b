"""Races against a race made by hand, against all corners of what is possible, and by simulation."""

import itertools

import numpy as np
import pytest

from analysis.stats.confidence_sequences import sequence_interval
from analysis.stats.elimination import (
    FARTHEST,
    HIGHEST,
    LOWEST,
    NEAREST,
    OPEN,
    TIED,
    WON,
    eliminations,
    lead,
    level_of_each,
    race,
)

ALPHA = 0.05
LOOKS = range(12, 97, 12)
SCORES = {  # of a mean: the highest is looked for
    HIGHEST: lambda mean: mean,
    LOWEST: lambda mean: -mean,
    FARTHEST: abs,
    NEAREST: lambda mean: -abs(mean),
}


def raced_by_hand(values, looks, aim, within, level):
    """Who is left after each look, and how it ended: entrants as sets, pairs in both orders."""
    k = len(values)
    pairs = k * (k - 1) / 2 * (2 if aim in (FARTHEST, NEAREST) else 1)
    left, path = set(range(k)), []

    def ends(numbers):
        found = sequence_interval(numbers, level=1 - (1 - level) / pairs)
        return found.low, found.high

    def ahead(one, other, n):
        low, high = ends(values[one, :n] - values[other, :n])
        if aim == HIGHEST:
            return low > 0
        if aim == LOWEST:
            return high < 0
        least, most = ends(values[one, :n] + values[other, :n])
        same = (low > 0 and least > 0) or (high < 0 and most < 0)
        opposite = (low > 0 and most < 0) or (high < 0 and least > 0)
        return same if aim == FARTHEST else opposite

    def near(one, other, n):
        low, high = ends(values[one, :n] - values[other, :n])
        least, most = ends(values[one, :n] + values[other, :n])
        apart = -within < low and high < within
        return apart or (aim in (FARTHEST, NEAREST) and -within < least and most < within)

    for n in looks:
        out = {one for one in left if any(ahead(other, one, n) for other in left - {one})}
        left -= out
        tied = all(near(*pair, n) for pair in itertools.combinations(left, 2))
        path.append((n, tuple(sorted(left)), WON if len(left) == 1 else TIED if tied else OPEN))
        if path[-1][2]:
            break
    return path


@pytest.mark.parametrize("aim", [HIGHEST, LOWEST, FARTHEST, NEAREST])
@pytest.mark.parametrize("seed", range(3))
def test_a_race_is_that_of_pairs_compared_one_by_one(aim, seed):
    rng = np.random.default_rng(seed)
    means = rng.choice([-0.8, 0.0, 0.1, 0.9], 4)
    values = means[:, None] + rng.standard_normal(96) * 0.3 + 0.4 * rng.standard_normal((4, 96))
    found = race(values, LOOKS, aim=aim, within=0.4, level=1 - ALPHA)
    assert [(one.look, one.remaining, one.ended) for one in found] == raced_by_hand(
        values, LOOKS, aim, 0.4, 1 - ALPHA
    )


@pytest.mark.parametrize("aim", [HIGHEST, LOWEST, FARTHEST, NEAREST])
def test_a_lead_reaches_as_far_as_any_two_means_within_the_bounds(aim):
    """Over a grid of all pairs of means whose difference and sum lie within them."""
    rng = np.random.default_rng(3)
    for _ in range(60):
        low, least = rng.uniform(-2, 1.5, 2)
        high, most = low + rng.uniform(0.1, 2), least + rng.uniform(0.1, 2)
        difference, total = np.meshgrid(np.linspace(low, high, 201), np.linspace(least, most, 201))
        one, other = (total + difference) / 2, (total - difference) / 2
        ahead = SCORES[aim](one) - SCORES[aim](other)
        found = lead((low, high), (least, most) if aim in (FARTHEST, NEAREST) else None, aim)
        assert found == pytest.approx((ahead.min(), ahead.max()), abs=0.02)
        assert found[0] <= ahead.min() + 1e-12 and ahead.max() - 1e-12 <= found[1]


def test_all_sequences_that_there_can_be_share_the_error():
    for k, aim in itertools.product((2, 3, 8), (HIGHEST, NEAREST)):
        sequences = len(list(itertools.combinations(range(k), 2))) * (2 if aim == NEAREST else 1)
        assert sequences * (1 - level_of_each(0.9, k, aim)) == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("level", "entrants", "aim"), [(1, 3, HIGHEST), (0.95, 1, HIGHEST), (0.95, 3, "best")]
)
def test_what_is_no_race_is_refused(level, entrants, aim):
    with pytest.raises(ValueError, match=r"^(level|aim|entrants): expected"):
        level_of_each(level, entrants, aim)


def false_statements(values, means, aim, within):
    """Whether a race says anything false at any look."""
    score = [SCORES[aim](mean) for mean in means]
    false = False
    for standing in race(values, (24, 96), aim=aim, within=within, level=1 - ALPHA):
        false |= any(score[by] <= score[one] for one, by in standing.left.items())
        false |= any(
            not low <= score[one] - score[other] <= high
            for (one, other), (low, high) in standing.leads.items()
        )
        if standing.ended == TIED:
            kept = [score[one] for one in standing.remaining]
            false |= max(kept) - min(kept) >= within
    return false


@pytest.mark.parametrize(("k", "shared"), [(2, 0.0), (3, 0.7)])
def test_of_equal_entrants_of_unequal_spread_none_is_said_to_be_ahead_more_often_than_promised(k, shared):
    """Spreads by factors 1 to 3, alone or with most of their variance in common: far below the family's error."""
    rng, races = np.random.default_rng(k), 40
    spread = np.linspace(1, 3, k)[:, None]
    wrong = 0
    for _ in range(races):
        common, own = rng.standard_normal(96), rng.standard_normal((k, 96))
        values = spread * (np.sqrt(shared) * common + np.sqrt(1 - shared) * own)
        wrong += false_statements(values, [0.0] * k, HIGHEST, 0.0)
    assert wrong <= races * ALPHA


@pytest.mark.parametrize("aim", [FARTHEST, NEAREST])
def test_of_two_as_far_from_0_on_either_side_neither_is_ahead(aim):
    rng, races = np.random.default_rng(5), 20
    wrong, means = 0, [0.6, -0.6, 0.6]
    for _ in range(races):
        values = np.array(means)[:, None] + 0.5 * rng.standard_normal((3, 96))
        wrong += false_statements(values, means, aim, 0.5)
    assert wrong <= races * ALPHA


def test_the_pair_s_own_noise_decides_not_that_of_each():
    """Entrants that move together are told apart, though the interval of each is far wider than their distance."""
    rng = np.random.default_rng(2)
    together = 3 * rng.standard_normal(96)
    values = together + np.array([[0.0], [0.3]]) + 0.1 * rng.standard_normal((2, 96))
    found = race(values, LOOKS)
    assert found[-1].ended == WON and found[-1].remaining == (1,)
    assert found[-1].look <= 36
    alone = [sequence_interval(one[: found[-1].look]) for one in values]
    assert alone[0].high > alone[1].low


def test_who_each_is_behind_another_is_kept():
    """Pairs that were seen on other prompts can each be ahead of the next: then nobody leaves."""
    circle = {(0, 1): (0.1, 0.2), (1, 2): (0.1, 0.2), (0, 2): (-0.2, -0.1)}
    (found,) = eliminations(3, [10], lambda look, remaining: circle)
    assert (found.remaining, dict(found.left), found.ended) == ((0, 1, 2), {}, OPEN)


def test_a_missing_value_is_left_out_of_its_pairs_alone():
    rng = np.random.default_rng(8)
    values = rng.standard_normal((3, 40))
    holed = values.copy()
    holed[2, 5] = np.nan
    (whole,), (found,) = (race(one, [40]) for one in (values, holed))
    assert found.leads[0, 1] == whole.leads[0, 1]
    without = race(np.delete(values, 5, axis=1), [39])[0]
    assert found.leads[0, 2] == without.leads[0, 2]
