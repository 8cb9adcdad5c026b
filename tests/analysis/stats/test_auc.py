"""AUC and shares over prompts: against scikit-learn, resamples put together by hand, and clusters that repeat."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from analysis.stats.auc import Bootstrap, IntervalEstimate, across_folds, pairs_by_prompt, roc_auc
from analysis.stats.resampling import resample_counts


@pytest.fixture
def rows():
    rng = np.random.default_rng(4)
    prompt = np.repeat(np.arange(12), 6)
    label = np.tile([0.0, 1.0], 36)
    scored = (rng.normal(size=72) + label + rng.normal(size=12)[prompt]).round(1)  # with ties
    return prompt, scored, label


def test_auc_is_scikit_learns(rows):
    prompt, scored, label = rows
    result = Bootstrap(12).auc(prompt, scored, label, np.zeros(72, int))
    assert result.value == pytest.approx(roc_auc_score(label, scored), abs=1e-12)
    assert result.low < result.value < result.high and result.n == 72


def test_a_resample_of_prompts_compares_each_copy_with_itself_and_with_other_prompts(rows):
    prompt, scored, label = rows
    drawn = []
    for counts in resample_counts(12, 50, 0):
        again = np.repeat(np.arange(72), counts[prompt])
        copy = np.concatenate([np.arange(counts[one]) for one in prompt])
        first, second = again[label[again] == 1], again[label[again] == 0]
        copies = copy[label[again] == 1][:, None] != copy[label[again] == 0]
        compared = ~((prompt[first][:, None] == prompt[second]) & copies)
        apart = (scored[first][:, None] - scored[second]).round(6)
        drawn.append(((apart > 0) + 0.5 * (apart == 0))[compared].mean())
    boot = Bootstrap(12, 50)
    wins, pairs = pairs_by_prompt(prompt, scored, label, np.zeros(72, int), 12)
    np.testing.assert_allclose(boot._drawn_pairs(wins) / boot._drawn_pairs(pairs), drawn, rtol=1e-12)
    result = boot.auc(prompt, scored, label, np.zeros(72, int))
    assert min(drawn) <= result.low < result.high <= max(drawn)


def test_scores_of_two_probes_are_not_compared(rows):
    prompt, scored, label = rows
    stratum = prompt % 2
    moved = scored + 100 * stratum
    result = Bootstrap(12).auc(prompt, moved, label, stratum)
    each = [roc_auc_score(label[stratum == one], scored[stratum == one]) for one in (0, 1)]
    assert result.value == pytest.approx(np.mean(each), abs=1e-12)  # as many pairs in both


def test_a_share_is_a_ratio_of_sums_over_prompts(rows):
    prompt, scored, _ = rows
    values = (scored > 0).astype(float)
    kept = np.arange(72) % 5 > 0  # prompts of unlike sizes
    result = Bootstrap(12, 400).mean(prompt[kept], values[kept])
    assert result.value == pytest.approx(values[kept].mean(), abs=1e-12)
    drawn = [
        np.average(values[kept], weights=counts[prompt[kept]].astype(float))
        for counts in resample_counts(12, 400, 0)
    ]
    assert np.quantile(drawn, 0.01) < result.low < np.quantile(drawn, 0.025) < result.value
    assert result.value < np.quantile(drawn, 0.975) < result.high < np.quantile(drawn, 0.99)


def test_one_outcome_alone_has_no_auc():
    result = Bootstrap(3).auc(np.arange(3), [0.1, 0.2, 0.3], [1, 1, np.nan], np.zeros(3, int))
    assert np.isnan(result.value) and result.reason == "rows of one outcome alone"


def test_the_correction_for_folds_is_whole_at_chance_and_gone_at_the_bounds():
    bounds, folds = (-1.0, 1.0), 5
    middle, half = np.mean(bounds), np.ptp(bounds) / 2
    for place in (-0.9, -0.3, 0.0, 0.5, 0.97):
        value = middle + half * place
        one = IntervalEstimate(value, value - 0.11 * half, value + 0.06 * half, 40)
        wide = across_folds(one, folds, bounds)
        grid = np.linspace(*bounds, 20001)
        more = folds / (folds - 1) * (1 - ((grid - middle) / half) ** 2)
        own = np.where(grid < value, value - one.low, one.high - value)
        inside = grid[np.abs(grid - value) <= own * np.sqrt(1 + more)]
        assert wide.low == pytest.approx(inside.min(), abs=2e-4 * half)
        assert wide.high == pytest.approx(inside.max(), abs=2e-4 * half)
        whole = np.sqrt(
            1 + folds / (folds - 1)
        )  # chance is left out where Nadeau and Bengio's interval does so
        left_out = value - whole * (value - one.low) > middle or value + whole * (one.high - value) < middle
        assert (wide.low > middle or wide.high < middle) == left_out


def test_infinite_scores_are_ranked_and_missing_ones_left_out():
    assert roc_auc([-np.inf, 0.0, np.inf, 0.0, np.nan], [0, 0, 1, 1, 0]) == 7 / 8
    assert np.isnan(roc_auc([1.0, 2.0, np.nan], [1, 1, 0]))
