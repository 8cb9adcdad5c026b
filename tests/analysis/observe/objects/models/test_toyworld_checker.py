"""The toyworld checker as an engine, compared with the renderer's own masks."""

import numpy as np
import pytest

from analysis.observe.objects.models.toyworld_checker import ToyworldChecker
from lab.train.base.captions import random_caption
from probes.toyworld import draw as renderer
from probes.toyworld.checker import LEAST, PERSON, TAGS
from probes.toyworld.palette import INDEX, paint
from probes.toyworld.scene import sample_scene
from probes.toyworld.world import load_world


@pytest.fixture(scope="module")
def scenes():
    world, rng = load_world(), np.random.default_rng(0)
    return [sample_scene(random_caption(world, rng)[1], world, rng) for _ in range(150)]


@pytest.fixture(scope="module")
def pictures(scenes):
    return [renderer.draw(scene) for scene in scenes]


@pytest.fixture(scope="module")
def found(pictures):
    return ToyworldChecker().detect([paint(picture) for picture in pictures], [()] * len(pictures))


def iou(first, second):
    return (first & second).sum() / (first | second).sum()


def test_every_thing_is_found_with_its_mask(scenes, pictures, found):
    agreements = []
    for scene, picture, one in zip(scenes, pictures, found):
        by_label = {detection.label: detection for detection in one.detections}
        assert set(by_label) - {PERSON} == {thing for thing in scene.things if thing in LEAST}
        agreements += [
            iou(by_label[thing].mask, picture == INDEX[thing]) for thing in set(by_label) - {PERSON}
        ]
    assert min(agreements) > 0.8  # a fragment cut off by what stands before it is left out
    assert np.mean(agreements) > 0.99


def test_the_figure_is_found_with_its_mask(scenes, pictures, found, monkeypatch):
    for part in ("_draw_lower_half", "_draw_upper_half", "_draw_feet", "_draw_head"):
        monkeypatch.setattr(renderer, part, lambda *arguments: None)
    agreements = []
    for scene, picture, one in zip(scenes, pictures, found):
        (person,) = [detection for detection in one.detections if detection.label == PERSON]
        agreements.append(iou(person.mask, picture != renderer.draw(scene)))
    assert min(agreements) > 0.85
    assert np.mean(agreements) > 0.96


def test_boxes_hold_their_masks(found):
    for one in found:
        for detection in one.detections:
            rows, columns = np.nonzero(detection.mask)
            assert detection.box == (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1)
            assert (detection.score, detection.mask.shape) == (1.0, (64, 64))
            assert detection.label in TAGS
