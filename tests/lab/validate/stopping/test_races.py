"""Races of the laboratory against the project's own, one by one."""

import numpy as np
import pytest

from lab.validate.stopping import races
from lab.validate.stopping.races import RaceWorld, of_races


@pytest.mark.parametrize("aim", ["highest", "farthest"])
def test_every_race_ends_as_the_project_s_own_does(aim, monkeypatch):
    """Whatever ends it; `of_races` raises where one does not."""
    world = RaceWorld("some", (0.9, -0.8, 0.1), aim=aim, spread=1.5)
    monkeypatch.setattr(races, "RACE_WORLDS", (world,))
    monkeypatch.setattr(races, "CHECKED", 1)
    monkeypatch.setattr(races, "LOOKS", (24, 72, 240))
    found = of_races(world, 6)
    assert found["races"] == 6 and 0 < found["images"] <= 1
    assert found["won"] + found["tied"] <= 6 and found["found"] <= found["won"]


def test_a_fixed_design_is_student_s_t_of_all_pairs():
    world = RaceWorld("some", (2.0, 0.0), spread=1.0)
    values = world.drawn(20, np.random.default_rng(0))
    found, false = races._fixed(world, values)
    assert found.min() == 20 and false.max() == 0
    turned = RaceWorld("some", (0.0, 2.0), spread=1.0)
    assert races._fixed(turned, values)[1].min() == 20
