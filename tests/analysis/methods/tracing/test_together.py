"""Two wired places that oppose each other, are redundant, or need each other: tables and what the section says."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from analysis.methods.tracing.effects import Effects
from analysis.methods.tracing.section import section
from analysis.methods.tracing.sentences import why_outside
from analysis.methods.tracing.shares import share_table, total_table
from analysis.methods.tracing.spans import span
from analysis.methods.tracing.stored import TraceSection
from analysis.methods.tracing.together import NOT_ALL, interplay, together_table
from probes.config.schema import Config

SITES = ("unet.down.0.attn.0.cross", "unet.mid.attn.0.cross", "unet.up.1.attn.0.cross")
SAMPLING = {"level": 0.95, "resamples": 400, "seed": 0}
CONFIG = Config.model_validate(
    {
        "model": "toyworld",
        "indicators": {"neutral": "person", "feminine": "woman", "masculine": "man"},
        "contrasts": [["masculine", "feminine"]],
        "prompts": ["a {person}"],
    }
)
# what the outcome is, by whether the first and the second of the places are given the masculine word
WORLDS = {
    "opposing": lambda a, b: 21.2 * a - 22.0 * b,
    "redundant": lambda a, b: 10.0 * np.maximum(np.maximum(0.9 * a, 0.8 * b), a * b),
    "dependent": lambda a, b: 10.0 * a * b,
    "apart": lambda a, b: 6.0 * a + 4.0 * b,
}


def place(kind, *sites):
    return (kind, ", ".join(sites), "key+value", "own", None, None, 0, 5)


def effects(world, n=24, spread=1.5, seed=0):
    """Outcomes of images whose places are given words; the reference is as the feminine one."""
    rng, of = np.random.default_rng(seed), WORLDS[world]
    strength, noise = 1 + 0.15 * rng.normal(size=(2, n)), spread * rng.normal(size=n)
    level = {"feminine": 0.0, "masculine": 1.0, "neutral": 0.0}

    def outcome(given):
        values = of(level[given[0]] * strength[0], level[given[1]] * strength[1])
        return (values + noise + 0.3 * spread * rng.normal(size=n))[:, None]

    plain = {word: outcome([word] * 3) for word in level}
    patched = {}
    chosen = [(place("site", site), [number]) for number, site in enumerate(SITES)]
    chosen.append((place("complete", *SITES), [0, 1, 2]))
    for where, numbers in chosen:
        for word in ("masculine", "feminine"):
            for recipient, donor in (("neutral", word), (word, "neutral")):
                given = [donor if number in numbers else recipient for number in range(3)]
                patched[where, recipient, donor] = outcome(given)
    return Effects("verdict", "v/1", "neutral", "masculine", "feminine", plain, patched)


def tables(traced):
    return {
        "trace_total": total_table([traced], SAMPLING),
        "trace_shares": share_table([traced], ("site", "complete"), SAMPLING),
        "trace_together": together_table([traced], SAMPLING),
    }


def said(made):
    return section(TraceSection(made, 1), CONFIG)["sentences"]


def both(made, name):
    table = made[name]
    return table[table["donor"] == "masculine-feminine"].reset_index(drop=True)


def test_opposing_places_are_ranked_by_their_effects_and_said_to_oppose():
    traced = effects("opposing", seed=2)
    made = tables(traced)
    assert not made["trace_total"]["told_from_0"][0]
    sites = both(made, "trace_shares").query("kind == 'site'")
    assert sites["sufficiency"].isna().all() and sites["beyond"].isna().all()
    # the mean effect by hand, and an interval of all places no shorter than Student's of one
    moved = traced.sufficiency(place("site", SITES[0]), "masculine-feminine")
    assert sites["effect"].iloc[0] == pytest.approx(moved.mean())
    student = stats.t.interval(0.95, 23, moved.mean(), stats.sem(moved))
    assert sites["effect_low"].iloc[0] < student[0] and student[1] < sites["effect_high"].iloc[0]
    assert (sites["p_adjusted"] < 0.05).tolist() == [True, True, False]
    texts = said(made)
    assert texts[0].endswith("so there are no shares of it to state.")
    mid = f"mid · attn 0 · cross −{abs(sites['effect'].iloc[1]):.2f} ["
    assert texts[1].startswith(f"By what each place alone moves the verdict, the first 3 of 3 are {mid}")
    assert texts[2].startswith("Places oppose each other: down 0 · attn 0 · cross moves the verdict by +21.")
    assert "mid · attn 0 · cross by −2" in texts[2] and "not say that nothing is decided" in texts[2]


@pytest.mark.parametrize(
    ("world", "words"),
    [
        ("redundant", "places are redundant, one can stand for another"),
        ("dependent", "places need one another, so that one alone shows too little"),
        ("apart", ""),
    ],
)
def test_places_that_depend_on_one_another_are_said_to(world, words):
    made = tables(effects(world))
    sites = both(made, "trace_shares").query("kind == 'site'")
    (every,) = both(made, "trace_together").to_dict("records")
    for estimand in ("sufficiency", "necessity"):  # the whole is 1, and the sums by hand
        assert every[f"{estimand}_sum"] == pytest.approx(sites[estimand].sum())
        assert every[f"{estimand}_interaction"] == pytest.approx(1 - every[f"{estimand}_sum"], abs=0.05)
    assert interplay(every, 0.05) == (world if words else "")
    assert words in str(said(made)) and ("Patched all at once" in str(said(made))) == bool(words)


def test_what_is_not_told_of_all_at_once_is_not_said_and_sums_need_all_places():
    traced = effects("redundant")
    partly = {key: value for key, value in traced.patched.items() if key[0] != place("site", SITES[2])}
    table = together_table([Effects(**{**traced.__dict__, "patched": partly})], SAMPLING)
    row = table.iloc[0]
    assert row["n_places"] == 2 and row["sufficiency_reason"] == NOT_ALL
    assert np.isnan(row["sufficiency_interaction"]) and np.isfinite(row["sufficiency_sum"])
    assert interplay(row, 0.05) == ""
    one = {key: value for key, value in traced.patched.items() if key[0] == place("site", SITES[0])}
    assert together_table([Effects(**{**traced.__dict__, "patched": one})], SAMPLING).empty


def test_a_share_outside_of_0_to_1_has_a_word_why():
    def words(share, low, high):
        row = {"sufficiency": share, "sufficiency_joint_low": low, "sufficiency_joint_high": high}
        return why_outside(pd.Series(row), "sufficiency")

    assert words(0.5, 0.2, 0.8) == "" and words(1.14, 0.9, 1.4) == " (not told from 1)"
    assert "elsewhere some of it is taken back" in words(1.4, 1.1, 1.6)
    assert words(-0.1, -0.3, 0.1) == " (not told from 0)" and words(-0.3, -0.5, -0.1) == " (against the word)"
    assert span(-np.inf, 0.5) == "(−∞, 0.50]"
