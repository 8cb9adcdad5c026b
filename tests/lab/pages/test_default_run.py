"""What pages show of the default run is what was stored, and their first plan is what is printed."""

import json

import pytest

from lab.pages import default_run
from lab.pages.default_run import MEASURED, PLACES, STORED

ROOT = default_run.ROOT


@pytest.mark.parametrize("name", PLACES)
def test_a_page_shows_what_is_stored(name):
    page = (ROOT / PLACES[name]).read_text("utf-8")
    assert default_run.found(page, name)["text"] == json.loads(STORED.read_text("utf-8"))[name]


def test_the_first_plan_is_what_is_printed():
    """But for what a machine measures."""
    page = (ROOT / PLACES["plan"]).read_text("utf-8")
    here, there = (
        MEASURED.sub("#", one) for one in (default_run.first_plan(), default_run.found(page, "plan")["text"])
    )
    assert here == there
    assert "72 images" in here and "39 tags" in here
