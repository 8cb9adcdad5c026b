"""Worlds of probes have what they state, and their tables are those of the page."""

import numpy as np
import pytest

from lab.validate.statistics.probes import WORLDS, draw_rows, probe_coverage
from lab.validate.statistics.simulation import COLUMNS


@pytest.mark.parametrize("world", [WORLDS[0], WORLDS[6]], ids=lambda one: one.name)
def test_the_word_adds_what_a_world_states(world):
    rows = draw_rows(world, np.random.default_rng(0), prompts=2000)
    sides = [rows.x[rows.label == one].reshape(2000, 2, -1).mean(axis=1) for one in (0.0, 1.0)]
    apart = sides[1] - sides[0]
    assert apart[:, 0].mean() == pytest.approx(world.word, abs=0.15)
    assert np.abs(apart[:, 1:].mean(axis=0)).max() < 0.2
    assert apart[:, 1:].var() == pytest.approx(1.0 + 4 * world.own**2, rel=0.1)


def test_the_tables_of_rates_are_those_of_the_page():
    table, widths = probe_coverage(WORLDS[:1], simulations=3, resamples=50)
    assert tuple(table.columns) == COLUMNS and len(table) == 2
    assert widths[0]["width"] > 0
