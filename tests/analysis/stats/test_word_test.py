"""Gaps against words that mean the same: by a plain loop, and in the limits that are ordinary tests."""

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, stats
from statsmodels.formula.api import ols
from statsmodels.stats.anova import anova_lm

from analysis.stats.word_test import (
    ALL_ALIKE,
    NO_CONTROLS,
    ONE_REFERENCE,
    UNEQUAL,
    UNEQUAL_SIZES,
    prompt_gaps,
    unequal_sides,
    word_cautions,
    word_test,
)


def world(words=3, prompts=12, columns=4, word=1.0, prompt=1.0, rest=0.5, lean=0.0, seed=0, **own):
    """Two sides: a part of each word's own, one of prompt and side, one of reference word and side or word, a rest."""
    rng, references = np.random.default_rng(seed), own.get("references", 1)
    return [
        mean
        + word * rng.standard_normal((1, words, 1, columns))
        + prompt * rng.standard_normal((1, 1, prompts, columns))
        + own.get("side", 0.0) * rng.standard_normal((references, 1, 1, columns))
        + own.get("both", 0.0) * rng.standard_normal((references, words, 1, columns))
        + rest * rng.standard_normal((references, words, prompts, columns))
        for mean in (lean, 0.0)
    ]


def mean_squares(table):
    """Mean squares of the rows of a table and of what rows and columns leave, by statsmodels' analysis of variance."""
    rows, columns = np.indices(table.shape)
    long = pd.DataFrame({"y": table.ravel(), "row": rows.ravel(), "column": columns.ravel()})
    found = anova_lm(ols("y ~ C(row) + C(column)", long).fit())
    return found["mean_sq"]["C(row)"], found["mean_sq"]["Residual"]


def by_anova(sides, others=None, robust=None, level=0.95):
    """Gap, interval and p-value of one column, from the definitions; sides are (references, words, prompts)."""
    a, b = (side.mean(axis=(0, 1)) for side in sides)
    references, n = len(sides[0]), len(a)
    of_prompts = [a - b] if robust is None else [robust, a - b]
    gap, prompts = of_prompts[0].mean(), max(np.var(one, ddof=1) / n for one in of_prompts)
    groups = [side for side in sides if side.shape[1] > 1] if others is None else [others[None]]
    share = [1 / side.shape[1] for side in sides]
    share = share if len(groups) > 1 else [sum(share)]
    sizes = [group.shape[1] for group in groups]
    of_words = []
    for group, part, size in zip(groups, share, sizes):
        square, rest = (value * part / n for value in mean_squares(group.mean(axis=0)))
        of_words.append(max(square - (rest if robust is None or size > 2 else 0.0), 0.0))
    reference = of_reference = 0.0
    if references > 1:
        of_reference, rest = (
            value / n / references for value in mean_squares(sides[0].mean(axis=1) - sides[1].mean(axis=1))
        )
        reference = max(of_reference - rest, 0.0)
    weight = of_reference if reference else 0.0
    together, alone = [(prompts, prompts, n - 1)], []
    if min(sizes) > 2 and len(sizes) > 1:
        together += [(words, words, size - 1) for words, size in zip(of_words, sizes)]
    else:
        alone.append((sum(of_words), sum(sizes) - len(sizes)))
    if references > 2:
        together.append((reference, weight, references - 1))
    elif references == 2:
        alone.append((reference, 1))
    total = sum(part for part, *_ in together)
    freedom = total**2 / sum(weight**2 / degrees for _, weight, degrees in together)

    def excess(alpha):
        apart = sum(part * stats.t.isf(alpha / 2, degrees) ** 2 for part, degrees in alone)
        return total * stats.t.isf(alpha / 2, freedom) ** 2 + apart - gap**2

    half = np.sqrt(excess(1 - level) + gap**2)
    error = np.sqrt(total + sum(part for part, _ in alone))
    return gap, gap - half, gap + half, optimize.brentq(excess, 1e-15, 1, xtol=1e-15), error


