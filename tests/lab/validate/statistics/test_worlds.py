"""Worlds of gaps and of objects: small sweeps always, the stated bounds in the slow part."""

import numpy as np
import pytest

from lab.validate.statistics.gaps import (
    gap_coverage,
    gap_rejections,
    side_share_coverage,
    words,
    words_leaning,
)
from lab.validate.statistics.objects import PAPER, object_coverage, object_rejections
from lab.validate.statistics.rates import AT_MOST, BOUNDS
from lab.validate.statistics.worlds import PRESENCE

# A rate may stray three Monte Carlo errors beyond the stated bounds before the test fails.
SIGMAS = 3


@pytest.mark.parametrize("world", PRESENCE[2:4], ids=lambda world: world.name)
def test_worlds_have_the_frequency_and_the_repeats_they_state(world):
    table = world.draw(2000, np.random.default_rng(0), shift=(1.0, 1.0, 1.2))
    totals = table.totals().sum(axis=0) / (2000 * table.n_images)
    expected = np.array([1, 1, 1.2]) * world.frequency
    np.testing.assert_allclose(totals, expected, rtol=0.1)
    per_image = table.detections.sum() / table.presence.sum()
    assert per_image == pytest.approx(1 + world.repeats, rel=0.05)


def test_the_papers_test_rejects_without_a_difference_where_detections_repeat():
    table = object_rejections(200, worlds=(PRESENCE[2], PRESENCE[5]))
    rate = table.set_index(["world", "test"])["rate"]
    assert rate["repeated detections", PAPER] > 0.5
    assert rate["named by the prompt", PAPER] == 0
    assert rate["repeated detections", "label swaps, detections"] < 0.25


@pytest.mark.lab
def test_shares_of_a_distance_are_covered():
    table = side_share_coverage(60, seed=4)
    assert (table["rate"] >= 0.95 - 4 * np.sqrt(0.95 * 0.05 / 60)).all()


def outside(table):
    """Rows whose rate misses the bounds of their kind by more than Monte Carlo error."""
    own = table[table["test"] != PAPER]
    error = SIGMAS * np.sqrt(0.05 * 0.95 / own["simulations"])
    strays = []
    for row, slack in zip(own.itertuples(), error):
        low, high = BOUNDS[row.kind]
        if not low - slack <= row.rate <= high + slack:
            strays.append((row.world, row.test, row.rate))
    return strays


@pytest.mark.slow
def test_tests_of_objects_reject_as_often_as_they_say():
    assert outside(object_rejections(2500, seed=11)) == []


@pytest.mark.slow
def test_tests_of_gaps_reject_as_often_as_they_say():
    table = gap_rejections(2000, seed=11)
    assert outside(table[~table["world"].str.startswith("skewed")]) == []
    skewed = table[table["world"].str.startswith("skewed") & (table["kind"] == AT_MOST)]
    assert len(skewed) and outside(skewed) == []


@pytest.mark.slow
def test_intervals_of_gaps_cover_as_often_as_they_say():
    assert outside(gap_coverage(2000, seed=11)) == []


@pytest.mark.slow
def test_gaps_that_words_make_are_rejected_as_often_as_it_says():
    assert outside(words(2000, seed=11)) == []
    # conservative where all words mean the same; what it finds where the reference leans is the other side
    rate = words_leaning(1000, seed=11).set_index(["world", "test"])["rate"]
    for n in (24, 100):
        three = "3 against 3, 3 of the reference"
        assert rate[f"lean 0.3, {n} prompts", three] > 0.6 and rate[f"lean 0.6, {n} prompts", three] > 0.95


@pytest.mark.slow
def test_intervals_of_objects_cover_as_often_as_they_say():
    table = object_coverage(2000, seed=11)
    assert outside(table[~table["world"].str.startswith("rare")]) == []
