"""Worlds of differences of prompts have the mean, the spread and the bound that they state."""

import numpy as np
import pytest

from analysis.methods.stopping.question import DIRECTION, INTERVAL
from lab.validate.statistics.words import LEANING, WORD_WORLDS
from lab.validate.stopping.objects import PAIR_WORLDS
from lab.validate.stopping.simulation import (
    GIVEN_WORLDS,
    PROMPT_WORLDS,
    SEED_WORLDS,
    of_given,
    of_pairs,
    of_prompts,
    of_question,
    of_seeds,
    of_words,
    true_gap,
)
from lab.validate.stopping.worlds import PromptWorld


@pytest.mark.parametrize(
    "world", [*PROMPT_WORLDS.values(), *GIVEN_WORLDS.values()], ids=lambda world: world.name
)
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


def test_seeds_within_prompts_narrow_a_value_and_shared_ones_move_all_prompts():
    rng = np.random.default_rng(0)
    for name, between, of_audits in (
        ("no lean, 4 seeds", 0.3 + 0.7 / 4, 0.0),
        ("seeds share 0.5, 4 seeds", 0.35, 0.125),
    ):
        values = SEED_WORLDS[name].drawn(500, 400, rng)
        assert values.var(axis=0, ddof=1).mean() == pytest.approx(between, rel=0.02)
        assert values.mean(axis=0).var() == pytest.approx(of_audits + between / 500, rel=0.25)
    assert of_seeds(SEED_WORLDS["seeds share 0.1, 2 seeds"], 10)["refused"]
    row = of_seeds(SEED_WORLDS["lean 0.5, 2 seeds"], 10)
    assert (row["seeds"], row["refused"], row["designs"]["stops itself"]["leans"]) == (2, False, 10)


def test_seeds_of_given_prompts_are_independent_and_share_what_their_noise_does():
    rng = np.random.default_rng(1)
    for name, variance in (("3 prompts", 0.7 / 3), ("3 prompts, seeds share 0.5", 0.5 + 0.2 / 3)):
        values = GIVEN_WORLDS[name].drawn(500, 400, rng)
        assert values.var() == pytest.approx(variance, rel=0.02)
        assert values.mean(axis=0).var() == pytest.approx(variance / 500, rel=0.25)
    row = of_given(GIVEN_WORLDS["3 prompts, seeds share 0.5, d_z 1"], 10)
    assert (row["part"], row["designs"]["stops itself"]["leans"]) == ("given", 10)


def test_other_questions_are_answered_in_their_own_words():
    wide = of_question("normal, d_z 1", INTERVAL, 10)["designs"]
    assert {of["leans"] + of["small"] for of in wide.values()} == {0} and wide["240 prompts"]["narrow"] == 10
    leaning = of_question("normal, d_z 1", DIRECTION, 10)
    assert (leaning["question"], leaning["designs"]["stops itself"]["leans"]) == (DIRECTION, 10)
    assert of_question("words alike", INTERVAL, 4)["delta"] == 0.05


def test_pairs_that_go_unseen_have_two_coverages():
    row = of_pairs(PAIR_WORLDS["unseen more often, 90 % and 40 %"], 10)
    assert row["observed"] > row["truth"] == 0.5 and set(row["covered_observed"]) == set(row["designs"])
    assert "observed" not in of_pairs(PAIR_WORLDS["5 % and 1 %"], 10)
