"""Designs of other sizes than a run's."""

import numpy as np
import pytest
from statsmodels.stats.power import TTestPower

from analysis.stats.word_designs import GapDesign
from analysis.stats.word_power import error_draws
from analysis.stats.word_test import word_test
from tests.analysis.stats.test_word_power import welch_power


def test_the_errors_of_a_design_are_those_of_the_interval_that_a_test_gave():
    rng, words, references, n = np.random.default_rng(4), 3, 3, 24
    sides = [
        0.2 * rng.standard_normal((1, words, 1, 1))
        + 0.3 * rng.standard_normal((references, 1, 1, 1))
        + rng.standard_normal((1, 1, n, 1))
        for _ in range(2)
    ]
    drawn = [np.broadcast_to(side, (references, words, n, 1)) for side in sides]
    result = word_test(*drawn)
    shares = [result.share_words[0], result.share_references[0], result.share_prompts[0]]
    design = GapDesign.of(result.error[0], shares, words=(words, words), references=references, prompts=n)
    whole = drawn[0].mean(axis=(0, 1))[:, 0] - drawn[1].mean(axis=(0, 1))[:, 0]
    assert design.variances[2] == pytest.approx(whole.var(ddof=1) / n)  # nothing of word and prompt together
    of_words = [side.mean(axis=(0, 2)).var(axis=0, ddof=1)[0] for side in drawn]
    assert design.variances[0] == pytest.approx(np.mean(of_words) * 2 / words)
    assert design.resized(words=6).variances[0] == pytest.approx(design.variances[0] / 2)
    assert design.resized(prompts=96).variances[2] == pytest.approx(design.variances[2] / 4)


def test_the_smallest_gap_that_is_found_four_times_in_five():
    prompts = GapDesign((0.0, 0.0, 1 / 24), (3, 3), 1, 24)
    known = TTestPower().solve_power(nobs=24, power=0.8, alpha=0.05)
    assert prompts.detectable(simulations=20_000) == pytest.approx(known, rel=0.03)
    words = GapDesign((2 / 4, 0.0, 0.0), (4, 4), 1, 24)  # of standard deviation 1
    assert welch_power(words.detectable(simulations=20_000), 4) == pytest.approx(0.8, abs=0.02)
    every = GapDesign((0.01, 0.02, 0.03), (3, 3), 3, 24)
    assert every.power(every.detectable(), error_draws(20_000, seed=9)) == pytest.approx(0.8, abs=0.03)
    assert np.isnan(GapDesign((0.0, 0.0, 1.0), (1, 1), 1, 24).detectable())


def test_the_next_design_has_more_prompts_or_where_none_suffice_more_words():
    prompts = GapDesign((0.0, 0.0, 1 / 24), (3, 3), 1, 24)
    known = TTestPower().solve_power(effect_size=0.3, power=0.8, alpha=0.05)
    assert prompts.prompts_for(0.3) == pytest.approx(known, rel=0.08)
    words = GapDesign((2 / 3, 0.0, 1 / 24), (3, 3), 1, 24)  # 3 words a side, of standard deviation 1
    assert words.prompts_for(1.5) is None
    assert words.resized(words=12).prompts_for(1.5) is not None
    assert welch_power(1.5, 3) < 0.8 < welch_power(1.5, 12)
