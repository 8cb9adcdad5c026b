"""Confidence sequences against a bet made value by value and against all sequences there are."""

import itertools
import math

import numpy as np
import pytest

from analysis.stats.confidence_sequences import BETS, CAPS, FEWEST, log_capital, sequence_interval

ALPHA = 0.05


def capital_by_hand(values, mean, reach=None):
    """The capital after each value: one gambler for each stake and sign, each with an equal share."""
    gamblers = {(bet, cap, sign): 1.0 for bet, cap in zip(BETS, CAPS) for sign in (1, -1)}
    path = []
    for t, value in enumerate(values):
        if t >= FEWEST:
            before = [one - mean for one in values[:t]]
            scale = math.sqrt(sum(one * one for one in before) / t)
            for bet, cap, sign in gamblers:
                limits = [scale / bet] + ([] if reach is None else [(reach + abs(mean)) / cap])
                stake = 1 / max(limits) if max(limits) > 0 else math.inf
                off = value - mean
                won = 0.0 if off == 0 else max(-1.0, min(1.0, sign * stake * off))
                gamblers[bet, cap, sign] *= 1 + won
        path.append(sum(gamblers.values()) / len(gamblers))
    return path


@pytest.mark.parametrize("reach", [None, 2.5])
def test_the_capital_is_that_of_gamblers_who_bet_value_by_value(reach):
    values = np.random.default_rng(4).standard_normal(40).clip(-2.4, 2.4) + 0.1
    means = [-0.7, 0.0, 0.1, 0.6]
    found = np.exp(log_capital(values, means, reach=reach))
    assert found == pytest.approx([capital_by_hand(values, mean, reach)[-1] for mean in means], rel=1e-10)


@pytest.mark.parametrize(
    ("support", "weights"),
    [((-0.1, 1.8), (18 / 19, 1 / 19)), ((-1.0, 0.0, 0.25), (0.1, 0.5, 0.4))],
)
def test_over_all_sequences_of_a_bounded_mean_the_capital_is_a_fair_game(support, weights):
    """Of mean 0 and within their reach, however skewed: expected capital 1, which reaches 1 / α as rarely as it may."""
    assert np.dot(support, weights) == pytest.approx(0)
    length, reach = (10, 2.0) if len(support) == 2 else (6, 2.0)
    expected = crossed = 0.0
    for chosen in itertools.product(range(len(support)), repeat=length):
        chance = math.prod(weights[i] for i in chosen)
        path = capital_by_hand([support[i] for i in chosen], 0.0, reach)
        expected += chance * path[-1]
        crossed += chance * (max(path) >= 1 / ALPHA)
    assert expected == pytest.approx(1)
    assert crossed <= ALPHA


def test_symmetric_values_are_a_fair_game_without_any_reach():
    support, weights = (-30.0, -1.0, 1.0, 30.0), (0.1, 0.4, 0.4, 0.1)
    expected = 0.0
    for chosen in itertools.product(range(4), repeat=6):
        chance = math.prod(weights[i] for i in chosen)
        expected += chance * math.exp(log_capital([support[i] for i in chosen], [0.0])[0])
    assert expected == pytest.approx(1)


def test_the_ends_are_where_the_capital_reaches_its_bound():
    values = 0.3 + 0.5 * np.random.default_rng(1).standard_normal(60)
    found = sequence_interval(values, level=0.9)
    inside = np.linspace(found.low, found.high, 52)[1:-1]
    assert np.exp(log_capital(values, [found.low, found.high])) == pytest.approx([10, 10], rel=1e-6)
    assert (np.exp(log_capital(values, inside)) < 10).all()
    assert found.e_value == pytest.approx(capital_by_hand(values, 0.0)[-1])
    assert found.mean == pytest.approx(values.mean())


def test_missing_values_are_left_out_with_their_reach():
    values, reach = np.random.default_rng(2).standard_normal(30), np.linspace(3, 4, 30)
    holes = np.insert(values, [5, 20], np.nan)
    assert sequence_interval(holes, reach=np.insert(reach, [5, 20], 99.0)) == sequence_interval(
        values, reach=reach
    )


@pytest.mark.parametrize("values", [[], [0.1, 0.2, 0.3], [np.nan, np.nan]])
def test_of_few_values_nothing_is_ruled_out(values):
    found = sequence_interval(values)
    assert (found.low, found.high, found.e_value) == (-math.inf, math.inf, 1.0)


def test_values_that_are_all_alike_close_in_on_themselves():
    found = sequence_interval(np.zeros(40), reach=0.1)
    assert found.low < 0 < found.high
    assert max(-found.low, found.high) < 0.1
    assert found.e_value == 1


def test_what_is_no_number_is_refused():
    with pytest.raises(ValueError, match="expected numbers"):
        log_capital([0.1, np.nan], [0.0])
    with pytest.raises(ValueError, match="between 0 and 1"):
        sequence_interval([0.1], level=95)
