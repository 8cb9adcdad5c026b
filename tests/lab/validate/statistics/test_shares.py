"""Worlds of shares: small always, the stated bounds in the slow part."""

import numpy as np
import pytest
from scipy import stats

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
    every, both = traced.places.index[traced.places["kind"] == "complete"], traced.donors[0]
    np.testing.assert_allclose(traced.of("necessity", both, every)[:, 0], traced.totals[both])
    assert set(TWO_PLACES) == {"apart", REDUNDANT, DEPENDENT, "opposing"}


@pytest.mark.slow
def test_intervals_of_shares_cover_as_often_as_they_say():
    found = share_coverage(simulations=1500, resamples=499, seed=11)
    own = found[(found["test"] == "share") & found["world"].str.startswith(DEGREES)]
    slack = 3 * np.sqrt(0.05 * 0.95 / own["simulations"])
    assert ((own["rate"] > 0.93 - slack) & (own["rate"] < 0.97 + slack)).all()
    others = found[(found["test"] == "share") & ~found["world"].str.startswith(DEGREES)]
    assert (others["rate"] > 0.93).all()  # conservative where a patch decides few prompts wholly
