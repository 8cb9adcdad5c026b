"""MADs beside their floors, compared with enumeration written out here, SciPy and statsmodels."""

from itertools import permutations, product

import numpy as np
import pytest
import statsmodels.api as sm
from scipy import stats

from analysis.stats import mad_floor as mad_floor_module
from analysis.stats.mad_floor import ONE_CATEGORY, design_effect, mad_floor
from analysis.stats.permutation import NO_IMAGES


def mads(totals):
    """MAD of counts of images, the categories on the last axis."""
    totals = np.asarray(totals)
    return np.abs(totals / totals.sum(axis=-1, keepdims=True) - 1 / totals.shape[-1]).mean(axis=-1)


def every_relabelling(clusters):
    """The MAD for every choice of a permutation of the categories for each cluster."""
    ways = [list(map(np.array, permutations(cluster))) for cluster in clusters]
    return mads([sum(chosen) for chosen in product(*ways)])


CASES = [
    [[3, 0, 0], [3, 0, 0], [0, 3, 0]],
    [
        [2, 1, 0],
        [1, 2, 0],
        [0, 1, 0],
        [0, 0, 0],
        [0, 2, 0],
    ],  # some images undecided, of one noise all of them
    [[3, 0], [1, 2], [3, 0], [2, 1], [2, 0]],
]


@pytest.mark.parametrize("clusters", CASES)
def test_floor_and_p_value_are_those_of_every_relabelling(clusters):
    null, draws = every_relabelling(clusters), 20_000
    own = mad_floor([clusters], draws=draws, seed=5)
    assert own.value == pytest.approx(mads(np.sum(clusters, axis=0)))
    assert own.floor == pytest.approx(null.mean(), abs=1e-12) and own.excess == own.value - own.floor
    assert own.sd == pytest.approx(null.std(), rel=0.03)
    tail = (null >= own.value - 1e-9).mean()
    assert own.p_value == pytest.approx(tail, abs=4 * np.sqrt(tail * (1 - tail) / draws) + 1 / draws)


def test_the_mean_over_prompts_is_that_of_every_pair_of_relabellings():
    prompts = [[[2, 1, 0], [0, 0, 3]], [[1, 0, 0], [2, 0, 1]], [[0, 0, 0], [0, 0, 0]]]
    null = np.add.outer(every_relabelling(prompts[0]), every_relabelling(prompts[1])).ravel() / 2
    own = mad_floor(prompts, draws=20_000)
    assert own.floor == pytest.approx(null.mean(), abs=1e-12)
    tail = (null >= own.value - 1e-9).mean()
    assert own.p_value == pytest.approx(tail, abs=4 * np.sqrt(tail / 20_000))


def test_what_cannot_be_counted_is_said():
    assert mad_floor(np.zeros((2, 3, 4), int)).reason == mad_floor([0, 0]).reason == NO_IMAGES
    assert mad_floor([[[3], [2]]]).reason == mad_floor([9]).reason == ONE_CATEGORY
    assert np.isnan([mad_floor([0, 0]).value, mad_floor([9]).p_value]).all()
    for counts, options, text in (
        ([3, -1], {}, "none below 0"),
        ([0.5, 1], {}, "whole"),
        ([5, 4], {"draws": 0}, "draws"),
    ):
        with pytest.raises(ValueError, match=text):
            mad_floor(counts, **options)


def clusters(rng, prompts, noises, together, alike, chances):
    """Images of noises in categories: of a noise all of one category, with a probability, else independent."""
    shape = (prompts, noises, together)
    common = rng.choice(len(chances), size=(prompts, noises, 1), p=chances)
    own = rng.choice(len(chances), size=shape, p=chances)
    return np.where(rng.random((prompts, noises, 1)) < alike, common, own)


def counted(values, size):
    return np.stack([(values == category).sum(axis=2) for category in range(size)], axis=-1)


@pytest.mark.parametrize("alike", [0.0, 0.4])
def test_it_is_the_ratio_of_cluster_robust_variances_to_those_of_independent_images(alike):
    rng = np.random.default_rng(7)
    values = clusters(rng, 4, 12, 3, alike, (0.5, 0.3, 0.2)).astype(float)
    values[rng.random(values.shape) < 0.1] = np.nan  # clusters of unequal size
    robust = plain = 0.0
    for prompt in values:
        group = np.repeat(np.arange(12), 3)[~np.isnan(prompt.ravel())]
        kept = prompt.ravel()[~np.isnan(prompt.ravel())]
        for category in range(3):
            model = sm.OLS((kept == category).astype(float), np.ones(len(kept)))
            robust += model.fit(cov_type="cluster", cov_kwds={"groups": group}).bse[0] ** 2
            plain += model.fit().bse[0] ** 2
    assert design_effect(counted(values, 3)) == pytest.approx(max(1.0, robust / plain))


def test_single_images_have_none_and_what_cannot_be_told_is_taken_for_alike():
    rng = np.random.default_rng(0)
    single = counted(clusters(rng, 3, 20, 1, 0.0, (0.5, 0.5)), 2)
    assert design_effect(single) == pytest.approx(1.0)
    assert design_effect([[[3, 0]], [[0, 3]]]) == 3.0  # a noise each
    assert design_effect([[[2, 0], [2, 0], [1, 0]]]) == pytest.approx(9 / 5)  # no share varies
    assert np.isnan(design_effect(np.zeros((2, 3, 4), int)))
    with pytest.raises(ValueError, match="expected shape"):
        design_effect([[1, 2]])


def all_results(n, categories):
    """Counts for every way to deal n images one after the other, shape (categories^n, categories)."""
    return np.array([np.bincount(way, minlength=categories) for way in product(range(categories), repeat=n)])


@pytest.mark.parametrize("counts", [(4, 1, 0), (2, 2, 1)])
def test_distance_from_uniform_is_that_of_every_result(counts):
    distance = np.abs(all_results(5, 3) / 5 - 1 / 3).sum(axis=1)
    own = mad_floor(counts)
    assert 3 * own.floor == pytest.approx(distance.mean(), abs=1e-12)
    assert own.p_value == pytest.approx((distance >= 3 * own.value - 1e-9).mean(), abs=1e-12)


def test_mean_mad_over_prompts_is_that_of_every_pair_of_results():
    one = np.abs(np.arange(4) / 3 - 0.5)
    weight = stats.binom.pmf(np.arange(4), 3, 0.5)
    means, weights = np.add.outer(one, one).ravel() / 2, np.outer(weight, weight).ravel()
    own = mad_floor([[3, 0], [2, 1]])
    assert own.floor == pytest.approx(weights @ means)
    assert own.p_value == pytest.approx(weights[means >= own.value - 1e-12].sum())


def test_where_the_grid_would_be_too_fine_it_is_drawn_beside_the_exact_floor(monkeypatch):
    table = [[10, 5, 5]] * 30 + [[20, 10, 10]] * 30 + [[0, 0, 0]]  # a prompt without images is left out
    counted = mad_floor(table)
    monkeypatch.setattr(mad_floor_module, "LARGEST_SUPPORT", 1000)
    mad_floor_module._chances.cache_clear()
    drawn = mad_floor(table, draws=9999)
    assert drawn.floor == counted.floor and drawn.sd == pytest.approx(counted.sd, rel=0.03)
    mad_floor_module._chances.cache_clear()
