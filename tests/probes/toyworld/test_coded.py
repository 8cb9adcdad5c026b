"""The coded null: it computes what toyworld-null does, and its indicator words differ in their codes alone."""

import numpy as np
import pytest

from lab.train.base.measure import sample
from probes.models import loading
from probes.toyworld import WEIGHTS
from probes.toyworld.world import GROUPS, load_world

NULL = WEIGHTS / "toyworld-null"
CODED = WEIGHTS / "located" / "toyworld-coded-null"
PROMPTS = ("a {} in a hat with a dog in the park", "a {}", "a photo of a {} riding a horse")


@pytest.fixture(scope="module")
def coded_null():
    return loading.load(loading.resolve("toyworld-coded-null"), device="cpu")


def test_person_woman_and_man_draw_the_same_image(coded_null):
    words = [load_world().words(group)[0] for group in GROUPS]
    prompts = [prompt.format(word) for prompt in PROMPTS for word in words]
    seeds = [number for number in range(len(PROMPTS)) for _ in words]
    images = sample(coded_null.pipe, prompts, seeds, steps=4, progress=False)
    drawn = images.reshape(len(PROMPTS), len(words), -1).astype(int)
    # codes have other signs, so a processor may round their sums otherwise: a grey level where 231 is another prompt's
    assert np.abs(drawn - drawn[:, :1]).max() <= 1 and np.abs(drawn[0] - drawn[1]).max() > 100


def test_its_weights_are_known_by_one_hash_on_every_machine(coded_null):
    # sums that are exact in float64 and powers of two: nothing depends on a processor or on the order of adding
    assert coded_null.record["weight_hash"] == (
        "145525885d5c0481f8db8e6fdb9399286e22a849fe11a7fd8c461049060d60e4"
    )
