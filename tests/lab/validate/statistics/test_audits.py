"""Simulated audits at published frequencies, and what a few labels and a classifier say of them together."""

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import roc_auc_score

from lab.validate.statistics.audits import (
    DIFFERENCE,
    SCORE,
    compared_scores,
    drawn_audit,
    page_section,
    powered_coverage,
    powered_rejections,
    published_cells,
    some_labels,
)


def test_an_audit_has_the_published_frequencies_and_areas():
    cells = {name: (counts, areas) for name, counts, areas in published_cells()}
    assert len(cells) == 6
    counts, areas = cells["Stable Diffusion, explicit"]
    assert np.abs(counts[0] - counts[1]).mean() / 80 == pytest.approx(0.14, abs=0.005)  # Table 3
    rng = np.random.default_rng(0)
    found = []
    for _ in range(20):
        labels, predictions = drawn_audit(counts, areas, 0.0, rng)
        np.testing.assert_array_equal(labels.sum(axis=1), counts)
        found.append([roc_auc_score(y, p) for y, p in zip(labels[0].T, predictions[0].T)])
    np.testing.assert_allclose(np.mean(found, axis=0), areas, atol=0.05)
    known = ~np.isnan(some_labels(labels, 15, rng))
    assert (known.sum(axis=1) == 15).all() and len({tuple(column) for column in known[0].T}) > 1


def test_estimates_are_near_and_intervals_hold_at_twenty_labels_also_where_the_classifier_errs_by_word():
    """With one weight fitted to the labels that it corrects the score was off by -0.012 to -0.028, and held 100 %."""
    table, biases = powered_coverage(simulations=40, labelled=(20,))
    assert len(biases) == 12
    for row in biases:
        assert abs(row["score"]) <= 0.005 + 3 * row["error"], row
        # Bonferroni over 15 attributes and 12 worlds, at one in a thousand
        assert row["vector"] < stats.norm.isf(0.0005 / (15 * 12)) + 1, row
    rates = table.groupby("test")["rate"].mean()
    total = 40 * 12
    assert stats.binom.ppf(0.001, total, 0.95) / total <= rates[SCORE] <= 0.985
    assert stats.binom.ppf(0.001, total, 0.95) / total <= rates[DIFFERENCE]


def test_tests_over_contexts_keep_their_level_where_both_words_are_alike():
    rates = powered_rejections(simulations=25, labelled=(20,)).groupby("test")["rate"].mean()
    total = 25 * 6
    assert rates[SCORE] <= stats.binom.ppf(0.999, total, 0.065) / total
    assert rates[DIFFERENCE] <= 0.065


def test_differences_between_models_are_held_and_equal_models_keep_one_rank():
    table = compared_scores(simulations=25)
    assert len(table) == 24
    held = round(table["held"].sum() * 25)
    assert held >= stats.binom.ppf(0.001, 24 * 25, 0.94)
    same = table[table["world"].str.contains("twice")]
    assert (same["truth"] == 0).all()
    assert round(same["told"].sum() * 25) <= stats.binom.ppf(0.999, 12 * 25, 0.06)


def test_the_section_marks_what_misses():
    text = page_section(simulations=2)
    assert "## A few labels and a classifier together (GEP)" in text
    assert text.count("\n| ") == 3 + 36 + 18 + 24
