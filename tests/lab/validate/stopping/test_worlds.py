"""Worlds of differences of prompts have the mean, the spread and the bound that they state."""

import numpy as np
import pytest

from lab.validate.statistics.words import LEANING, WORD_WORLDS
from lab.validate.stopping.simulation import PROMPT_WORLDS, of_prompts, of_words, true_gap
from lab.validate.stopping.worlds import PromptWorld


@pytest.mark.parametrize("world", PROMPT_WORLDS.values(), ids=lambda world: world.name)
def test_worlds_are_as_they_state(world: PromptWorld):
    values = world.drawn(1000, 400, np.random.default_rng(0))
    error = world.sd / np.sqrt(values.size)
    assert values.mean() == pytest.approx(world.mean, abs=4 * error)
    assert values.std() == pytest.approx(world.sd, rel=0.1 if "heavy" in world.name else 0.03)
    if world.reach is not None:
        assert np.abs(values - world.mean).max() <= world.reach


def test_a_world_gives_the_same_row_again_and_another_by_another_seed():
    world = PROMPT_WORLDS["normal, d_z 1"]
    row = of_prompts(world, 20)
    assert row == of_prompts(world, 20) != of_prompts(world, 20, seed=1)
    assert row["designs"]["stops itself"]["leans"] == 20 and row["truth"] == round(world.mean, 5)


def test_audits_of_words_come_in_parts_and_know_the_true_gap():
    assert true_gap(WORD_WORLDS[0]) == 0
    row = of_words(LEANING[1], 3)
    assert row["truth"] == round(true_gap(LEANING[1]), 5) > 0.02
    assert {one["audits"] for one in row["designs"].values()} == {3}
