"""Simulated readers that leave images undecided because of what they show."""

import numpy as np

from lab.validate.statistics.readers import LABELLED, READER_WORLDS, draw_answers, reader_coverage


def test_answers_have_the_probabilities_of_their_world():
    world, rng = READER_WORLDS[1], np.random.default_rng(0)
    answers, labels = draw_answers(world, 0.3, 50, 2000, rng)
    expected = 50 * (0.3 * np.array(world.rates[0]) + 0.7 * np.array(world.rates[1]))
    error = np.sqrt(50 * 0.25 / 2000)
    np.testing.assert_allclose(answers.mean(axis=0), expected, atol=4 * error)
    assert (answers.sum(axis=1) == 50).all() and (labels.sum(axis=2) == LABELLED).all()


def test_three_answers_cover_where_leaving_the_undecided_out_does_not():
    table = reader_coverage(simulations=150, seed=1)
    rates = table[table["world"].str.contains("those that are left undecided, share 0.5, 60")]
    rates = rates.set_index("test")["rate"]
    assert rates["three answers"] >= 0.95 - 3 * np.sqrt(0.95 * 0.05 / 150)
    assert rates["the undecided left out"] < 0.85
