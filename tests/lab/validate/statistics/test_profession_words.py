"""Differences between words of simulated audits: told where there are none before, and no longer."""

from __future__ import annotations

import numpy as np
import pytest

from lab.validate.statistics import profession_words as words

WORLDS = dict(words.word_worlds())
RUNS = 60


def told(name):
    """Rates of pages with a false difference, and true ones found, by method."""
    world, rng = WORLDS[name], np.random.default_rng(3)
    pages = [words.word_p_values(words.draw_words(world, rng), 999, one) for one in range(RUNS)]
    return {
        method: (
            np.mean([(page[method][~world.true] <= 0.05).any() for page in pages]),
            np.mean([(page[method][world.true] <= 0.05).sum() for page in pages]),
        )
        for method in words.METHODS
    }


@pytest.mark.parametrize("name", ["nothing, 20 professions", "gender, one attribute .20 and .35"])
def test_all_differences_together_keep_the_level_that_each_family_alone_does_not(name):
    """At 5 % 60 pages have a standard error of 2.8 %."""
    found = told(name)
    assert found[words.ALONE][0] > 0.12 >= found[words.STEPS][0]
    assert found[words.STEPS][1] >= found[words.SINGLE][1] >= found[words.HOLM][1]


def test_a_noise_that_professions_share_is_not_taken_for_the_word():
    found = told("nothing, noise that professions share")
    assert found[words.STEPS][0] > 0.5 and found[words.BOTH][0] <= 0.12


def test_images_that_change_places_speak_of_these_professions_alone():
    found = told("nothing over professions, words apart in each")
    assert found[words.SWAPS][0] > 0.3 and found[words.STEPS][0] <= 0.12


def test_readings_have_the_frequencies_and_the_dependence_of_their_world():
    tied = words.draw_words(WORLDS["nothing, attributes tied"], np.random.default_rng(1))
    assert (tied[..., 2:] == tied[..., 2:3]).all() and 0 < tied[..., 2].mean() < 1
    gender = words.draw_words(WORLDS["gender, 6 professions"], np.random.default_rng(1))[..., 0]
    assert (gender.mean(axis=(0, 1))[1:] == [1.0, -1.0]).all()
    world = WORLDS["gender, three attributes .20 and .35"]
    drawn = [words.draw_words(world, np.random.default_rng(one)) for one in range(20)]
    shares = np.mean(drawn, axis=(0, 1, 2))[:, 2:5]
    np.testing.assert_allclose(shares, [[0.2] * 3, [0.2] * 3, [0.35] * 3], atol=0.03)
    assert world.true.sum() == 3 + 2 * 3
