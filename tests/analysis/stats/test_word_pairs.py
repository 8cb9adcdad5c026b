"""Gaps of prompts over all words: their mean is the gap of the word test, whose words' part stands alone."""

import numpy as np
import pytest

from analysis.stats.word_pairs import prompt_gaps
from analysis.stats.word_test import word_test


def drawn(seed, words=3, prompts=20):
    rng = np.random.default_rng(seed)
    sides = [rng.normal(0.6, 0.1, (2, words, prompts, 1)) for _ in range(2)]
    within = []
    for _ in range(2):
        table = rng.normal(0.8, 0.1, (words, words, prompts, 1))
        within.append((table + table.swapaxes(0, 1)) / 2)
    return sides, within


@pytest.mark.parametrize("corrected", [True, False])
def test_their_mean_is_the_gap(corrected):
    sides, within = drawn(3)
    tables = within if corrected else None
    found = prompt_gaps(*sides, tables)
    assert found.shape == (20, 1)
    assert found.mean(axis=0) == pytest.approx(word_test(*sides, within=tables).gap)


def test_the_words_part_is_the_whole_interval_where_prompts_agree():
    sides, within = drawn(5)
    alike = [np.repeat(part[..., :1, :], 20, axis=-2) for part in (*sides, *within)]
    found = word_test(alike[0], alike[1], within=alike[2:])
    assert found.words_half == pytest.approx((found.high - found.low) / 2)
    differing = word_test(*sides, within=within)
    part = (differing.share_words + differing.share_references)[0] * differing.error[0] ** 2
    assert differing.words_half[0] > 1.96 * part**0.5 > 0
