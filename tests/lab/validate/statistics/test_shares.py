"""Worlds of shares: small always, the stated bounds in the slow part; coverage on made-up outcomes of many prompts."""

import numpy as np
import pytest
from scipy import stats

from analysis.methods.tracing.effects import Effects
from analysis.stats.shares import shares
from lab.validate.statistics.shares import (
    DEGREES,
    DEPENDENT,
    REDUNDANT,
    TWO_PLACES,
    WORLDS,
    draw_effects,
    floor_rejections,
    interplay_claims,
    largest_coverage,
    selected_coverage,
    share_coverage,
    two_place_effects,
)
from lab.validate.statistics.simulation import COLUMNS
from lab.validate.tracing.coverage import WORDS, coverage, templates, variants


@pytest.mark.parametrize("world", [WORLDS[1], WORLDS[2], WORLDS[6]], ids=str)
def test_worlds_have_the_share_they_state(world):
    kind, share, donor = world
    effects, totals = draw_effects(kind, share, donor, (40_000,), np.random.default_rng(0))
    assert effects.sum() / totals.sum() == pytest.approx(share, abs=0.02)


def test_the_tables_of_rates_are_those_of_the_page():
    options = {"sizes": (8,), "seed": 1}
    assert tuple(share_coverage(simulations=20, resamples=50, **options).columns) == COLUMNS
    assert (floor_rejections(maps=10, resamples=99, **options)["rate"] <= 0.2).all()


@pytest.mark.lab
def test_worlds_of_selection_and_of_two_places():
    options = {"resamples": 99, "seed": 1}
    selected = selected_coverage(simulations=30, **options)
    own = selected[selected["test"] == "selected share"]
    far = own[own["world"].str.contains("[35] s.e.")]  # nearer to the threshold it does not cover as often
    assert len(own) == 16 and (far["rate"] >= stats.binom.ppf(0.001, 30, 0.95) / 30).all()
    largest = largest_coverage(simulations=12, sizes=(24,), **options)
    assert (largest[largest["test"] == "largest, all at once"]["rate"] >= 8 / 12).all()
    claims = interplay_claims(simulations=4, **options).set_index(["world", "test"])["rate"]
    assert claims["redundant, by degrees", f"called {REDUNDANT}"] == 1
    assert claims["dependent, by degrees", f"called {DEPENDENT}"] == 1
    assert claims["apart, by degrees"].max() <= 0.5
    traced = two_place_effects("redundant", np.random.default_rng(0), spread=0.0)
    (every,) = traced.places(["complete"])
    np.testing.assert_allclose(traced.necessity(every, traced.both), traced.total(traced.both))
    assert set(TWO_PLACES) == {"apart", REDUNDANT, DEPENDENT, "opposing"}


def test_intervals_of_resampled_traces_are_held_against_the_share_of_other_prompts():
    rng, n = np.random.default_rng(2), 700
    effects, totals = draw_effects(DEGREES, 0.4, "both", (n,), rng)
    place = ("site", "x", "key+value", "own", None, None, 0, 5)
    plain = {"neutral": np.zeros((n, 1)), "masculine": totals[:, None], "feminine": np.zeros((n, 1))}
    patched = {
        (place, "neutral", "masculine"): effects[:, None],
        (place, "neutral", "feminine"): np.zeros((n, 1)),
    }
    traced = Effects("verdict", "v", "neutral", "masculine", "feminine", plain, patched)
    found = coverage(traced, traces=60, others=600, resamples=199).set_index("donor")
    row = found.loc["masculine-feminine"]
    assert row["share"] == pytest.approx(shares(effects[:, None], totals, resamples=10).share[0])
    assert row["coverage"] > 0.85 and row["undefined"] == 0 and row["prompts"] == n
    assert row["below"] + row["above"] == pytest.approx((1 - row["coverage"]) * 60)
    assert found.loc["feminine", "undefined"] == 60  # it has no total effect


def test_what_is_drawn_for_the_coverage():
    texts = templates(50)
    assert len(set(texts)) == 50 and all(text.count("{person}") == 1 for text in texts)
    chosen = variants(["a", "b"], 5)
    assert [one.kind for one in chosen].count("site") == 4 and len(chosen) == len(WORDS) + 4


@pytest.mark.slow
def test_intervals_of_shares_cover_as_often_as_they_say():
    found = share_coverage(simulations=1500, resamples=499, seed=11)
    own = found[(found["test"] == "share") & found["world"].str.startswith(DEGREES)]
    slack = 3 * np.sqrt(0.05 * 0.95 / own["simulations"])
    assert ((own["rate"] > 0.93 - slack) & (own["rate"] < 0.97 + slack)).all()
    others = found[(found["test"] == "share") & ~found["world"].str.startswith(DEGREES)]
    assert (others["rate"] > 0.93).all()  # conservative where a patch decides few prompts wholly
