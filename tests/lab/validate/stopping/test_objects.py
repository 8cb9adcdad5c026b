"""Worlds of paired presence have the frequencies that they state, and their tests are the published ones."""

import numpy as np
import pytest
from scipy import stats

from analysis.methods.stopping.question import EQUIVALENCE, FIRST, OPEN, SECOND
from lab.validate.stopping.designs import GROUPS, STOPS
from lab.validate.stopping.objects import (
    PAIR_WORLDS,
    PairWorld,
    adjusted_interval,
    by_sign_test,
    decided_pairs,
    printed_pairs,
    sign_p_values,
)


@pytest.mark.parametrize("world", PAIR_WORLDS.values(), ids=lambda world: world.name)
def test_worlds_have_the_difference_that_they_state(world):
    values = world.drawn(400, 500, np.random.default_rng(0))
    assert values.mean() == pytest.approx(world.observed, abs=4 * values.std() / np.sqrt(values.size))
    assert np.abs(values).max() <= 1
    if not world.unseen:
        assert world.observed == pytest.approx(world.mean)


def test_pairs_of_one_noise_share_the_object_and_independent_ones_do_not():
    rng = np.random.default_rng(1)
    differing = [np.mean(PairWorld("", 0.2, 0.1, same).drawn(500, 500, rng) != 0) for same in (None, 0.9)]
    assert differing == pytest.approx([0.2 * 0.9 + 0.1 * 0.8, 0.11 + 0.01], abs=0.004)


def test_what_is_left_of_pairs_that_go_unseen_is_what_is_drawn_image_by_image():
    world, rng = PairWorld("", 0.9, 0.4, unseen=0.1), np.random.default_rng(2)
    here, there = (rng.random(1_000_000) < share for share in (0.9, 0.4))
    seen = (rng.random(len(here)) < 1 - 0.1 * here) & (rng.random(len(here)) < 1 - 0.1 * there)
    assert world.observed == pytest.approx((1.0 * here - there)[seen].mean(), abs=0.003)
    assert world.observed > world.mean + 0.01


def test_frequencies_are_those_that_the_papers_print():
    pairs = {name: (first, second) for name, first, second in printed_pairs()["GEP"]}
    assert len(pairs) == 90 and pairs["DALLE-2, explicit, dress"] == (0.99, 0.11)
    assert len(printed_pairs()["DALL-Eval"]) == 33


def test_p_values_are_those_of_scipys_binomial_test():
    positive, negative = np.array([0, 3, 8, 2, 5]), np.array([0, 0, 1, 9, 5])
    expected = [
        stats.binomtest(int(a), int(a + b)).pvalue if a + b else 1.0 for a, b in zip(positive, negative)
    ]
    np.testing.assert_allclose(sign_p_values(positive, negative), expected)


def test_the_interval_is_walds_of_the_table_with_half_a_pair_in_each_cell():
    values = np.repeat([1.0, -1.0, 0.0], [9, 2, 29])[:, None]
    more, less, pairs = 9.5, 2.5, 42
    middle = (more - less) / pairs
    half = 1.959964 * np.sqrt(more + less - (more - less) ** 2 / pairs) / pairs
    np.testing.assert_allclose(np.ravel(adjusted_interval(values, 0.95)), [middle - half, middle + half])


def test_the_sign_test_stops_where_it_rejects_or_the_interval_is_within_delta():
    values = np.zeros((60, 3))
    values[:8, 0], values[:30, 1], values[::2, 2] = 1, -1, 1
    values[1::2, 2] = -1
    found = by_sign_test(values, 0.08, {5: 0.95, 12: 0.95, 60: 0.95}, 0.0)
    assert list(found.answer) == [FIRST, SECOND, OPEN] and list(found.prompts) == [12, 12, 60]
    assert list(by_sign_test(np.zeros((60, 1)), 0.08, {60: 0.95}, 0.0).answer) == [EQUIVALENCE]


def test_an_object_of_one_side_is_found_by_all():
    world = PairWorld("", 0.6, 0.0)
    found = dict(decided_pairs(world.drawn(60, 30, np.random.default_rng(3)), world.mean, most=60))
    for name in (STOPS, GROUPS):
        assert (found[name].answer == FIRST).all()
