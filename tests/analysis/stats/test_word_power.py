"""Power against words: by the test itself on drawn words, in closed form at its limits, and its ceiling."""

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.power import TTestPower

from analysis.stats.word_power import (
    CEILING,
    NO_GAP,
    ONE_WORD,
    prompts_for_words,
    word_gap_power,
)
from analysis.stats.word_test import word_test


def welch_power(gap, words, size=20_000):
    """Power of Welch's test of two sides of normal words of standard deviation 1, by SciPy on drawn words."""
    drawn = np.random.default_rng(1).standard_normal((2, words, size))
    return (stats.ttest_ind(drawn[0] + gap, drawn[1], equal_var=False).pvalue <= 0.05).mean()


@pytest.mark.parametrize(("words", "references"), [(2, 1), (3, 3)])
def test_by_the_test_itself_on_drawn_words(words, references):
    rng, n, size, gap = np.random.default_rng(0), 12, 4000, 0.8
    sides = [
        mean
        + 0.2 * rng.standard_normal((1, words, 1, size))
        + lean * rng.standard_normal((references, 1, 1, size))
        + scale * rng.standard_normal((1, 1, n, size))
        for mean, lean, scale in ((gap, 0.3 if references > 1 else 0.0, 0.7), (0.0, 0.0, 0.0))
    ]
    drawn = [np.broadcast_to(side, (references, words, n, size)) for side in sides]
    expected = (word_test(*drawn).p_value <= 0.05).mean()
    power = word_gap_power(
        gap,
        n,
        spread=0.7,
        words=words,
        references=references,
        sd_word=0.2,
        sd_reference=0.3,
        simulations=20_000,
    )
    assert power == pytest.approx(expected, abs=4 * np.sqrt(0.25 / size + 0.25 / 20_000))


def test_prompts_alone_and_words_alone_in_closed_form():
    options = {"references": 1, "simulations": 40_000}
    prompts = word_gap_power(0.5, 34, spread=1.0, words=3, sd_word=0.0, **options)
    assert prompts == pytest.approx(TTestPower().power(0.5, 34, 0.05), abs=0.01)
    words = word_gap_power(0.3, np.inf, spread=1.0, words=4, sd_word=0.2, **options)
    assert words == pytest.approx(welch_power(1.5, 4), abs=0.015)


def test_more_prompts_do_not_make_up_for_words():
    """At nominal 5 %, two words a side reach 31 % with endlessly many prompts."""
    options = {"sd_prompt": 1.0, "sd_word": 0.2, "references": 1}
    two = prompts_for_words(0.5, words=2, **options)
    assert two["reason"] == CEILING and np.isnan(two["prompts"]) and 0.25 < two["ceiling"] < 0.4
    assert two["power_planned"] < two["ceiling"]
    five = prompts_for_words(0.5, words=5, sd_reference=0.0, **options)
    assert five["reason"] == "" and five["power"] >= 0.8
    assert five["ceiling"] == pytest.approx(welch_power(0.5 / 0.2, 5), abs=0.015)
    assert five["images"] == 11 * five["prompts"]
    assert prompts_for_words(0.0, **options)["reason"] == NO_GAP
    assert prompts_for_words(0.5, words=1, **options)["reason"] == ONE_WORD
    assert stats.t.isf(0.025, 2) > 4  # why: two words a side leave two degrees of freedom