@pytest.mark.parametrize("sizes", [(3, 3), (1, 3)])
@pytest.mark.parametrize(
    "own",
    [{}, {"references": 2, "side": 1.0}, {"references": 4, "side": 1.0, "both": 0.5}],
)
def test_by_analysis_of_variance(sizes, own):
    first, second = world(words=4, rest=1.0, seed=sum(sizes), **own)
    first, second = first[:, : sizes[0]], second[:, : sizes[1]]
    result = word_test(first, second)
    assert (result.n == 12).all()
    for c in range(4):
        expected = by_anova([first[..., c], second[..., c]])
        found = result.gap[c], result.low[c], result.high[c], result.p_value[c], result.error[c]
        assert found == pytest.approx(expected, rel=1e-9)


def test_interval_and_p_value_are_one_claim_and_the_sides_can_change_places():
    first, second = world(columns=60, lean=1.5, seed=4)
    result, turned = word_test(first, second), word_test(second, first)
    significant = result.p_value < 0.05
    assert 0 < significant.sum() < 60
    np.testing.assert_array_equal(significant, (result.low > 0) | (result.high < 0))
    np.testing.assert_allclose(turned.p_value, result.p_value, rtol=1e-9)
    np.testing.assert_allclose(turned.low, -result.high, rtol=1e-12)


def test_a_prompt_without_every_word_is_left_out_of_its_column():
    first, second = world(seed=5, references=3)
    holed = first.copy()
    holed[0, 1, 3, 2] = np.nan
    result, whole = word_test(holed, second), word_test(first, second)
    assert result.n.tolist() == [12, 12, 11, 12]
    np.testing.assert_array_equal(result.p_value[[0, 1, 3]], whole.p_value[[0, 1, 3]])
    short = word_test(np.delete(first, 3, axis=2), np.delete(second, 3, axis=2))
    assert result.p_value[2] == pytest.approx(short.p_value[2], rel=1e-9)


def test_what_cannot_be_told_is_nan_with_a_reason():
    first, second = world()
    single = word_test(first[:, :1], second[:, :1])
    assert set(single.reason) == {NO_CONTROLS} and np.isnan(single.p_value).all()
    np.testing.assert_allclose(single.gap, (first - second)[0, 0].mean(axis=0))
    one = word_test(first[:, :, :1], second[:, :, :1])
    assert set(one.reason) == {"one prompt only"} and np.isnan(one.low).all()
    alike = word_test(np.ones((1, 2, 5, 1)), np.zeros((1, 2, 5, 1)))
    assert alike.reason[0] == ALL_ALIKE and alike.gap[0] == 1 and np.isnan(alike.p_value[0])
    nothing = word_test(np.full((1, 2, 5, 1), np.nan), np.zeros((1, 2, 5, 1)))
    assert nothing.reason[0] == "no value" and np.isnan(nothing.gap[0])
    assert len(word_test(first[..., :0], second[..., :0]).p_value) == 0


@pytest.mark.parametrize("bad", [np.zeros((2, 3)), np.zeros((1, 0, 3, 1))])
def test_bad_shapes_are_named(bad):
    with pytest.raises(ValueError, match="words: expected shape"):
        word_test(bad, np.zeros((1, 1, 3, 1)))
    with pytest.raises(ValueError, match="level"):
        word_test(np.zeros((1, 1, 3, 1)), np.zeros((1, 1, 3, 1)), level=1.0)


def vectors(words, prompts=6, columns=2, seed=0, size=5):
    """Unit vectors of words at prompts, shape (words, prompts, columns, size)."""
    drawn = np.random.default_rng([seed, words]).standard_normal((words, prompts, columns, size)) + 1
    return drawn / np.linalg.norm(drawn, axis=3, keepdims=True)


def cosines(one, other):
    return np.einsum("apcd,bpcd->abpc", one, other)


@pytest.mark.parametrize("sizes", [(2, 2), (2, 4)])
def test_the_corrected_gap_by_analysis_of_variance(sizes):
    references = vectors(3, seed=9)
    sides = [vectors(k, seed=number) for number, k in enumerate(sizes)]
    near, within = [cosines(references, side) for side in sides], [cosines(side, side) for side in sides]
    result = word_test(*near, within=within)

    def pair_mean(table, left_out=None):
        words = [w for w in range(len(table)) if w != left_out]
        return np.mean([table[v, w] for v in words for w in words if v != w], axis=0)

    def pair_median(near, table):
        near, words = near.mean(axis=0), range(len(table))
        of_pairs = [(near[v] + near[w] - table[v, w]) / 2 for v in words for w in words if v < w]
        return np.median(of_pairs, axis=0)

    for column in range(2):
        cells, medians = [], []
        for table, inside in zip(near, within):
            table, inside, k = table[..., column], inside[..., column], len(inside)
            values = [
                pair_mean(inside) if k == 2 else k * pair_mean(inside) - (k - 1) * pair_mean(inside, w)
                for w in range(k)
            ]
            cells.append(table - np.array(values) / 2)
            medians.append(pair_median(table, inside))
        expected = by_anova(cells, robust=medians[0] - medians[1])
        found = (result.gap, result.low, result.high, result.p_value, result.error)
        assert [value[column] for value in found] == pytest.approx(expected, rel=1e-9)


