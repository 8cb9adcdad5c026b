"""Tones of professions, objects of a shared noise, shares of a distance, and ratios of estimates in their worlds."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from analysis.stats.group_swaps import group_swaps
from lab.validate.statistics import attributes, estimate_ratios, shared_noise, side_shares, tones


def test_tones_that_spread_twice_as_far_are_no_other_mean():
    """By the distance of means 26 % were said to differ; 150 runs at 5 % have a standard error of 1.8 %."""
    rng, p_values = np.random.default_rng(5), []
    for one in range(150):
        drawn = np.nanmean(tones.draw_tones(tones.TWICE, rng), axis=2, keepdims=True)
        p_values.append(group_swaps(drawn, draws=199, seed=one).group_p_value[0, 0])
    assert np.mean(np.array(p_values) <= 0.05) <= 0.05 + 3 * 0.018


def test_a_group_is_held_against_the_others_by_welch():
    """Permutations of SciPy's Student distribution with Welch's degrees of freedom; Monte Carlo error below 0.02."""
    rng = np.random.default_rng(8)
    values = rng.standard_normal((5, 8, 1))
    values[0] *= 3
    values[1] += 0.9
    found = group_swaps(values, draws=1999, seed=2)
    arranged = np.stack([values[:, :, 0], *(rng.permuted(values[:, :, 0], axis=0) for _ in range(1999))])
    everyone = arranged.size // len(arranged)
    least = arranged[0].var(ddof=0) * everyone / (everyone - 1)
    for group in range(5):
        sides = arranged[:, group], np.delete(arranged, group, axis=1).reshape(len(arranged), -1)
        errors, freedoms = [], []
        for side in sides:
            variance, size = side.var(axis=1, ddof=1), side.shape[1]
            errors.append(np.maximum(variance, least) / size)
            freedoms.append(np.where(variance > least, size - 1, everyone - 1))
        t = np.abs(sides[0].mean(axis=1) - sides[1].mean(axis=1)) / np.sqrt(errors[0] + errors[1])
        freedom = (errors[0] + errors[1]) ** 2 / (errors[0] ** 2 / freedoms[0] + errors[1] ** 2 / freedoms[1])
        tails = stats.t.sf(t, freedom)
        assert found.group_p_value[group, 0] == pytest.approx((tails <= tails[0]).mean(), abs=0.05)


def test_attributes_of_an_image_that_are_tied_are_no_difference():
    table = attributes.attribute_rejections(attributes.ATTRIBUTE_WORLDS[1:2], simulations=100, seed=1)
    rate = table.set_index("test")["rate"]
    whole, one, independent = (rate[test] for test in attributes.TESTS)
    assert max(whole, one) <= 0.05 + 3 * 0.022 and independent > 0.1  # 100 runs: a standard error of 2.2 %


@pytest.mark.parametrize(
    "world", [*attributes.ATTRIBUTE_WORLDS, *attributes.LEANING], ids=lambda one: one.name
)
def test_attributes_are_half_and_half_but_for_the_lean_and_tied_as_the_world_says(world):
    rng = np.random.default_rng(3)
    first, second = (
        np.stack(one) for one in zip(*(attributes.draw_attributes(world, rng) for _ in range(40)))
    )
    error = 0.5 / np.sqrt(40 * attributes.PROMPTS * attributes.DRAWS)  # if all attributes were one
    for values, lean in ((first, world.lean), (second, -world.lean)):
        assert values.mean() == pytest.approx(stats.norm.cdf(lean), abs=4 * error)
    both = (first[:, :, 0] == first[:, :, 1]).mean()  # two attributes of an image, by the bivariate normal
    correlation = world.noise + (1 - world.noise) * world.tied
    if not world.lean:
        assert both == pytest.approx(0.5 + np.arcsin(correlation) / np.pi, abs=4 * error)


def test_objects_of_a_shared_noise_differ_without_any_difference():
    table = shared_noise.shared_object_rejections(simulations=20, permutations=99, seed=3)
    rate = table.set_index(["world", "test"])["rate"]
    assert (
        rate[("1 seed, 0 %", shared_noise.TESTS[0])] <= 0.08
    )  # 400 objects: 5 % with a standard error of 1.1 %
    assert rate[("3 seeds, 30 %", shared_noise.TESTS[1])] >= 0.5


@pytest.mark.lab
def test_shares_of_a_distance_are_covered():
    table = side_shares.side_share_coverage(simulations=60, resamples=100, seed=4)
    assert (table["rate"] >= 0.95 - 4 * np.sqrt(0.95 * 0.05 / 60)).all()


def test_the_true_ratio_is_that_of_many_contexts():
    world, rng = estimate_ratios.RATIO_WORLDS[1], np.random.default_rng(6)
    frequency = np.array([[0.5, 0.2], [0.3, 0.6]])
    labels = (rng.random((40_000, 2, 1, 2)) < frequency[:, None]).astype(float)
    read = estimate_ratios.draw_estimate(world, labels, rng)
    there = labels > 0.5
    for attribute, truth in enumerate(estimate_ratios.true_ratios(world, frequency)):
        one, with_it = read[..., attribute], there[..., attribute]
        between = one[:, 0][with_it[:, 0]].mean() - one[:, 1][with_it[:, 1]].mean()
        assert between / (one[with_it].mean() - one[~with_it].mean()) == pytest.approx(truth, abs=0.02)
