"""Methods of localisation where the place is known by wiring, and the page that holds them against it."""

from dataclasses import replace

import numpy as np
import pytest

from lab.validate.tracing import methods
from lab.validate.tracing.__main__ import PAGE
from lab.validate.tracing.methods import PlaceScores
from lab.validate.tracing.ranking import STRUCTURE_METHODS, rank_structure, subject_of
from probes.models import loading
from probes.toyworld.places import known_places

NAME = "toyworld-cross-4"


@pytest.fixture(scope="module")
def subject():
    """One prompt in two steps, on a benchmark model whose word enters at one cross-attention."""
    pipe = loading.load(loading.resolve(NAME), device="cpu").pipe
    pipe.set_progress_bar_config(disable=True)
    return subject_of(pipe, known_places("located")[NAME], ["a {person} in the park"], 2)


def test_a_swap_at_the_wired_place_is_the_whole_word_and_elsewhere_nothing(subject):
    found = methods.keys_and_values(subject)
    (true,) = known_places("located")[NAME].sites
    here = np.array(found.places) == true
    assert found.totals[0] != 0
    np.testing.assert_allclose(found.values[0, here], found.totals)
    assert not found.values[0, ~here].any()
    assert found.by_place()[here] == pytest.approx(1)


def test_the_code_stands_at_the_word_alone(subject):
    found = methods.positions(subject, ["word", "after", "end", "padding"])
    np.testing.assert_allclose(found.values[0], [found.totals[0], 0, 0, 0])


def test_before_the_wired_place_nothing_differs_in_the_first_step(subject):
    found = methods.cosine_atlas(replace(subject, steps=1))
    true = found.places.index(known_places("located")[NAME].sites[0])
    assert np.abs(found.values[0, :true]).max() < 1e-6 < found.values[0, true]


def test_shares_are_ratios_of_sums():
    scores = PlaceScores(("a", "b"), np.array([[1.0, 0.0], [3.0, 1.0]]), np.array([2.0, 6.0]))
    np.testing.assert_allclose(scores.by_place(), [0.5, 0.125])
    np.testing.assert_allclose(scores.by_place(np.array([[0, 0], [0, 1]])), [[0.5, 0], [0.5, 0.125]])
    no_total = PlaceScores(("a",), np.array([[0.0]]), np.array([0.0]))
    assert no_total.by_place().tolist() == [0]  # a null has no share, and nothing to divide


def test_swaps_do_all_and_undo_nothing_where_either_place_is_enough():
    pipe = loading.load(loading.resolve("toyworld-redundant"), device="cpu").pipe
    pipe.set_progress_bar_config(disable=True)
    structure = known_places("structures")["toyworld-redundant"]
    found = rank_structure(pipe, structure, prompts=4, seeds=1, steps=2)
    assert list(found["methods"]) == list(STRUCTURE_METHODS)
    true = np.array([site in structure.sites for site in found["sites"]])
    necessity, sufficiency = (np.array(found["methods"][name]) for name in ("necessity", "sufficiency"))
    assert necessity.shape == (4, 7) and not necessity.any()
    assert np.abs(sufficiency[:, true]).any(axis=0).all() and not sufficiency[:, ~true].any()


def test_the_page_of_the_docs_is_current():
    assert list(PAGE.stored()) == [*known_places("located"), *known_places("structures")]
    assert PAGE.path.read_text("utf-8") == PAGE.text()
