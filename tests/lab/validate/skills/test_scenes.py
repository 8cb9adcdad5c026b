"""Scenes of skills: the paper's numbers, nothing that tells what is asked for but the scene itself, exactly read."""

from collections import Counter

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chi2_contingency

from lab.validate.skills.scenes import CELL, MARGIN, draw_scene, scene, scenes
from probes.prompts.paintskills import SKILLS
from probes.toyworld.palette import INDEX, paint
from probes.toyworld.skills import objects
from probes.toyworld.skills.checker import read_objects

RARE = 1e-4  # of the 20 tests below; seeds are fixed, so each is passed once for all


@pytest.fixture(scope="module")
def drawn():
    return [drawn for skill in SKILLS for drawn in scenes(skill, "test")]


def test_as_many_as_the_paper_has(drawn):
    assert Counter(one.request.skill for one in drawn) == {"object": 2325, "count": 2160, "spatial": 2700}
    first = next(iter(scenes("count", "train")))
    again = scene(first.request, "train 0")
    assert again == first and scene(first.request, "test 0") != first


def test_what_is_asked_for_is_even(drawn):
    for axis in ("object", "count", "object_b", "relation"):
        for skill in SKILLS:
            numbers = Counter(getattr(one.request, axis) for one in drawn if one.request.skill == skill)
            assert len(set(numbers.values())) == 1, (axis, skill)


def independent(*columns):
    return chi2_contingency(pd.crosstab(*map(np.asarray, columns))).pvalue > RARE


def cells(one):
    return tuple(
        sorted(((box[1] + box[3]) // (2 * CELL), (box[0] + box[2]) // (2 * CELL)) for box in boxes(one))
    )


def boxes(one):
    return [standing.box for standing in one.objects]


def test_place_tells_nothing(drawn):
    for skill in SKILLS:
        some = [one for one in drawn if one.request.skill == skill]
        place = [one.place for one in some]
        assert chi2_contingency([*[list(Counter(place).values())], [len(some) / 9] * 9]).pvalue > RARE
        for axis in ("object", "count", "object_b", "relation", "template"):
            values = [getattr(one.request, axis) for one in some]
            if len(set(values)) > 1:
                assert independent(values, place), (skill, axis)


def test_position_tells_neither_object_nor_number_nor_direction(drawn):
    counted = [one for one in drawn if one.request.skill == "count"]
    firsts = [cells(one)[0] if one.request.count == 4 else cells(one) for one in counted]
    for number in (1, 2, 3):
        some = [
            (one.request.object, str(cell))
            for one, cell in zip(counted, firsts)
            if one.request.count == number
        ]
        assert independent(*zip(*some)), number
    related = [one for one in drawn if one.request.skill == "spatial"]
    for along in (("left", "right"), ("above", "below")):
        some = [one for one in related if one.request.relation in along]
        way = [one.request.relation for one in some]
        assert independent(way, [str(cells(one)) for one in some])
        # nor where in their cells they stand, nor which objects they are
        middle = np.array([np.mean(boxes(one), axis=0) for one in some])
        for axis in (0, 1):
            centre = middle[:, axis] + middle[:, axis + 2]
            assert independent(way, pd.qcut(centre, 6, duplicates="drop"))
        assert independent(way, [f"{one.request.object} {one.request.object_b}" for one in some])


def test_no_two_lie_nearer_than_twice_the_margin(drawn):
    for one in drawn:
        found = boxes(one)
        assert all(0 <= box[0] < box[2] <= 64 and 0 <= box[1] < box[3] <= 64 for box in found)
        for first, a in enumerate(found):
            for b in found[first + 1 :]:
                across = max(a[0] - b[2], b[0] - a[2])
                down = max(a[1] - b[3], b[1] - a[3])
                assert max(across, down) >= 2 * MARGIN


def test_every_object_is_read_where_it_stands(drawn):
    some = drawn[::11]
    pictures = np.stack([draw_scene(one) for one in some])
    for one, read in zip(some, read_objects(paint(pictures)), strict=True):
        assert Counter(found.name for found in read) == Counter(standing.name for standing in one.objects)
        left = list(one.objects)
        for found in read:
            row, column = np.argwhere(found.mask)[0]
            x0, y0, x1, y1 = found.box
            owner = next(
                standing
                for standing in left
                if standing.name == found.name
                and standing.column <= column < standing.box[2]
                and standing.row <= row < standing.box[3]
            )
            left.remove(owner)
            assert owner.column <= x0 < x1 <= owner.box[2] and owner.row <= y0 < y1 <= owner.box[3]
    assert read_objects(np.zeros((0, 64, 64, 3), np.uint8)) == []
    wrong = np.full((1, 64, 64), INDEX["studio_wall"], np.uint8)
    assert read_objects(paint(wrong)) == [[]] and len(objects()) == 15
