"""The design effect, against statsmodels' cluster-robust variances."""

import numpy as np
import pytest
import statsmodels.api as sm

from analysis.stats.design_effect import design_effect


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
