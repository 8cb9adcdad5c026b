"""The decision curve by hand, against interpolation by NumPy and a bootstrap written out."""

import numpy as np
import pytest
from scipy import special, stats

from analysis.stats.decision_curve import NEVER_HALF, crossing, decision_curve
from analysis.stats.resampling import resample_counts
from analysis.stats.shares import NO_TOTAL


def decided(n, steps, entries, seed=0):
    """Prompts that are decided at one step each: the donor's text acts where it enters at that step or before."""
    rng = np.random.default_rng(seed)
    when, totals = rng.binomial(steps - 1, 0.4, n), 3 + rng.exponential(5, n)
    return totals[:, None] * (when[:, None] >= np.asarray(entries)), totals, when


def half_by_search(curve, places):
    """The first point of a fine grid at which the interpolated curve is at most ½."""
    grid = np.linspace(places[0], places[-1], 20_001)
    return grid[np.argmax(np.interp(grid, places, [*curve, 0.0]) <= 0.5 + 1e-12)]


def test_the_curve_is_a_share_and_its_decrements_add_up():
    entries = [0, 2, 5, 7]
    effects, totals, when = decided(40, 10, entries)
    found = decision_curve(effects, totals, entries, 10, resamples=200)
    expected = [totals[when >= entry].sum() / totals.sum() for entry in entries]
    np.testing.assert_allclose(found.curve.share, expected)
    assert found.entries == (0, 2, 5, 7, 10)
    assert found.decrements.share.sum() == pytest.approx(found.curve.share[0]) == 1
    assert found.half_step == pytest.approx(half_by_search(expected, found.entries), abs=1e-3)


def test_the_half_step_and_its_interval_against_a_bootstrap_written_out():
    entries, n = [0, 1, 3, 4, 6], 24
    effects, totals, _ = decided(n, 8, entries, seed=1)
    found = decision_curve(effects, totals, entries, 8, resamples=300, seed=5)
    drawn = []
    for counts in resample_counts(n, 300, 5).astype(float):
        curve = counts @ effects / (counts @ totals)
        drawn.append(half_by_search(curve, [*entries, 8]))
    tail = stats.norm.cdf(stats.t.ppf(0.025, n - 1) * np.sqrt(n / (n - 1)))
    low, high = np.quantile(drawn, [tail, 1 - tail])
    fine = np.linspace(0, 8, 2001)
    curves = np.array([np.interp(fine, [*entries, 8], [*one, 0.0]) for one in effects])
    p = stats.ttest_1samp(curves - totals[:, None] / 2, 0).pvalue
    held = fine[p >= 0.05]
    np.testing.assert_allclose(found.half_low, min(low, held[0]), atol=2 / 64)
    np.testing.assert_allclose(found.half_high, max(high, held[-1]), atol=2 / 64)
    assert tail == pytest.approx(special.ndtr(special.stdtrit(n - 1, 0.025) * np.sqrt(n / (n - 1))))


@pytest.mark.parametrize(
    ("curve", "half"), [([1.0, 0.5], 5.0), ([0.5, 0.4], 0.0), ([0.4, 0.9], np.nan), ([1.0, 1.0], 6.5)]
)
def test_where_a_curve_falls_to_one_half(curve, half):
    np.testing.assert_equal(crossing(np.array([curve]), np.array([0.0, 5.0, 8.0]))[0], half)


def test_what_is_undefined_has_a_reason():
    rng = np.random.default_rng(0)
    totals = rng.normal(5, 1, 12)
    little = decision_curve(0.3 * totals[:, None] + rng.normal(0, 0.1, (12, 1)), totals, [0], 4, resamples=50)
    assert little.reason == NEVER_HALF and np.isnan(little.half_step)
    none = decision_curve(rng.normal(size=(12, 1)), totals - totals.mean(), [0], 4, resamples=50)
    assert none.reason == NO_TOTAL and np.isnan(none.half_low)
    holes = np.column_stack([totals, np.where(np.arange(12) < 2, np.nan, 0.2 * totals)])
    assert decision_curve(holes, totals, [0, 2], 4, resamples=50).half_step == pytest.approx(1.25)


@pytest.mark.parametrize("entries", [[], [2, 1], [0, 0], [-1], [4]])
def test_entries_are_ascending_steps_of_the_run(entries):
    with pytest.raises(ValueError, match="entries: expected ascending steps"):
        decision_curve(np.ones((3, len(entries))), np.ones(3), entries, 4)
