"""Worlds of traces and probes: small always, the stated bounds in the slow part."""

import numpy as np
import pytest
from scipy import stats

from lab.validate.statistics.rates import COLUMNS
from lab.validate.statistics.traces import (
    DEGREES,
    DEPENDENT,
    PATCHES,
    PROBES,
    REDUNDANT,
    TWO_PLACES,
    draw_effects,
    floor_rejections,
    interplay_claims,
    largest_coverage,
    probe_coverage,
    selected_coverage,
    share_coverage,
    two_place_effects,
)


@pytest.mark.parametrize("world", [PATCHES[1], PATCHES[2], PATCHES[6]], ids=str)
def test_worlds_have_the_share_they_state(world):
    kind, share, donor = world
    effects, totals = draw_effects(kind, share, donor, (40_000,), np.random.default_rng(0))
    assert effects.sum() / totals.sum() == pytest.approx(share, abs=0.02)


def test_the_tables_of_rates_are_those_of_the_page():
    assert tuple(share_coverage(6, seed=1, resamples=50).columns) == COLUMNS
    assert (floor_rejections(10, seed=1)["rate"] <= 0.2).all()
    table, widths = probe_coverage(3, worlds=PROBES[:1], resamples=50)
    assert tuple(table.columns) == COLUMNS and len(table) == 2
    assert widths[0]["width"] > 0


@pytest.mark.lab
def test_worlds_of_selection_and_of_two_places():
    selected = selected_coverage(30, seed=1, resamples=99)
    far = selected[
        selected["world"].str.contains("[35] s.e.")
    ]  # nearer to the threshold it does not cover as often
    assert len(selected) == 16 and (far["rate"] >= stats.binom.ppf(0.001, 30, 0.95) / 30).all()
    assert (largest_coverage(12, seed=1)["rate"] >= 8 / 12).all()
    claims = interplay_claims(4, seed=1, resamples=99).set_index(["test", "world"])["rate"]
    assert claims[f"places called {REDUNDANT}, and they are", "redundant, by degrees"] == 1
    assert claims[f"places called {DEPENDENT}, and they are", "dependent, by degrees"] == 1
    assert claims.filter(like="which they are not").xs("apart, by degrees", level="world").max() <= 0.5
    traced = two_place_effects("redundant", np.random.default_rng(0), spread=0.0)
    every, both = traced.places.index[traced.places["kind"] == "complete"], traced.donors[0]
    np.testing.assert_allclose(traced.of("necessity", both, every)[:, 0], traced.totals[both])
    assert set(TWO_PLACES) == {"apart", REDUNDANT, DEPENDENT, "opposing"}


@pytest.mark.slow
def test_intervals_of_shares_cover_as_often_as_they_say():
    found = share_coverage(1500, seed=11, resamples=499)
    own = found["world"].str.startswith(DEGREES)
    slack = 3 * np.sqrt(0.05 * 0.95 / 1500)
    assert found.loc[own, "rate"].between(0.93 - slack, 0.97 + slack).all()
    assert (found.loc[~own, "rate"] > 0.93).all()  # conservative where a patch decides few prompts wholly
