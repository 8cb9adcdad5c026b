"""Worlds of labels beside a machine's readings: drawn as they say, and told from one another."""

from __future__ import annotations

import numpy as np
import pytest

from lab.validate.statistics import labelled_corrections as corrections

PAGES = 30


def rows_of(*numbers):
    worlds = [corrections.WORLDS[number] for number in numbers]
    return corrections.correction_rows(simulations=PAGES, worlds=worlds).to_dict("records")


@pytest.mark.parametrize("number", [1, 8, 9])
def test_pictures_labels_and_readings_are_drawn_as_the_world_says(number):
    world, rng = corrections.WORLDS[number], np.random.default_rng(0)
    pages = [corrections.draw_pictures(world, rng) for _ in range(60)]
    counts = np.array([page.groupby(["model", "profession"], sort=False).size() for page in pages])
    assert (counts == world.pictures).all() and counts.shape[1] == 20
    known = [page["answer"] != "" for page in pages]
    assert all(one.sum() == 20 * round(world.labelled * world.pictures) for one in known)
    said = np.mean([(page["answer"][one] == "both").mean() for page, one in zip(pages, known)])
    assert said == pytest.approx(world.undecided, abs=0.01)
    half = [page[page["profession"] == "profession 5"] for page in pages]
    female = [own["answer"] == "female" for own in half]
    decided = [own["answer"].isin(["female", "male"]) for own in half]
    share = sum(one.sum() for one in female) / sum(one.sum() for one in decided)
    assert share > 0.6 if world.truth > 1 else share == pytest.approx(0.5, abs=0.1)
    read = [(own["reading"] == "female") for own in half]
    labelled = np.mean([(own["answer"] != "")[one].mean() for own, one in zip(half, read)])
    assert labelled > 0.35 if world.reading > 1 else labelled < 0.4


def test_intervals_hold_where_labels_are_random():
    fair, good = rows_of(1, 4)
    for row in (fair, good):
        assert row["held"] > 0.92 and row["warned"] <= 0.2
    assert good["width"] < fair["width"]


def test_the_section_marks_what_misses():
    (row,) = rows_of(1)
    text = corrections.section_of(
        [row | {"held": 0.9, "world": "low"}, row | {"held": 0.95, "world": "fine"}]
    )
    assert "| low | **90.0** ±" in text and "| fine | 95.0 ±" in text