def test_the_corrected_gap_is_half_the_difference_of_unbiased_squared_distances_of_means():
    """Gretton et al. 2012, Eq. 3, of each side and the reference, by sums over all different words."""
    references, first, second = vectors(3, seed=9), vectors(2, seed=0), vectors(2, seed=1)  # one pair a side

    def mmd2(x, y):
        k, m = len(x), len(y)
        xx = (cosines(x, x).sum(axis=(0, 1)) - k) / (k * (k - 1))
        yy = (cosines(y, y).sum(axis=(0, 1)) - m) / (m * (m - 1))
        return (xx + yy - 2 * cosines(x, y).mean(axis=(0, 1))).mean(axis=0)

    result = word_test(
        *(cosines(references, side) for side in (first, second)),
        within=[cosines(side, side) for side in (first, second)],
    )
    assert result.gap == pytest.approx((mmd2(references, second) - mmd2(references, first)) / 2)


def test_pairs_of_one_word_or_of_another_shape_are_refused():
    sides = world()
    for pairs in (
        [np.ones((3, 3, 12, 4)), np.ones((2, 2, 12, 4))],
        [np.ones((3, 3, 12)), np.ones((3, 3, 12, 4))],
    ):
        with pytest.raises(ValueError, match="within: expected two words a side or more and shape"):
            word_test(*sides, within=pairs)
    with pytest.raises(ValueError, match="within"):
        word_test(*(side[:, :1] for side in sides), within=[np.ones((1, 1, 12, 4))] * 2)


@pytest.mark.parametrize("corrected", [True, False])
def test_the_mean_of_the_gaps_of_prompts_is_the_gap(corrected):
    sides = [vectors(3, 20, seed=seed) for seed in (0, 1)]
    near = [cosines(vectors(2, 20, seed=9), side) for side in sides]
    within = [cosines(side, side) for side in sides] if corrected else None
    found = prompt_gaps(*near, within)
    assert found.shape == (20, 2)
    assert found.mean(axis=0) == pytest.approx(word_test(*near, within=within).gap)


def test_the_words_part_is_the_whole_interval_where_prompts_agree():
    first, second = world(prompt=0, rest=0)
    found = word_test(first, second)
    assert found.words_half == pytest.approx((found.high - found.low) / 2)
    differing = word_test(*world())
    part = (differing.share_words + differing.share_references) * differing.error**2
    assert (differing.words_half > 1.96 * part**0.5).all() and (part > 0).any()


def test_each_caution_in_its_case():
    sizes = (np.array([3, 3, 2]), np.array([3, 3, 4]))
    told = word_cautions(np.array([3, 1, 3]), np.array([False, False, True]), sizes)
    assert told.tolist() == ["", ONE_REFERENCE, f"{UNEQUAL}; {UNEQUAL_SIZES}"]


def test_sides_are_unequal_by_the_distances_or_by_the_variances_of_their_words():
    spread, apart = (
        np.array([[1.0, 1.0, 1.0], [1.2, 1.2, 30.0]]),
        np.array([[0.2, 0.2, 0.2], [0.2, 0.5, 0.3]]),
    )
    assert unequal_sides(spread, (3, 3), apart).tolist() == [False, True, True]
    assert unequal_sides(spread[::-1], (3, 3), apart[::-1]).tolist() == [False, True, True]
    undefined = np.full((2, 1), np.nan)
    assert unequal_sides(undefined, (1, 1), undefined).tolist() == [False]
    assert unequal_sides(np.zeros((2, 1)), (3, 3), np.zeros((2, 1))).tolist() == [False]
