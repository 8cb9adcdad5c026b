"""Accuracy of skills against loops in plain Python, all permutations, and what arithmetic says of chance."""

from fractions import Fraction
from itertools import permutations
from math import factorial

import numpy as np
import pandas as pd
import pytest

from analysis.methods.skills.scores import (
    COLUMNS,
    INVERSE,
    chances,
    judge,
    right,
    seen,
)
from probes.config.measurement import Skills
from probes.prompts import sets
from probes.prompts.paintskills import SKILLS, SkillRequest, skill_requests

CLASSES = ("dog", "cat", "cup")


def detections(rng, images, most=5):
    rows = []
    for image in range(images):
        for _ in range(rng.integers(most + 1)):
            x, y, w, h = rng.integers(0, 12, 4).tolist()
            label = str(rng.choice([*CLASSES, "kite"]))
            rows.append((image, label, float(rng.random()), x, y, x + w, y + h))
    frame = pd.DataFrame(rows, columns=COLUMNS)
    return frame.sample(frac=1, random_state=0, ignore_index=True)


def asks():
    made = [SkillRequest("object", a) for a in CLASSES]
    made += [SkillRequest("count", a, count=n) for a in CLASSES for n in (1, 2, 3)]
    made += [
        SkillRequest("spatial", a, object_b=b, relation=one)
        for a in CLASSES
        for b in CLASSES
        for one in INVERSE
    ]
    return made


def by_hand(asked, rows, rules, threshold):
    """The definitions once more, image by image and box by box."""
    rows = sorted((row for row in rows if row["score"] > threshold), key=lambda row: -row["score"])
    of = [row for row in rows if row["label"] == asked.object]
    if asked.skill == "object":
        return bool(of) if rules.object == "any" else rows[:1] == of[:1] != []
    if asked.skill == "count":
        return len(of) == asked.count if rules.count == "exact" else len(of) >= asked.count
    others = [row for row in rows if row["label"] == asked.object_b]
    pairs = [(a, b) for a in of for b in others if a is not b]
    if rules.spatial == "surest":
        pairs = [(a, b) for a, b in pairs if a in rows[:2] and b in rows[:2]]
    if rules.spatial == "first":
        pairs = [(of[0], of[1])] if asked.object == asked.object_b and len(of) > 1 else pairs
        if asked.object != asked.object_b:
            pairs = [(a, b) for a, b in pairs if a is of[0] and b is others[0]]
    wanted = {asked.relation} | ({INVERSE[asked.relation]} if asked.object == asked.object_b else set())
    return any(direction(a, b) in wanted for a, b in pairs)


def direction(a, b):
    dx, dy = (b[f"{axis}0"] + b[f"{axis}1"] - a[f"{axis}0"] - a[f"{axis}1"] for axis in "xy")
    if dx == dy == 0:
        return None
    if abs(dx) >= abs(dy):
        return "right" if dx > 0 else "left"
    return "below" if dy > 0 else "above"


@pytest.mark.parametrize("rules", [Skills(), Skills(object="first", count="at_least", spatial="surest")])
def test_against_the_definitions_box_by_box(rules):
    frame, threshold = detections(np.random.default_rng(3), 60), 0.4
    found = seen(frame, 60, CLASSES, threshold)
    of_image = {image: rows.to_dict("records") for image, rows in frame.groupby("image")}
    for asked in asks():
        expected = [by_hand(asked, of_image.get(image, []), rules, threshold) for image in range(60)]
        assert right(asked, found, rules)["accuracy"].tolist() == expected, asked


def test_tasks_of_figure_5():
    rows = [(0, "dog", 0.9, 0, 0, 2, 2), (0, "cat", 0.8, 8, 0, 10, 2), (1, "dog", 0.7, 0, 0, 2, 2)]
    found = seen(pd.DataFrame(rows, columns=COLUMNS), 3, CLASSES)
    two = right(SkillRequest("count", "dog", count=2), found)
    assert {task: said.tolist() for task, said in two.items()} == {
        "accuracy": [False] * 3,
        "number": [True, False, False],
        "number_and_class": [False] * 3,
    }
    said = right(SkillRequest("spatial", "dog", object_b="cat", relation="above"), found)
    assert said["classes"].tolist() == [True, False, False] and not said["accuracy"].any()


def test_shuffled_is_the_mean_over_all_permutations():
    frame = detections(np.random.default_rng(5), 6)
    asked = [
        *(SkillRequest("object", name) for name in ("dog", "cat", "dog", "cup")),
        *(SkillRequest("count", "dog", count=number) for number in (1, 2)),
    ]
    found = seen(frame, 6, CLASSES)
    sums = {"object": Fraction(0), "count": Fraction(0)}
    for skill, places in (("object", range(4)), ("count", range(4, 6))):
        for order in permutations(places):
            answers = (right(asked[place], found)["accuracy"][image] for place, image in zip(places, order))
            sums[skill] += Fraction(sum(map(int, answers)), len(order) * factorial(len(order)))
    expected = {skill: float(total) for skill, total in sums.items()}
    each = judge(asked, found)[1]["accuracy"]
    assert (each[:4].mean(), each[4:].mean()) == pytest.approx(tuple(expected.values()), abs=1e-12)


def test_chance_of_the_papers_prompts():
    content = sets.read("paintskills")
    for skill, expected in zip(SKILLS, (1 / 15, 1 / 60, 2 / 900), strict=True):
        assert chances([one for _, one in skill_requests(skill, content)]).mean() == pytest.approx(
            expected, abs=1e-15
        )
