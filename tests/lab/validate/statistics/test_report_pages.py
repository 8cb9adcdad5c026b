"""Whole pages: hardly anything false where nothing differs, and by far too often where each test stands alone."""

from __future__ import annotations

import numpy as np
import pytest
from statsmodels.stats.multitest import multipletests

from analysis.methods.audit.claims import question_rows
from analysis.methods.audit.labelled_audit import measure_cells
from lab.validate.statistics import report_pages as pages

PAGES = 40


@pytest.fixture(scope="module")
def drawn():
    rng, (_, world) = np.random.default_rng(4), pages.page_worlds()["nothing, 20 professions"]
    return [pages.page_tests(world, rng, 99, one) for one in range(120)]


def test_a_page_of_nothing_says_something_too_often_unless_adjusted_as_a_whole(drawn):
    """At 5 % 120 pages have a standard error of 2 %."""
    anything = np.mean([sum(pages.said(page).values()) > 0 for page in drawn])
    alone = np.mean([any((p <= 0.05).any() for p in page.values()) for page in drawn])
    assert anything <= 0.05 + 3 * 0.02 < 0.12 and alone >= anything + 0.04


def test_what_is_said_is_what_hommel_leaves(drawn):
    for page in drawn:
        least = multipletests([page[name].min() for name in pages.QUESTIONS], method="hommel")[1]
        said = pages.said(page)
        for question, head in zip(pages.QUESTIONS, least, strict=True):
            assert (said[question] > 0) == (head <= 0.05)
            if head > 0.05:
                assert said.get(f"{question}, each", 0) == 0


@pytest.fixture(scope="module")
def labelled():
    world, rng = pages.LABELLED[0], np.random.default_rng(8)
    designs = [world.design(200, one) for one in range(PAGES)]
    return [(measure_cells(world.draw(rng), one), one) for one in designs]


def test_a_labelled_page_of_nothing_says_nothing_but_for_one_in_twenty(labelled):
    """At 5 % 40 pages have a standard error of 3.4 %."""
    said = np.mean([sum(pages.claims(tables, design).values()) > 0 for tables, design in labelled])
    assert said <= 0.05 + 3 * 0.034
    alone = np.mean([(question_rows(tables, "models")["p_value"] <= 0.05).any() for tables, _ in labelled])
    assert alone > 0.5


def test_professions_that_differ_are_found_and_nothing_else():
    rates = pages.labelled_pages(6, permutations=200, worlds=[pages.LABELLED[3]]).set_index("test")["rate"]
    assert rates["pages that say professions differ"] == 1
    assert rates["pages that say anything false"] <= 0.5
