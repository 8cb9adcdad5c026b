"""Shapley values against the mean over all orders, their axioms, and the spread of repeated sampling."""

import itertools

import numpy as np
import pytest

from analysis.stats.shapley import exact_interactions, exact_shapley, sampled_shapley

PLAYERS = ("a", "b", "c", "d")


def game(seed=0, n_prompts=5):
    """The worth of every subset, at random; a bonus where a and c act together."""
    rng = np.random.default_rng(seed)
    subsets = [frozenset(s) for size in range(5) for s in itertools.combinations(PLAYERS, size)]
    worth = {subset: rng.normal(size=n_prompts) + 3 * ({"a", "c"} <= subset) for subset in subsets}
    return worth | {frozenset(): np.zeros(n_prompts)}


def over_all_orders(worth):
    values = np.zeros((len(worth[frozenset()]), len(PLAYERS)))
    orders = list(itertools.permutations(PLAYERS))
    for order in orders:
        for place, player in enumerate(order):
            before = frozenset(order[:place])
            values[:, PLAYERS.index(player)] += worth[before | {player}] - worth[before]
    return values / len(orders)


def test_exact_values_are_the_mean_over_all_orders():
    worth = game()
    np.testing.assert_allclose(exact_shapley(worth, PLAYERS).values, over_all_orders(worth), atol=1e-12)
    del worth[frozenset()]
    assert exact_shapley(worth, PLAYERS).sampling_errors().tolist() == [0, 0, 0, 0]


def test_the_values_add_up_and_an_idle_player_has_none():
    worth = game(1)
    idle = {subset: worth[subset - {"d"}] for subset in worth}
    values = exact_shapley(idle, PLAYERS).values
    np.testing.assert_allclose(values.sum(axis=1), idle[frozenset(PLAYERS)], atol=1e-12)
    np.testing.assert_allclose(values[:, 3], 0, atol=1e-12)


def test_all_orders_sampled_give_the_exact_values():
    worth = game(2)
    orders = list(itertools.permutations(PLAYERS))
    found = sampled_shapley(worth, PLAYERS, orders)
    np.testing.assert_allclose(found.values, exact_shapley(worth, PLAYERS).values, atol=1e-12)


def test_interactions_are_those_of_the_definition_over_all_orders():
    """Of orders of the players with a pair as one: what the pair adds beyond each alone, to those before it."""
    worth = game()
    found = exact_interactions(worth, PLAYERS)
    assert list(found) == list(itertools.combinations(PLAYERS, 2))
    with_nothing = {frozenset(): np.zeros(5)} | {key: np.asarray(value) for key, value in worth.items()}
    for (first, second), values in found.items():
        rest, added = [one for one in PLAYERS if one not in (first, second)], []
        for order in itertools.permutations([*rest, first + second]):
            before = frozenset("".join(order[: order.index(first + second)]))
            both = with_nothing[before | {first, second}] - with_nothing[before]
            added.append(
                both - sum(with_nothing[before | {one}] - with_nothing[before] for one in (first, second))
            )
        np.testing.assert_allclose(values, np.mean(added, axis=0), atol=1e-12)


def test_interactions_are_missing_where_a_subset_is():
    worth = game()
    del worth[frozenset("abcd")]
    with pytest.raises(ValueError, match="expected all 16 subsets, got none of a, b, c, d"):
        exact_interactions(worth, PLAYERS)


def test_the_sampling_error_is_the_spread_of_repeated_draws():
    worth, rng = game(3), np.random.default_rng(0)
    means, errors = [], []
    for _ in range(400):
        orders = []
        for _ in range(8):
            order = [PLAYERS[i] for i in rng.permutation(4)]
            orders += [order, order[::-1]]
        found = sampled_shapley(worth, PLAYERS, orders)
        assert found.of_draws.shape == (8, 5, 4)
        means.append(found.values.mean(axis=0))
        errors.append(found.sampling_errors())
    np.testing.assert_allclose(np.sqrt(np.square(errors).mean(axis=0)), np.std(means, axis=0), rtol=0.15)
    np.testing.assert_allclose(np.mean(means, axis=0), over_all_orders(worth).mean(axis=0), atol=0.1)


def test_what_is_missing_is_named():
    worth = game()
    del worth[frozenset("ab")]
    with pytest.raises(ValueError, match="expected all 16 subsets, got none of a, b"):
        exact_shapley(worth, PLAYERS)
    with pytest.raises(ValueError, match=r"orders\[0\]: expected the worth of a, b"):
        sampled_shapley(worth, PLAYERS, ["abcd"])
    with pytest.raises(ValueError, match=r"orders\[1\]: expected a permutation"):
        sampled_shapley(game(), PLAYERS, ["abcd", "abc"])
    with pytest.raises(ValueError, match="players: expected at least one, each once"):
        exact_shapley(game(), "aab")
    assert np.isnan(sampled_shapley(game(), PLAYERS, ["abcd"]).sampling_errors()).all()
