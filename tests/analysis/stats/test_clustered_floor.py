"""Floors of images that share noises: against every relabelling written out and SciPy's multinomial."""

from itertools import permutations, product

import numpy as np
import pytest

from analysis.stats.clustered_floor import clustered_mad_floor, clustered_mads
from analysis.stats.noise_floor_result import NO_IMAGES, ONE_CATEGORY


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
    own = clustered_mad_floor(clusters, draws=draws, seed=5)
    assert own.value == pytest.approx(mads(np.sum(clusters, axis=0)))
    assert own.floor == pytest.approx(null.mean(), abs=1e-12) and own.excess == own.value - own.floor
    assert own.sd == pytest.approx(null.std(), rel=0.03)
    tail = (null >= own.value - 1e-9).mean()
    assert own.p_value == pytest.approx(tail, abs=4 * np.sqrt(tail * (1 - tail) / draws) + 1 / draws)
    drawn = clustered_mads(clusters, draws=draws, seed=6)
    for value in np.unique(null.round(9)):
        share = (null >= value - 1e-9).mean()
        assert (drawn >= value - 1e-9).mean() == pytest.approx(
            share, abs=4.5 * np.sqrt(share / draws) / 2 + 1e-3
        )


def test_the_mean_over_prompts_is_that_of_every_pair_of_relabellings():
    prompts = [[[2, 1, 0], [0, 0, 3]], [[1, 0, 0], [2, 0, 1]], [[0, 0, 0], [0, 0, 0]]]
    null = np.add.outer(every_relabelling(prompts[0]), every_relabelling(prompts[1])).ravel() / 2
    own = clustered_mad_floor(prompts, draws=20_000)
    assert own.floor == pytest.approx(null.mean(), abs=1e-12) and own.undefined == 1 and own.n == 10
    tail = (null >= own.value - 1e-9).mean()
    assert own.p_value == pytest.approx(tail, abs=4 * np.sqrt(tail / 20_000))


def test_what_cannot_be_counted_is_said():
    assert clustered_mad_floor(np.zeros((2, 3, 4), int)).reason == NO_IMAGES
    assert clustered_mad_floor([[3], [2]]).reason == ONE_CATEGORY
    assert np.isnan(clustered_mads(np.zeros((2, 3, 4), int), draws=5)).all()
    with pytest.raises(ValueError, match=r"counts: expected shape \(n_prompts, n_clusters, n_categories\)"):
        clustered_mad_floor([3, 0])
    with pytest.raises(ValueError, match="none below 0"):
        clustered_mad_floor([[3, -1]])
