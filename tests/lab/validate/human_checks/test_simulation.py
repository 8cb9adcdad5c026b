"""Simulated human checks: what is gathered of them is what a run gathers, and the page is that of what is stored."""

import dataclasses
import json

import numpy as np
import pandas as pd
import pytest

from analysis.studies.human_check.check import choose_questions, labelled_items
from lab.validate.human_checks.__main__ import page
from lab.validate.human_checks.simulation import ALL_ASKED, EXTRA, answers, check_rows, items_of, unweighted
from lab.validate.human_checks.worlds import OBJECTS, SIDES, WORLDS, CheckWorld, draw_run, names
from tests.small_run import ROOT

SMALL = CheckWorld("small", prompts=12, errs=0.2, factor=2.0, images=18)


def some_answers(world=SMALL, seed=0):
    rng = np.random.default_rng(seed)
    run = draw_run(world, rng)
    asked = choose_questions(
        run.samples, run.nouns, run.objects, indicators=SIDES, images=world.images, extra=EXTRA, seed=1
    )
    return run, asked, answers(run, asked, world, rng)


def test_answers_are_joined_with_detections_as_those_of_a_run_are():
    run, _, labels = some_answers()
    columns = ["sample_id", "object", "present", "prompt", "seed", "indicator", "detected", "asked"]
    own, of_run = items_of(run, labels), labelled_items(labels, run.samples, run.nouns, run.objects)
    key = ["sample_id", "object"]
    own, of_run = (one[columns].sort_values(key).reset_index(drop=True) for one in (own, of_run))
    pd.testing.assert_frame_equal(own, of_run, check_dtype=False)
    assert {*of_run["asked"]} == {"prompt", "found", "other"}


def errs(run, sample_id):
    """Whether the detector errs on an image."""
    unit, side = map(int, sample_id.split("-"))
    return bool((run.there[unit, side] != run.detected[unit, side]).any())


def test_people_see_what_is_there():
    run, asked, labels = some_answers()
    assert len(labels) == len(asked)
    place = {name: number for number, name in enumerate(names())}
    cells = [
        (*map(int, one.split("-")), place[what]) for one, what in zip(labels["sample_id"], labels["object"])
    ]
    assert labels["present"].tolist() == ["yes" if run.there[cell] else "no" for cell in cells]
    assert {*labels["present"]} == {"yes", "no"}


def test_people_leave_out_images_with_an_error_as_often_as_the_world_says():
    run, asked, labels = some_answers(dataclasses.replace(SMALL, skipped=1.0))
    wrong = {one for one in asked["sample_id"] if errs(run, one)}
    assert wrong and {*labels["sample_id"]} == {*asked["sample_id"]} - wrong


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_a_detector_errs_as_often_as_its_world_says(world):
    rng, wrong, possible = np.random.default_rng(3), np.zeros((2, len(SIDES))), np.zeros(OBJECTS)
    for _ in range(12):
        run = draw_run(world, rng)
        triplet = run.samples["triplet"].to_numpy()[:: len(SIDES)]
        named = run.named[triplet][:, None] & np.ones((1, len(SIDES), 1), bool)
        named[..., 1:] &= not world.bad  # where some objects are harder, the one that every prompt names
        wrong[0] += ((run.there != run.detected) & named).sum(axis=(0, 2))
        wrong[1] += named.sum(axis=(0, 2))
        possible += run.there.any(axis=(0, 1))
    found = wrong[0] / wrong[1]
    expected = world.errs * np.array([1.0, 1.0, world.factor])
    slack = 5 * np.sqrt(expected * (1 + 6 * world.shared) / wrong[1])
    assert np.all(np.abs(found - expected) < slack + 0.1 * expected * (world.shared > 0))
    assert possible[0] == 12  # a person is somewhere in each run


def test_a_check_is_made_in_both_ways_and_its_rows_fill_the_page():
    rows = check_rows(SMALL, 3)
    assert [row["asked"] for row in rows] == [ALL_ASKED, "0.5"]
    whole, half = rows
    assert whole["questions"] == 1 and 0.4 < half["questions"] < 0.7
    assert whole["off"] == [0] * len(whole["truth"]) and np.isfinite(half["width"]).all()
    text = page(rows)
    assert "| small |" in text and text.startswith("# Human checks")


def test_rates_that_forget_chances_are_differences_of_plain_shares():
    items = pd.DataFrame(
        {
            "present": ["yes", "yes", "no", "yes", "yes", "no"],
            "detected": [True, False, True, True, True, True],
            "indicator": ["masculine"] * 3 + ["feminine"] * 3,
        }
    )
    assert unweighted(items) == pytest.approx([1 / 2 - 1, 1 / 2 - 2 / 3])


def test_the_page_is_that_of_what_is_stored():
    stored = ROOT / "docs/validation/human_checks.json"
    text = (ROOT / "docs/validation/human_checks.md").read_text("utf-8")
    assert text == page(json.loads(stored.read_text("utf-8"))), "run: python -m lab.validate.human_checks"
