"""The amount of an edit: captions that the page does not show, and where a straight line meets one half."""

import numpy as np
import pytest
import yaml

from lab.validate.tracing.amount import amount_at, by_ridge, captions, read_amount
from lab.validate.tracing.edited import EDIT
from probes.models import edits, loading
from probes.models.edits import Edit
from probes.prompts import sets
from probes.toyworld.draw import render
from probes.toyworld.scene import complete, parse
from probes.toyworld.world import load_world


@pytest.fixture(scope="module")
def edit():
    return Edit(**yaml.safe_load(EDIT.read_text("utf-8"))["edit"])


def test_captions_are_none_of_those_that_are_shown(edit):
    made = captions(edit)
    shown = sets.prompts("gep", {"neutral": ("person", "people")}, "neutral", setting="explicit")
    assert len(set(made)) == len(made) == 345 and not set(made) & {one["text"] for one in shown}
    assert all(parse(text.replace("{person}", "person"), load_world()) for text in made)


def test_the_line_is_that_of_least_squares():
    tried = [{"amount": x, "lean": y} for x, y in ((0.5, 0.7), (1.0, 0.62), (1.5, 0.45), (2.0, 0.41))]
    x, y = (np.array([one[name] for one in tried]) for name in ("amount", "lean"))
    slope = np.cov(x, y)[0, 1] / x.var(ddof=1)
    assert amount_at(tried) == pytest.approx(x.mean() + (0.5 - y.mean()) / slope)


def test_readings_are_those_of_the_checker_and_ridges_trade_contexts_for_other_captions(edit):
    pipe, world = loading.load(loading.resolve("toyworld"), device="cpu").pipe, load_world()
    rng = np.random.default_rng(0)

    def draw(prompts):
        return np.stack([render(complete(parse(text, world), world, rng)) for text in prompts])

    texts = captions(edit, 90)
    with edits.apply(pipe, edit) as edited:
        one = read_amount(edited, 1.0, {"person": texts, "woman": texts[:45], "man": texts[:45]}, draw, world)
    readings = one["readings"]
    # of renderings: nothing is edited in them, 0.7 of the neutral word's are of component b
    assert readings["woman"] < 0.1 and readings["man"] > 0.9
    assert abs(one["lean"] - 0.7) < 3 * np.sqrt(0.21 / 90) and one["named"] == 1
    small, usual = by_ridge(pipe, edit, [0.0001, 0.3])
    assert small["contexts"]["edited"] < usual["contexts"]["edited"] < usual["gep"]["edited"] < 0.8
    # what is fitted best in its contexts falls short most in others, and moves the words that were to be kept
    assert small["gep"]["edited"] > 3 * small["contexts"]["edited"]
    assert small["gep"]["kept"] > 10 * usual["gep"]["kept"]
