"""Pages of labelled pictures: nothing false where nothing differs, unless each test stands alone."""

from __future__ import annotations

import numpy as np
import pytest

from analysis.methods.audit.claims import question_rows
from analysis.methods.audit.labelled_audit import measure_cells
from lab.validate.statistics import labelled_audits as audits

PAGES = 40


@pytest.fixture(scope="module")
def pages():
    world, rng = audits.WORLDS[0], np.random.default_rng(8)
    designs = [audits.design_of(world, 200, one) for one in range(PAGES)]
    return [(measure_cells(audits.draw_cells(world, rng), one), one) for one in designs]


def test_a_page_of_nothing_says_nothing_but_for_one_in_twenty(pages):
    """At 5 % 40 pages have a standard error of 3.4 %."""
    said = np.mean([sum(audits.claims(tables, design).values()) > 0 for tables, design in pages])
    assert said <= 0.05 + 3 * 0.034
    alone = np.mean([(question_rows(tables, "models")["p_value"] <= 0.05).any() for tables, _ in pages])
    assert alone > 0.5


def test_lean_professions_are_found_and_nothing_else():
    world = audits.WORLDS[3]
    rows = audits.page_rows(simulations=6, permutations=200, worlds=[world]).iloc[0]
    assert rows["reference"] > 8 and rows["between"] > 8
    assert rows["false"] <= 0.5 and rows["models"] + rows["contrast"] < 1


def test_the_section_marks_pages_that_say_too_much():
    world = audits.WORLDS[3]
    section = audits.section_of(
        [{"world": world.name, "pages": 3, "false": 0.06, "error": 0.01} | dict.fromkeys(audits.EVERY, 0.25)]
    )
    assert "| **6.0** ± 1.0 |" in section and "0.25" in section
