"""Prompts and seeds as crossed samples: by statsmodels' analysis of variance, and in its limits."""

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, stats
from statsmodels.formula.api import ols
from statsmodels.stats.anova import anova_lm

from analysis.stats.crossed import FEW_SEEDS, crossed_mean
from lab.validate.statistics.worlds import draw_shared


@pytest.mark.parametrize(("share", "seed"), [(0.5, 0), (0.0, 1)])
def test_variances_by_an_analysis_of_variance(share, seed):
    n, seeds = 7, 4
    values = draw_shared(share, n, seeds, 1, np.random.default_rng(seed)) + 0.4
    p, s = np.meshgrid(np.arange(n), np.arange(seeds), indexing="ij")
    frame = pd.DataFrame({"value": values.ravel(), "prompt": p.ravel(), "seed": s.ravel()})
    table = anova_lm(ols("value ~ C(prompt) + C(seed)", frame).fit())
    over_prompts, over_seeds, left = (table["sum_sq"] / table["df"] / (n * seeds)).to_numpy()
    over_seeds = max(over_seeds - left, over_seeds - over_prompts, 0.0)
    result = crossed_mean(values)
    assert (result.prompts[0], result.seeds[0]) == pytest.approx((over_prompts, over_seeds), rel=1e-9)

    def excess(alpha):
        t = stats.t.isf(alpha / 2, [n - 1, seeds - 1]) ** 2
        return over_prompts * t[0] + over_seeds * t[1] - values.mean() ** 2

    assert result.p_value[0] == pytest.approx(optimize.brentq(excess, 1e-12, 1, xtol=1e-14), rel=1e-6)
    half = np.sqrt(excess(0.05) + values.mean() ** 2)
    assert (result.low[0], result.high[0]) == pytest.approx((values.mean() - half, values.mean() + half))


def test_without_seeds_of_their_own_it_is_students_test_of_the_prompts():
    prompts = np.random.default_rng(0).standard_normal((9, 1, 5))
    values = np.repeat(prompts, 3, axis=1)
    expected = stats.ttest_1samp(prompts[:, 0], 0)
    result = crossed_mean(values)
    np.testing.assert_allclose(result.p_value, expected.pvalue, rtol=1e-9)
    np.testing.assert_allclose(result.low, expected.confidence_interval().low)
    equal = stats.ttest_1samp(prompts[:, 0], -2, alternative="greater").pvalue
    other = stats.ttest_1samp(prompts[:, 0], 2, alternative="less").pvalue
    np.testing.assert_allclose(result.p_equivalent(2.0), np.maximum(equal, other), rtol=1e-6)


def test_below_three_seeds_nothing_is_inferred():
    values = np.random.default_rng(0).standard_normal((9, 2, 3))
    result = crossed_mean(values)
    assert set(result.reason) == {FEW_SEEDS} and np.isnan(result.p_value).all() and np.isnan(result.low).all()
    np.testing.assert_allclose(result.mean, values.mean(axis=(0, 1)))
    assert np.isnan(result.p_equivalent(1.0)).all()


def test_one_value_everywhere_has_an_exact_test():
    """Sign flips of the five seeds, which are fewer than the nine prompts."""
    result = crossed_mean(np.full((9, 5, 3), [0.1, -1.0, 0.0]))
    exact = stats.binomtest(5, 5).pvalue
    np.testing.assert_allclose(result.p_value, [exact, exact, np.nan])


def test_a_prompt_that_lacks_a_seed_is_left_out():
    values = np.random.default_rng(0).standard_normal((9, 4, 2))
    values[2, 1, 0] = np.nan
    result, whole = crossed_mean(values), crossed_mean(np.delete(values, 2, axis=0))
    assert result.n.tolist() == [8, 9] and result.p_value[0] == pytest.approx(whole.p_value[0])
    assert crossed_mean(np.full((3, 4, 1), np.nan)).reason[0] == "no value"
