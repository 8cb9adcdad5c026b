"""Simulated runs that stop: the page is that of the stored results, which the simulation gives anew."""

import json
from pathlib import Path

import pytest

from analysis.methods.stopping.gaps import SequentialGap
from lab.validate.statistics.stopping import PROMPT_WORLDS, counts, of_prompts, page

DOCS = Path(__file__).parents[4] / "docs" / "validation"


def test_the_page_is_made_of_what_is_stored():
    rows = json.loads((DOCS / "stopping.json").read_text("utf-8"))
    assert (DOCS / "stopping.md").read_text("utf-8") == page(rows)


def test_answers_are_counted():
    ends = [(0.1, 0.3), (-0.3, -0.1), (-0.01, 0.01), (-0.2, 0.2)]
    looks = [SequentialGap(n, 0.0, low, high, low, high, 0.0, 0.0) for n, (low, high) in enumerate(ends)]
    found = counts(looks, 0.15, 0.02)
    assert found == {"audits": 4, "wrong": 2, "covered": 2, "leans": 2, "small": 1, "mean": 1.5, "q80": 3}
    assert counts(looks, 0.0, 0.02)["wrong"] == 2  # any direction where nothing leans


@pytest.mark.lab
def test_the_simulation_keeps_its_promise_in_a_normal_world():
    number = next(n for n, world in enumerate(PROMPT_WORLDS) if world.name == "normal")
    found = of_prompts(number, 100)["designs"]["stops itself"]
    assert found["wrong"] <= 12  # of 100 at 5 %: more has probability .0015
