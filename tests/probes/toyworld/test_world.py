"""The toy world's parts that need no model: words, captions, scenes, pictures, checker, planted truth."""

from pathlib import Path

import numpy as np
import pytest

from lab.pages.toyworld import quality_page
from lab.train.base.captions import random_caption
from lab.train.base.measure import checker_accuracy
from lab.train.base.truth import planted, planted_for
from lab.validate.word_maps import thing_masks
from probes.prompts import sets
from probes.toyworld.checker import PLACES, THINGS, read_images, read_skins
from probes.toyworld.draw import draw, render
from probes.toyworld.palette import INDEX, paint
from probes.toyworld.scene import CaptionContent, parse, sample_scene
from probes.toyworld.world import GROUPS, load_world

CAPTIONS = ("a person", "a lady in jeans with a dog", "two gentlemen in a dress on the beach")
WORK = ("a person who works as a clerk", "a lady in jeans who works as a judge")


def test_the_world_holds_what_the_papers_prompts_need():
    world = load_world()
    assert list(world.attributes) == list(sets.read("gep")["axes"]["attribute"])
    assert len(world.contexts) == 16 and len(world.places) >= 8 and len(world.objects) >= 20
    assert len(world.words("neutral")) >= 4
    for group in GROUPS:
        assert len(world.words(group)) >= 3 and len(world.words(group, "plural")) >= 3
        for context in world.contexts:
            for entry in world.attributes.values():
                prompt = f"a {world.words(group)[0]} {entry['phrase']} {context}"
                assert parse(prompt, world).group == group


@pytest.mark.parametrize(
    ("name", "captions"), [("toyworld", CAPTIONS), ("toyworld-null", CAPTIONS), ("toyworld-work", WORK)]
)
def test_planted_truth_equals_the_frequency_of_drawn_scenes(name, captions):
    world, rng, count = load_world(name), np.random.default_rng(1), 1000
    for caption in captions:
        named = parse(caption, world)
        scenes = [sample_scene(named, world, rng) for _ in range(count)]
        shown = [{*scene.things, f"skin_{scene.looks[0] + 1}"} for scene in scenes]
        for thing, chance in planted(caption, world).items():
            frequency = np.mean([thing in things for things in shown])
            bound = 4.5 * np.sqrt(chance * (1 - chance) / count) + 1e-9
            assert thing == "side:left" or abs(frequency - chance) <= bound, (caption, thing)


def test_worlds_lean_as_they_are_named():
    masculine, neutral = (planted(f"a {word}", load_world("toyworld")) for word in ("man", "person"))
    feminine = planted("a woman", load_world("toyworld"))
    mirrored = planted("a person", load_world("toyworld-mirror"))
    assert abs(neutral["tie"] - masculine["tie"]) < abs(neutral["tie"] - feminine["tie"])
    assert abs(mirrored["tie"] - feminine["tie"]) < abs(mirrored["tie"] - masculine["tie"])
    null = load_world("toyworld-null")
    assert planted("a woman", null) == planted("a man", null) == planted("a person", null)


def test_named_things_are_always_drawn_and_lower_garments_stay_in_view():
    world, rng = load_world("toyworld-null"), np.random.default_rng(2)
    for _ in range(1500):
        caption, named = random_caption(world, rng)
        scene = sample_scene(named, world, rng)
        assert named.things <= scene.things, caption
        assert planted_for(named, world) == planted(caption, world)


def test_rendering_is_exact_and_masks_are_the_pixels():
    world, rng = load_world(), np.random.default_rng(3)
    named = CaptionContent(
        "neutral", slots={"neck": "tie"}, objects={"ground": "dog"}, place="beach", pose="stand"
    )
    scene = sample_scene(named, world, rng)
    indices = draw(scene)
    assert indices.shape == (64, 64) and (render(scene) == paint(indices)).all()
    assert (draw(scene) == indices).all()
    assert (thing_masks(render(scene)[None], "dog")[0] == (indices == INDEX["dog"])).mean() > 0.99
    assert not thing_masks(render(scene)[None], "cat").any()


@pytest.mark.lab
def test_checker_reads_2000_unseen_renderings():
    accuracy = checker_accuracy(load_world("toyworld-null"), 2000)
    assert set(accuracy.index) == set(THINGS)
    assert accuracy.min() >= 0.99


def test_checker_tells_the_side_and_forgives_noise():
    world, rng = load_world("toyworld-null"), np.random.default_rng(5)
    scenes = [
        sample_scene(CaptionContent("neutral", objects={"ground": "box"}), world, rng) for _ in range(200)
    ]
    noisy = np.stack([render(scene) for scene in scenes]).astype(float) + rng.normal(0, 8, (200, 64, 64, 3))
    seen = read_images(noisy.clip(0, 255).astype(np.uint8))
    assert (seen["side"] == [scene.objects["box"] for scene in scenes]).mean() > 0.98
    assert (seen["skin"] == [f"skin_{scene.looks[0] + 1}" for scene in scenes]).mean() > 0.98
    assert (seen[list(PLACES)].sum(axis=1) == 1).all()


def test_the_page_shows_the_measured_figures():
    page = Path(__file__).parents[3] / "docs" / "validation" / "toyworld.md"
    assert page.read_text("utf-8") == quality_page()


def test_the_skin_is_that_of_the_largest_region():
    indices = np.full((3, 64, 64), INDEX["studio_wall"], dtype=np.uint8)
    indices[0, 10:20, 10:20] = INDEX["skin_1"]
    indices[0, 40:60:2, 10:30] = INDEX["skin_2"]  # more pixels, none of them a region
    indices[1, 10:20, 10:16] = indices[1, 10:20, 40:46] = INDEX["skin_3"]  # two regions of 60
    indices[1, 30:40, 30:38] = INDEX["skin_2"]  # one of 80
    assert read_skins(indices).tolist() == ["skin_1", "skin_2", ""]
