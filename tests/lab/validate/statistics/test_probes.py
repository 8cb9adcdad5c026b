"""Worlds of probes and of readings have what they state, and their tables are those of the page."""

import numpy as np
import pytest

from lab.validate.statistics.probes import WORLDS, draw_rows, probe_coverage
from lab.validate.statistics.readings import SEES, SHARES, draw_readings, reading_claims, reading_coverage
from lab.validate.statistics.simulation import COLUMNS


@pytest.mark.parametrize("world", WORLDS, ids=lambda one: one.name)
def test_the_word_adds_what_a_world_states(world):
    rows = draw_rows(world, np.random.default_rng(0), prompts=2000)
    sides = [rows.x[rows.label == one].reshape(2000, 2, -1).mean(axis=1) for one in (0.0, 1.0)]
    apart = sides[1] - sides[0]
    assert apart[:, 0].mean() == pytest.approx(world.word, abs=0.15)
    assert np.abs(apart[:, 1:].mean(axis=0)).max() < 0.2
    assert apart[:, 1:].var() == pytest.approx(1.0 + 4 * world.own**2, rel=0.1)


@pytest.mark.parametrize("share", SHARES)
def test_readings_have_the_share_they_state(share):
    said, none, all_of = draw_readings(share, 60_000, np.random.default_rng(1))
    assert (said - none).sum() / (all_of - none).sum() == pytest.approx(share, abs=0.02)
    assert all_of.mean() == pytest.approx(SEES, abs=0.03)


def test_the_tables_of_rates_are_those_of_the_page():
    table, widths = probe_coverage(WORLDS[:1], simulations=3, resamples=50)
    assert tuple(table.columns) == COLUMNS and len(table) == 4
    assert widths[0]["width"] <= widths[0]["whole"]
    options = {"simulations": 30, "resamples": 50}
    assert tuple(reading_coverage(**options).columns) == COLUMNS
    claims = reading_claims(**options).set_index(["world", "test"])["rate"]
    right, raw = ("between the words' readings", "raw reading")
    # a share of 0.55 reads as 0.51: the raw reading is claimed to be within ½ ± 0.05
    assert claims["share 0.55, 240 prompts", right] <= 0.2 < claims["share 0.55, 240 prompts", raw]
