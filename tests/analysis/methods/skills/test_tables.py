"""A run whose prompts ask for skills: looked at, measured, reported; what could not be judged is counted."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest

from analysis.methods.skills.scores import COLUMNS, seen
from analysis.methods.skills.tables import ScoredImages, accuracy_table
from analysis.observe.stage import observe
from analysis.report.page import report
from analysis.tables.registry import TABLES
from analysis.tables.stage import measure
from probes.config.measurement import Skills
from probes.errors import UserError
from probes.prompts.paintskills import SkillRequest
from probes.runs.run import Run
from tests.analysis.methods.skills.conftest import BROKEN, PROMPTS, WRONG
from tests.analysis.synthetic_run import configure


def test_renderings_are_right_and_what_is_none_is_counted(run):
    with pytest.raises(UserError, match="expected detections to judge its images by, found none"):
        measure(run)
    observe(run, progress=False)
    run = Run.open(run.path)
    measure(run)
    assert set(run.tables()) == {"skills_images", "skills_accuracy", "not_measured"}
    images, accuracy = run.table("skills_images"), run.table("skills_accuracy")
    assert list(images.columns) == list(TABLES["skills_images"].names)
    assert len(images) == 2 * PROMPTS
    judged = images[images["reason"] == ""]
    assert set(images.loc[images["reason"] != "", "triplet"]) == {BROKEN}
    assert set(judged.loc[judged["accuracy"] == 0, "triplet"]) == {WRONG}
    whole = accuracy[(accuracy["split"] == "all") & (accuracy["task"] == "accuracy")].set_index("skill")
    assert whole["left_out"].to_dict() == {"object": 0, "count": 2, "spatial": 0, "average": 2}
    assert whole["n"].to_dict() == {"object": 40, "count": 38, "spatial": 40, "average": 118}
    assert whole.loc["object", "value"] == 38 / 40 and whole.loc["spatial", "value"] == 1
    assert whole.loc["spatial", "low"] == pytest.approx(
        binomtest(20, 20).proportion_ci(0.95, "wilson").low
    )  # of 20 prompts, though the images are 40
    assert 0 < whole.loc["object", "shuffled"] < 0.2
    by_count = accuracy[(accuracy["split"] == "count") & (accuracy["task"] == "number")]
    assert set(by_count["level"]) == {"1", "2", "3", "4"} and by_count["n"].sum() == 38
    assert set(whole["detector"]) == {"toyworld-skills-checker/1"}
    page = report(configure(Run.open(run.path), report={"figures": False})).read_text(encoding="utf-8")
    assert "Of count, 2 images could not be judged, and 0 prompts had no image" in page
    assert "Nobody has looked at these images" in page and "so many of the object" in page
    assert r"\label{tab:skills_table02}" in (run.path / "tables" / "skills_table02.tex").read_text()


def table(right, prompts, **more):
    """The table of images of `dog` that show one where `right`."""
    rows = [(n, "dog", 0.9, 0, 0, 4, 4) for n, fine in enumerate(right) if fine]
    found = seen(pd.DataFrame(rows, columns=COLUMNS), len(right), ["dog"])
    samples = pd.DataFrame({"sample_id": map(str, range(len(right))), "triplet": prompts, "seed": 0})
    asked = [SkillRequest("object", "dog", template="a <objA>")] * len(right)
    judged = ScoredImages(samples, asked, found, [""] * len(right), Skills(), 0.0, "d")
    return accuracy_table(judged, 0.95).set_index(["skill", "split"])


def test_intervals_are_over_prompts_not_images():
    right = np.random.default_rng(2).random(40) < 0.6
    alone = table(right, range(40)).loc[("object", "all")]
    expected = binomtest(int(right.sum()), 40).proportion_ci(0.95, "wilson")
    # the variance over prompts has n - 1 for n
    assert [alone["low"], alone["high"]] == pytest.approx([expected.low, expected.high], abs=0.01)
    fourfold = table(np.repeat(right, 4), np.repeat(range(40), 4)).loc[("object", "all")]
    assert fourfold["n"] == 160 and fourfold["n_prompts"] == 40
    assert [fourfold["low"], fourfold["high"]] == pytest.approx([alone["low"], alone["high"]], abs=1e-12)
    one = table(right, [0] * 40).loc[("object", "all")]
    assert np.isnan(one["low"]) and one["reason"] and one["value"] == right.mean()


def test_what_the_detector_did_not_look_for_is_no_error(run):
    from analysis.methods.skills.detections import NOT_LOOKED_FOR, labels, reasons

    config = run.config.model_copy(update={"skills": Skills(labels={"dog": "hound"})})
    assert labels(config)["hound"] == "dog" and labels(config)["bicycle"] == "bike"
    samples = run.samples(["sample_id", "triplet", "seed"])
    asked = [SkillRequest("object", "sofa")] * len(samples)
    observe(run, progress=False)
    told = reasons(Run.open(run.path), samples, asked, {})
    assert told.count(NOT_LOOKED_FOR) == len(samples) - 2
