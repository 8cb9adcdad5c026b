"""Whole pages on professions: as the report would say it, and by far too often where each test stands alone."""

from __future__ import annotations

import numpy as np
import pytest
from statsmodels.stats.multitest import multipletests

from lab.validate.statistics import profession_pages as pages

NOTHING = "nothing, 20 professions"


@pytest.fixture(scope="module")
def drawn():
    rng, world = np.random.default_rng(4), pages.worlds()[NOTHING]
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


def test_printed_frequencies_are_the_papers():
    world = pages.printed("Karlo")
    assert world.female.shape == (83,) and world.attributes.shape == (83, 3, 15)
    assert world.female[0] == pytest.approx((1 - 0.33) / 2) and world.tone[0] == 5.0  # accountant
