"""Scenes of skills: the paper's numbers, nothing that tells what is asked for but the scene itself, exactly read."""

from collections import Counter

import numpy as np
import pytest

from lab.validate.skills.scenes import draw_scene, scene, scenes
from probes.prompts import sets
from probes.prompts.paintskills import SKILLS
from probes.toyworld.checker import OBJECTS, read_objects
from probes.toyworld.palette import INDEX, paint


@pytest.fixture(scope="module")
def drawn():
    return [drawn for skill in SKILLS for drawn in scenes(skill, "test")]


def test_as_many_as_the_paper_has(drawn):
    assert Counter(one.request.skill for one in drawn) == {"object": 2325, "count": 2160, "spatial": 2700}
    first = next(iter(scenes("count", "train")))
    again = scene(first.request, "train 0")
    assert again == first and scene(first.request, "test 0") != first


def test_every_object_is_read_where_it_stands(drawn):
    some = drawn[::11]
    pictures = np.stack([draw_scene(one) for one in some])
    for one, read in zip(some, read_objects(paint(pictures)), strict=True):
        assert Counter(name for name, _ in read) == Counter(standing.name for standing in one.objects)
        left = list(one.objects)
        for name, mask in read:
            row, column = np.argwhere(mask)[0]
            x0, y0, x1, y1 = *np.argwhere(mask).min(0)[::-1], *(1 + np.argwhere(mask).max(0))[::-1]
            owner = next(
                standing
                for standing in left
                if standing.name == name
                and standing.column <= column < standing.box[2]
                and standing.row <= row < standing.box[3]
            )
            left.remove(owner)
            assert owner.column <= x0 < x1 <= owner.box[2] and owner.row <= y0 < y1 <= owner.box[3]
    assert read_objects(np.zeros((0, 64, 64, 3), np.uint8)) == []
    wrong = np.full((1, 64, 64), INDEX["studio_wall"], np.uint8)
    assert read_objects(paint(wrong)) == [[]] and list(OBJECTS) == list(
        sets.read("toyworld-skills")["objects"]
    )
