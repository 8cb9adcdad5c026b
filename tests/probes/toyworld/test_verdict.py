"""The verdict against an enumeration of the planted world, and against a simulation of it."""

import itertools
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from lab.train.base.captions import random_caption
from probes.toyworld.checker import THINGS
from probes.toyworld.scene import CaptionContent, parse, sample_scene
from probes.toyworld.verdict import SLOTS, slots_set_by_prompt, verdict
from probes.toyworld.world import load_world

WORLD = load_world()
COMPONENTS = {"feminine": "a", "masculine": "b"}  # the words that stand for one component alone
BARE = CaptionContent("neutral")


def readings(*seen: str, side: str = "") -> pd.DataFrame:
    """What the checker says of one image that holds these things; a studio unless a place is among them."""
    place = {"studio"} if not {*WORLD.places} & {*seen} else set()
    return pd.DataFrame([{thing: thing in {*seen, *place} for thing in THINGS} | {"side": side}])


def of_scenes(scenes) -> pd.DataFrame:
    """What a checker without fault reads in scenes."""
    ground = [
        next((place for name, place in scene.objects.items() if WORLD.objects[name]["at"] == "ground"), "")
        for scene in scenes
    ]
    there = [scene.things for scene in scenes]
    return pd.DataFrame({thing: [thing in things for things in there] for thing in THINGS} | {"side": ground})


def drawn(group: str, named: list[CaptionContent], seed: int) -> list:
    rng = np.random.default_rng(seed)
    return [sample_scene(replace(one, group=group), WORLD, rng) for one in named]


def enumerated(component: str, named: CaptionContent) -> dict[tuple, float]:
    """Probability of each reading of what is worn above, below and at the feet, by going through all scenes."""
    slots = WORLD.slots
    tables = [
        {named.slots[slot]: 1.0} if slot in named.slots else slots[slot][component]
        for slot in ("upper", "lower", "feet")
    ]
    chance: dict[tuple, float] = {}
    for upper, lower, feet in itertools.product(*tables):
        if "lower" in named.slots and upper in ("dress", "suit", "uniform"):
            continue  # they would hide what is named
        weight = tables[0][upper] * tables[1][lower] * tables[2][feet]
        lower = "none" if upper in ("dress", "suit", "uniform") else lower
        chance[upper, lower, feet] = chance.get((upper, lower, feet), 0.0) + weight
    total = sum(chance.values())
    return {key: weight / total for key, weight in chance.items()}


@pytest.mark.parametrize("prompt", ["a person", "a person in jeans", "a woman in a suit", "a man in a shirt"])
def test_without_smoothing_it_is_the_ratio_of_enumerated_probabilities(prompt):
    named = parse(prompt, WORLD)
    of = {component: enumerated(component, named) for component in "ab"}
    worn = [key for key in of["a"] if of["a"][key] > 0 and of["b"].get(key, 0.0) > 0]
    assert len(worn) >= 3
    table = pd.concat([readings(*({*key} - {"none"})) for key in worn], ignore_index=True)
    rest = float(
        sum(
            np.log(WORLD.slots[slot]["b"]["none"] / WORLD.slots[slot]["a"]["none"])
            for slot in ("head", "neck", "face", "hands", "ground", "sky")
        )
    )
    expected = [np.log(of["b"][key] / of["a"][key]) + rest for key in worn]
    np.testing.assert_allclose(verdict(table, [prompt] * len(worn), WORLD, smoothing=0), expected, atol=1e-12)


def test_side_and_place_and_objects_count_where_they_are_not_named():
    base = verdict(readings(), [BARE], WORLD, smoothing=0)[0]
    left = verdict(readings("cat", "kitchen", "clock", side="left"), [BARE], WORLD, smoothing=0)[0]
    assert left - base == pytest.approx(np.log((0.05 / 0.20) * (0.05 / 0.35) * (0.40 / 0.10) * (0.20 / 0.80)))
    named = ["a person with a cat in the kitchen"]
    side_alone = verdict(readings("cat", "kitchen", "clock", side="left"), named, WORLD, smoothing=0)[0]
    assert side_alone - base == pytest.approx(np.log((0.40 / 0.10) * (0.20 / 0.80)))


def test_log_odds_are_calibrated_whatever_the_prompt_names():
    rng = np.random.default_rng(5)
    named = [random_caption(WORLD, rng)[1] for _ in range(1500)]
    values = {group: verdict(of_scenes(drawn(group, named, 2)), named, WORLD) for group in COMPONENTS}
    both, truth = np.concatenate([*values.values()]), np.repeat([0, 1], len(named))
    for low, high in ((-3, -1), (-1, 1), (1, 3)):
        chosen = (both > low) & (both < high)
        expected = (1 / (1 + np.exp(-both[chosen]))).mean()
        error = np.sqrt(expected * (1 - expected) / chosen.sum())
        assert chosen.sum() > 100 and abs(truth[chosen].mean() - expected) < 4 * error


def test_named_slots_are_said_and_left_out():
    assert slots_set_by_prompt(parse("two women in slacks with a tie and a kite", WORLD)) == (
        "lower",
        "neck",
        "sky",
    )
    assert slots_set_by_prompt(parse("a man in a suit sitting on a couch", WORLD)) == ("upper", "lower")
    everything = {slot: "boots" for slot in SLOTS[:7]}
    silent = CaptionContent(
        "neutral", slots=everything, objects={"ground": "dog", "sky": "kite"}, place="park"
    )
    seen = readings("dress", "skirt", "hat", "tie", "mask", "gloves", "dog", "kite", "park")
    assert verdict(seen, [silent], WORLD).tolist() == [0.0]
