"""Label swaps and chi-square of whole tables against SciPy, enumeration and each other."""

from itertools import permutations, product

import numpy as np
import pytest
from scipy import stats
from scipy.stats import contingency

from analysis.stats.object_tests import NEVER, NO_DIFFERENCE
from analysis.stats.resampling import SWAP_STREAM
from analysis.stats.table_tests import (
    ONE_OBJECT,
    chi_square_test,
    label_swap_test,
)
from tests.analysis.object_data import dense_table, random_counts


@pytest.mark.parametrize("of", ["presence", "detections"])
def test_chi_square_and_cramers_v_are_those_of_scipy(of):
    counts = random_counts(40, 2, 3, 7, repeated=True)
    counts[..., 6] = 0
    result = chi_square_test(dense_table(counts), of=of)
    totals = (counts if of == "detections" else counts > 0).sum(axis=(0, 1)).T[:6]
    known = stats.chi2_contingency(totals, correction=False)
    assert (result.statistic, result.p_value, result.dof) == pytest.approx(known[:3])
    assert result.cramers_v == pytest.approx(contingency.association(totals, method="cramer"))
    assert result.smallest_expected == pytest.approx(known.expected_freq.min())
    assert result.expected_below_5 == (known.expected_freq < 5).sum() and result.cells == 18
    repeated = counts.sum() / (counts > 0).sum() if of == "detections" else 1
    assert result.detections_per_image == pytest.approx(repeated)


def test_every_reason_against_chi_square_is_named():
    fine = np.ones((20, 1, 2, 2), int)
    fine[::2, 0, 0, 0] = fine[1::2, 0, 1, 1] = fine[::3, 0, 1, 0] = 0
    assert chi_square_test(dense_table(fine)).warnings == ()
    counts = np.concatenate([fine, np.zeros((20, 1, 2, 2), int)], axis=3)
    counts[0, 0, 0, 2] = 3
    counts[:10, 0, :, 3] = 1
    said = chi_square_test(dense_table(counts)).warnings
    assert [text.split(" ")[0] for text in said] == ["an", "2", "1"]
    assert "2 of 8 expected counts are below 5" in said and "equal counts at every prompt" in said[2]


@pytest.mark.parametrize(("n_seeds", "k"), [(1, 2), (2, 3)])
def test_all_swaps_by_enumeration(n_seeds, k):
    counts = random_counts(4, n_seeds, k, 5, seed=1)
    result = label_swap_test(dense_table(counts))
    sums = (counts > 0).sum(axis=1)  # prompts, k, objects
    statistics = []
    for orders in product(permutations(range(k)), repeat=4):
        totals = sum(sums[i][list(order)] for i, order in enumerate(orders))
        seen = totals[:, totals.sum(axis=0) > 0]
        expected = np.outer(seen.sum(axis=1), seen.sum(axis=0)) / seen.sum()
        statistics.append(((seen - expected) ** 2 / expected).sum())
    statistics = np.array(statistics)
    seen = sums.sum(axis=0)
    scale = np.sqrt(sums.sum() * (min(seen.shape) - 1))
    assert result.cramers_v == pytest.approx(np.sqrt(statistics[0]) / scale)
    assert result.cramers_v_floor == pytest.approx(np.sqrt(statistics).mean() / scale)
    assert result.p_value == pytest.approx((statistics >= statistics[0] - 1e-9).mean())


def test_drawn_swaps_by_a_loop_over_the_same_draws():
    counts = random_counts(15, 1, 3, 4, seed=2)
    result = label_swap_test(dense_table(counts), permutations=300, seed=7)
    rng = np.random.default_rng([7, SWAP_STREAM])
    codes = np.concatenate([rng.integers(0, 6, (15, n), dtype=np.int8) for n in (256, 44)], axis=1)
    orders, present = list(permutations(range(3))), (counts[:, 0] > 0).astype(int)
    statistics = []
    for draw in [np.zeros(15, int), *codes.T]:
        totals = np.zeros((3, 4), int)
        for i, code in enumerate(draw):
            for source, goal in enumerate(orders[code]):
                totals[goal] += present[i, source]
        statistics.append(stats.chi2_contingency(totals, correction=False).statistic)
    observed, *drawn = statistics
    scale = np.sqrt(present.sum() * 2)
    assert result.cramers_v == pytest.approx(np.sqrt(observed) / scale)
    assert result.cramers_v_floor == pytest.approx(np.sqrt(drawn).mean() / scale)
    assert result.p_value == pytest.approx((1 + (np.array(drawn) >= observed - 1e-9).sum()) / 301)


@pytest.mark.parametrize(
    ("counts", "reason"),
    [
        (np.zeros((5, 1, 2, 3), int), NEVER),
        (np.ones((5, 1, 2, 3), int), NO_DIFFERENCE),
        (np.ones((5, 1, 2, 1), int), ONE_OBJECT),
        (np.ones((1, 3, 2, 3), int), "one prompt only"),
        (np.ones((0, 3, 2, 3), int), "no images"),
    ],
)
def test_undefined_tables_have_a_reason_and_no_p_value(counts, reason):
    with pytest.raises(ValueError, match="at least 1, got 0"):
        label_swap_test(dense_table(counts), permutations=0)
    result = label_swap_test(dense_table(counts), permutations=50)
    assert result.reason == reason and np.isnan(result.p_value)
