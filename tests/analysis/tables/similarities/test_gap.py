"""Gaps of the reference: against plain pandas and SciPy, by hand, and with planted answers."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from analysis.stats.crossed import crossed_mean
from analysis.stats.word_test import word_test
from analysis.tables.similarities.gap import GapChoices
from analysis.tables.similarities.similarities import from_table
from analysis.tables.similarities.word_gap import NO_WORDS, joined_gaps
from analysis.tables.stage import family_tables, joined_tables
from hooks.architectures.addresses import space

NAMES = ["neutral", "feminine", "masculine", "individual", "human"]
OPTIONS = {
    "indicators": NAMES,
    "reference": "neutral",
    "contrasts": [("masculine", "feminine")],
    "controls": {"individual": "neutral", "human": "neutral"},
    "resamples": 200,
    "permutations": 500,
}


def small(values, metric="cosine", site="latent.final", names=("n-f", "n-m"), step=-1):
    """A table of pairs from an array (n_prompts, n_seeds, n_pairs)."""
    values = np.asarray(values, float)
    t, s, p = np.meshgrid(*map(np.arange, values.shape), indexing="ij")
    table = pd.DataFrame({"triplet": t.ravel(), "seed": s.ravel(), "value": values.ravel()})
    keys = {"space": space(site), "site": site, "step": step, "metric": metric}
    return table.assign(pair=[names[i] for i in p.ravel()], **keys)


def tables_of(families, **options):
    base = {"indicators": ["n", "f", "m"], "reference": "n", "contrasts": [("m", "f")]}
    choices = GapChoices(**{**base, **options})
    return joined_tables([family_tables(family, choices) for family in families])


def gap_of(table, **options):
    """The rows of ``gap``, each with its test against words and of equivalence."""
    return joined_gaps(tables_of(from_table(table), **options).get)


def test_gap_and_its_test_by_plain_pandas_and_scipy(run, pairs):
    table = run.table("gap")
    for site, metric, step, sign in [
        ("text.final", "cosine_sequence", -1, 1),
        ("unet.mid", "cosine", 2, 1),
        ("image", "ssim", -1, 1),
        ("image", "diff_pix", -1, -1),
    ]:
        rows = pairs[(pairs["site"] == site) & (pairs["metric"] == metric) & (pairs["step"] == step)]
        wide = rows.astype({"value": float, "pair": str}).pivot_table("value", "triplet", "pair")
        differences = sign * (wide["neutral-masculine"] - wide["neutral-feminine"])
        row = table[(table["site"] == site) & (table["metric"] == metric) & (table["step"] == step)].iloc[0]
        assert row["gap"] == pytest.approx(differences.mean(), rel=1e-9)
        scipy = stats.permutation_test(
            (differences.to_numpy(),),
            np.mean,
            permutation_type="samples",
            n_resamples=np.inf,
            vectorized=True,
        )
        assert row["p_value"] == pytest.approx(scipy.pvalue, abs=1e-12)  # 2^9 flips: exact
        t = stats.ttest_1samp(differences, 0).confidence_interval()
        assert row["ci_low"] <= t.low + 1e-9 and row["ci_high"] >= t.high - 1e-9  # at each end the outer one


def test_sign_by_hand_also_where_lower_is_nearer():
    values = [[[0.5, 0.7], [0.5, 0.9]], [[0.4, 0.5], [0.4, 0.5]]]  # neutral-feminine, neutral-masculine
    row = gap_of(small(values)).iloc[0]
    assert row["gap"] == pytest.approx((0.3 + 0.1) / 2)
    assert (row["n_prompts"], row["p_value"]) == (2, 0.5)
    percent = small(np.multiply(values, 100), metric="diff_pix", site="image")
    assert gap_of(percent).iloc[0]["gap"] == pytest.approx(-20)
    turned = gap_of(small(values), contrasts=[("f", "m"), ("m", "f")])
    assert turned["gap"].tolist() == pytest.approx([-0.2, 0.2])
    assert turned["contrast"].tolist() == ["f-m", "m-f"]


def test_without_words_of_one_meaning_there_is_no_test():
    # per prompt: s(n, f), s(n, m), then two words that mean the same as n
    table = small([[[0.5, 0.7, 0.80, 0.90]], [[0.4, 0.5, 0.80, 0.80]]], names=("n-f", "n-m", "n-a", "n-b"))
    names = ["n", "f", "m", "a", "b"]
    row = gap_of(table, indicators=names, controls=dict.fromkeys("ab", "n")).iloc[0]
    assert np.isfinite(row["p_control"]) and row["word_reason"] == row["reason"] == ""
    one = gap_of(table, indicators=names, controls={"b": "n"}).iloc[0]
    assert np.isnan(one["p_control"]) and one["word_reason"].startswith("controls: no side has a second word")
    none = gap_of(table, indicators=names).iloc[0]
    assert none["word_reason"] == NO_WORDS and np.isnan(none["word_low"]) and none["reason"] == ""


def test_controls_of_the_contrast_by_hand():
    # per prompt: s(n, f), s(n, m), then another word for f and one for m
    values = [[[0.50, 0.70, 0.54, 0.76]], [[0.40, 0.50, 0.42, 0.54]]]
    table = small(values, names=("n-f", "n-m", "n-g", "n-w"))
    row = gap_of(table, indicators=["n", "f", "m", "g", "w"], controls={"g": "f", "w": "m"}).iloc[0]
    assert row["gap"] == pytest.approx(0.15)
    # means of the words of f and m: 0.465 and 0.625
    assert row["word_gap"] == pytest.approx(0.16)
    sides = (np.array(values).transpose(1, 2, 0)[:, side, :, None] for side in ([1, 3], [0, 2]))
    expected = word_test(*sides)
    assert row["p_control"] == row["p_control_sites"] == pytest.approx(expected.p_value[0])
    assert (row["word_low"], row["word_high"]) == pytest.approx((expected.low[0], expected.high[0]))
    swapped = gap_of(
        table, indicators=["n", "f", "m", "g", "w"], controls={"f": "g", "m": "w"}, contrasts=[("w", "g")]
    ).iloc[0]
    assert swapped["p_control"] == pytest.approx(row["p_control"])


def words_of_all(rng, references=3, side=3, prompts=6, missing=()):
    """A table of pairs of reference words r, words f and words m, drawn at random, but for some pairs."""
    names = [
        f"{kind}{i}" for kind, size in (("r", references), ("f", side), ("m", side)) for i in range(size)
    ]
    compared = [f"{a}-{b}" for i, a in enumerate(names) for b in names[i + 1 :] if f"{a}-{b}" not in missing]
    table = small(rng.uniform(0.5, 1, (prompts, 1, len(compared))), names=compared)
    controls = {name: name[0] + "0" for name in names if name[1] != "0"}
    options = {"indicators": names, "reference": "r0", "contrasts": [("m0", "f0")], "controls": controls}
    return table, options


def test_two_words_of_the_reference_count_and_every_row_counts_its_words():
    table, options = words_of_all(np.random.default_rng(0), references=2)
    row = gap_of(table, **options).iloc[0]
    assert (row["n_references"], row["n_words_first"], row["n_words_second"]) == (2, 3, 3)
    wide = table.pivot_table("value", "triplet", "pair")
    sides = [
        [[wide[[f"r{r}-{kind}{w}"]].to_numpy() for w in range(3)] for r in range(2)] for kind in ("m", "f")
    ]
    within = [
        [
            [
                wide[["-".join(sorted((f"{kind}{v}", f"{kind}{w}")))]].to_numpy() if v != w else nothing
                for w in range(3)
            ]
            for v in range(3)
        ]
        for kind, nothing in (("m", np.full((len(wide), 1), np.nan)), ("f", np.full((len(wide), 1), np.nan)))
    ]
    result = word_test(*sides, within=within)
    assert (row["p_control"], row["word_gap"]) == pytest.approx((result.p_value[0], result.gap[0]))
    assert row["word_error"] == pytest.approx(result.error[0])
    assert row["share_words"] == pytest.approx(result.share_words[0])


def test_prompts_that_share_their_noise_are_crossed_with_seeds():
    rng = np.random.default_rng(0)
    values = 0.5 + 0.01 * rng.standard_normal((24, 3, 2)) + 0.1 * rng.standard_normal((1, 3, 2))
    table = small(values)
    row, own = (gap_of(table, shared_noise=shared).iloc[0] for shared in (True, False))
    expected = crossed_mean(values[..., 1:] - values[..., :1])
    assert row["gap"] == pytest.approx(own["gap"])
    assert (row["ci_low"], row["ci_high"], row["p_value"]) == pytest.approx(
        (expected.low[0], expected.high[0], expected.p_value[0])
    )
    assert row["ci_high"] - row["ci_low"] > 3 * (own["ci_high"] - own["ci_low"])
    assert row["p_sites"] == row["p_value"] > 0.05 > own["p_value"]
    few = gap_of(small(values[:, :2]), shared_noise=True, deltas={"cosine": 0.1}).iloc[0]
    assert few["reason"].startswith("shared noise: the prompts of a seed depend on each other")
    assert few[["ci_low", "p_value", "p_sites", "p_equivalent"]].isna().all()
    means = tables_of(from_table(table), shared_noise=True)["disparity"]
    assert means.loc[0, "ci_high"] - means.loc[0, "ci_low"] > 0.05
    text = small(values[:, :1], site="text.final", metric="cosine_sequence")  # no noise enters it
    assert np.isfinite(gap_of(text, shared_noise=True).iloc[0]["p_value"])


def test_a_difference_that_would_matter_is_held_against_the_gap():
    values = np.random.default_rng(0).normal(0.5, 0.02, (40, 1, 2))
    row = gap_of(small(values), deltas={"cosine": 0.05}).iloc[0]
    assert (
        row["delta"] == 0.05 and row["p_equivalent"] < 0.05 and row["delta_source"] == "measure.equivalence"
    )
    assert gap_of(small(values), deltas={"cosine": 0.5 * abs(row["ci_high"])}).iloc[0]["p_equivalent"] > 0.05
    other = gap_of(small(values), deltas={"ssim": 0.05}).iloc[0]  # of another measure: this one has its least
    assert (other["delta"], other["delta_source"]) == (0.02, "least of the measure")
    assert np.isnan(gap_of(small(values), smallest_effect=None).iloc[0]["p_equivalent"])


def test_equivalence_is_tested_at_the_end_of_a_space_alone(run):
    table = run.table("equivalence")
    assert set(table["step"]) == {-1} and (table["p_value"].notna() == (table["reason"] == "")).all()


def test_one_prompt_gives_a_mean_and_no_inference():
    row = gap_of(small([[[0.5, 0.7], [0.5, 0.9]]])).iloc[0]
    assert row["gap"] == pytest.approx(0.3) and row["n_prompts"] == 1
    assert row["reason"] == "one prompt only"
    assert row[["ci_low", "ci_high", "p_value", "p_sites"]].isna().all()
    table = tables_of(from_table(small([[[0.5, 0.7]]])))["disparity"]
    assert table["reason"].tolist() == ["one prompt only"] * 2 and table["ci_low"].isna().all()


def test_missing_values_are_left_out_pairwise():
    values = np.array([[[0.5, 0.7], [np.nan, 0.9]], [[0.4, 0.5], [0.4, 0.7]], [[np.nan, 0.1]] * 2])
    row = gap_of(small(values)).iloc[0]
    assert row["gap"] == pytest.approx((0.2 + 0.2) / 2)
    assert row["n_prompts"] == 2
    table = tables_of(from_table(small(values)))["disparity"].set_index("pair")
    assert table.loc["n-f", "n_prompts"] == 2 and table.loc["n-m", "n_prompts"] == 3
    assert table.loc["n-m", "mean"] == pytest.approx((0.8 + 0.6 + 0.1) / 3)
    gone = gap_of(small(values[:, :, 1:], names=("n-m",))).iloc[0]
    assert np.isnan(gone["gap"]) and gone["reason"].startswith("no value")
