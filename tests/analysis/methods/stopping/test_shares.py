"""Shares of images that show something: by hand, and against SciPy's interval of Welch."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from analysis.methods.stopping.shares import SharesOfPrompts
from analysis.stats.confidence_sequences import sequence_interval
from analysis.tables.similarities.control_columns import SideWords

WORDS = SideWords(["m", "m2", "m3"], ["f", "f2"], ["n"])
NAMES = ["n", "f", "m", "m2", "m3", "f2"]
RATES = dict(zip(NAMES, (0.5, 0.2, 0.9, 0.7, 0.5, 0.1)))


def images(prompts=40, seeds=3, seed=0):
    """One row an image: whether something was found in it."""
    rng = np.random.default_rng(seed)
    keys = [(t, s, name) for t in range(prompts) for s in range(seeds) for name in NAMES]
    table = pd.DataFrame(keys, columns=["triplet", "seed", "indicator"])
    return table.assign(value=(rng.random(len(table)) < table["indicator"].map(RATES)).astype(float))


def test_the_gap_is_the_difference_of_shares():
    table = images()
    found = SharesOfPrompts.of(table, WORDS, NAMES).after(25, level=0.95)
    seen = table[table["triplet"] < 25]
    share = seen.groupby("indicator")["value"].mean()
    assert found.gap == pytest.approx(share[["m", "m2", "m3"]].mean() - share[["f", "f2"]].mean())
    assert (found.n_prompts, found.n_left_out) == (25, 0)


def test_prompts_and_words_are_joined_at_either_end():
    table = images()
    found = SharesOfPrompts.of(table, WORDS, NAMES).after(40, level=0.95)
    side = table["indicator"].str[0]
    of_prompt = table.groupby(["triplet", side])["value"].mean().unstack()
    single = sequence_interval((of_prompt["m"] - of_prompt["f"]).to_numpy(), reach=1.0)
    assert (found.prompts_low, found.prompts_high) == pytest.approx((single.low, single.high))
    assert found.e_value == pytest.approx(single.e_value)

    own = table.groupby("indicator")["value"].mean()
    one, two = own[["m", "m2", "m3"]], own[["f", "f2"]]
    low, high = stats.ttest_ind(one, two, equal_var=False).confidence_interval(0.95)
    half = (high - low) / 2
    assert found.words_half == pytest.approx(half)
    assert found.high == pytest.approx(min(1.0, found.gap + np.hypot(single.high - single.mean, half)))
    assert found.low == pytest.approx(max(-1.0, found.gap - np.hypot(single.mean - single.low, half)))


def test_a_prompt_may_need_all_its_draws():
    table = images()
    table = table[(table["triplet"] != 5) | (table["seed"] != 1) | (table["indicator"] != "f")]
    found = SharesOfPrompts.of(table, WORDS, NAMES, 3).after(10, level=0.95)
    assert (found.n_prompts, found.n_left_out) == (9, 1)


def test_a_draw_counts_where_all_its_images_were_observed():
    table = images()
    table = table[(table["triplet"] != 3) | (table["indicator"] != "n")]  # also of the reference
    table = table[(table["triplet"] != 5) | (table["seed"] != 1) | (table["indicator"] != "f")]
    table.loc[(table["triplet"] == 7) & (table["indicator"] == "m"), "value"] = np.nan
    made = SharesOfPrompts.of(table, WORDS, NAMES)
    found = made.after(10, level=0.95)
    assert (found.n_prompts, found.n_left_out) == (8, 2)
    assert made.prompts[:8].tolist() == [0, 1, 2, 4, 5, 6, 8, 9]
    rest = table[(table["triplet"] == 5) & (table["seed"] != 1)]
    assert made.first[0, 4] == rest.loc[rest["indicator"] == "m", "value"].mean()


def test_shares_are_never_outside_what_they_can_be():
    table = images(prompts=6)
    found = SharesOfPrompts.of(table, WORDS, NAMES).after(6, level=0.95)
    assert (found.low, found.high, found.prompts_low, found.prompts_high) == (-1, 1, -1, 1)
    assert SharesOfPrompts.of(table.iloc[:0], WORDS, NAMES).after(6, level=0.95) is None


def test_with_one_word_a_side_nothing_is_known_of_others():
    table = images()
    made = SharesOfPrompts.of(table, SideWords(["m"], ["f", "f2"], ["n"]), NAMES)
    found = made.after(40, level=0.95)
    assert np.isnan(found.words_half)
    assert (found.low, found.high) == (found.prompts_low, found.prompts_high)


def test_words_that_are_all_alike_add_nothing():
    table = images().assign(value=lambda rows: rows["indicator"].str.startswith("m").astype(float))
    found = SharesOfPrompts.of(table, WORDS, NAMES).after(40, level=0.95)
    assert (found.gap, found.words_half) == (1.0, 0.0)
    assert found.low == found.prompts_low > 0


def test_intervals_of_many_audits_hold_at_every_look():
    truth, missed = RATES["m"] - RATES["f"], 0
    words = SideWords(["m"], ["f"], ["n"])
    for audit in range(200):
        made = SharesOfPrompts.of(images(prompts=48, seeds=1, seed=audit), words, NAMES)
        looks = [made.after(n, level=0.9) for n in range(8, 49, 8)]
        missed += any(not look.low <= truth <= look.high for look in looks)
    assert missed / 200 <= 0.1
