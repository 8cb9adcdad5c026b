"""How far one entrant is ahead of another: paired by prompt, with the words' part of the difference."""

import numpy as np
import pytest

from analysis.methods.stopping.gaps import GapOfPrompts
from analysis.methods.stopping.question import StopQuestion
from analysis.methods.stopping.race.looks import compared
from analysis.methods.stopping.race.question import Entrant, RaceQuestion
from analysis.methods.stopping.shares import SharesOfPrompts
from analysis.stats.confidence_sequences import sequence_interval
from analysis.stats.word_test import word_test

PROMPTS, WORDS = 40, 3
ASKED = StopQuestion("race", "z0", "cosine", ("m", "f"), 0.05, 0.95, 12, 1, PROMPTS, "measure")


def question(find="m", *, these_words=False, count=3, asked=ASKED):
    entrants = tuple(Entrant(f"e{number}", "model", "") for number in range(count))
    return RaceQuestion(find, these_words, entrants, asked)


def entrant(seed, shift=0.0, words=0.0, within=True):
    """Similarities of a model: prompts in common with others of the same first seed, words by their own offsets."""
    rng = np.random.default_rng(seed)
    shape = (WORDS, WORDS, PROMPTS)
    common = np.random.default_rng(99).normal(0, 0.2, PROMPTS)
    offsets = np.random.default_rng(98).normal(0, 0.1, (1, WORDS, 1))
    sides = [
        0.5 + sign * (shift + common) / 2 + (1 + words) * sign * offsets + rng.normal(0, 0.02, shape)
        for sign in (1, -1)
    ]
    own = [rng.normal(0.6, 0.02, shape) for _ in range(2)] if within else None
    if own:
        own = tuple((one + one.swapaxes(0, 1)) / 2 for one in own)
    return GapOfPrompts(*sides, own, np.full(PROMPTS, 1.0), np.arange(PROMPTS), 2.0)


def test_a_lead_is_the_difference_of_gaps_with_the_words_of_the_difference():
    one, other = entrant(1, 0.2), entrant(2)
    found = compared(question(), one, other, 30)
    values = [side.at(slice(30)).values("measure")[0] for side in (one, other)]
    level = 1 - 0.05 / 3
    of_prompts = sequence_interval(values[0] - values[1], level=level, reach=6.0)
    tables = [
        tuple((a - b)[..., :30, None] for a, b in zip(*pair))
        for pair in (
            ((one.first, one.second), (other.first, other.second)),
            (one.within, other.within),
        )
    ]
    half = float(word_test(*tables[0], within=tables[1], level=level).words_half[0])
    assert found.estimate == pytest.approx((values[0] - values[1]).mean())
    assert found.low == pytest.approx(found.estimate - np.hypot(found.estimate - of_prompts.low, half))
    assert found.high == pytest.approx(found.estimate + np.hypot(of_prompts.high - found.estimate, half))
    alone = compared(question(these_words=True), one, other, 30)
    assert (alone.low, alone.high) == pytest.approx((of_prompts.low, of_prompts.high))


def test_what_a_word_does_in_both_models_cancels():
    """What is a word's own is in each gap's interval, in that of the difference only as far as models differ in it."""
    one, same, other = entrant(1), entrant(2), entrant(2, words=2.0)
    level = question().level_of_each
    half = one.words_half(level)
    assert one.plus(same, -1).words_half(level) < half / 5
    assert one.plus(other, -1).words_half(level) == pytest.approx(2 * half, rel=0.1)


def test_a_lead_over_another_is_the_opposite_of_the_other_s():
    one, other = entrant(1, 0.2), entrant(2, -0.1)
    for find in ("m", "f", "most", "least"):
        there, back = compared(question(find), one, other, 40), compared(question(find), other, one, 40)
        assert (back.estimate, -back.high, -back.low) == pytest.approx(
            (-there.estimate, there.low, there.high)
        )
    assert compared(question("m"), one, other, 40).estimate > 0
    assert compared(question("f"), one, other, 40).estimate < 0


def test_prompts_that_one_of_them_lacks_are_left_out_of_both():
    one, other = entrant(1, 0.2), entrant(2)
    fewer = other.at(np.delete(np.arange(PROMPTS), [3, 17]))
    both = [side.at(np.delete(np.arange(PROMPTS), [3, 17])) for side in (one, other)]
    assert compared(question(), one, fewer, 40) == compared(question(), *both, 40)
    nothing = compared(question(), one.at(slice(5)), other.at(slice(5, 9)), 40)
    assert np.isnan(nothing.estimate) and (nothing.low, nothing.high) == (-np.inf, np.inf)


def test_a_gap_of_two_can_be_twice_as_far_out():
    one, other = entrant(1), entrant(2)
    values, most = one.plus(other, 1).values("measure")
    assert np.abs(values).max() <= most[0] == 6.0
    run = one.plus(other, 1).values("run")[1]
    assert run[0] == 6.0 and run[1:] == pytest.approx(3.0)


def test_shares_are_held_against_each_other_likewise():
    rng = np.random.default_rng(4)
    one, other = (
        SharesOfPrompts(*(rng.random((2, PROMPTS)) < rate for rate in rates), np.arange(PROMPTS))
        for rates in ((0.9, 0.1), (0.5, 0.5))
    )
    one, other = (
        SharesOfPrompts(side.first.astype(float), side.second.astype(float), side.prompts)
        for side in (one, other)
    )
    found = compared(question(these_words=True), one, other, 40)
    values = (
        one.first.mean(axis=0)
        - one.second.mean(axis=0)
        - other.first.mean(axis=0)
        + other.second.mean(axis=0)
    )
    by_hand = sequence_interval(values, level=1 - 0.05 / 3, reach=2.0)
    assert found == pytest.approx((by_hand.mean, by_hand.low, by_hand.high))
