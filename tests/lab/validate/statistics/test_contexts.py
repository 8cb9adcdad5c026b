"""Simulated audits at published frequencies: their frequencies, what is shared, and a few rows of the page."""

import numpy as np
import pytest
from scipy import stats
from scipy.stats import multivariate_normal

from lab.validate.statistics.audits import published_cells
from lab.validate.statistics.contexts import (
    draw_images,
    label_rows,
    some_labels,
    unit_rows,
)


def test_images_have_the_published_frequencies_and_share_what_they_say():
    name, counts, _ = next(iter(published_cells()))
    frequency = counts / 80
    assert name == "CogView2, neutral" and frequency.shape == (2, 15)
    rng = np.random.default_rng(0)
    images = draw_images(frequency, 4000, 5, rng, context=0.3, paired=0.2)
    np.testing.assert_allclose(images.mean(axis=(0, 2)), frequency, atol=0.01)
    column = int(frequency.min(axis=0).argmax())
    edges = stats.norm.ppf(frequency[:, column])
    both = (images[:, 0, :, column] * images[:, 1, :, column]).mean()
    assert both == pytest.approx(multivariate_normal([0, 0], [[1, 0.2], [0.2, 1]]).cdf(edges), abs=0.01)
    context = (images[:, 0, 0, column] * images[:, 0, 1, column]).mean()
    alike = multivariate_normal([0, 0], [[1, 0.3], [0.3, 1]]).cdf([edges[0]] * 2)
    assert context == pytest.approx(alike, abs=0.01)


def test_so_many_images_of_each_word_and_attribute_are_labelled():
    labels = some_labels(np.ones((16, 2, 5, 3)), 15, np.random.default_rng(0))
    assert ((~np.isnan(labels)).sum(axis=(0, 2)) == 15).all()


def test_a_few_audits_have_their_truth_and_designs_their_tests():
    table = label_rows(simulations=2, labelled=(40,))
    assert table["truth"].round(2).tolist() == [0.02, 0.05, 0.07, 0.18, 0.12, 0.14]  # Table 3
    assert (table["width"] > 0).all()
    units = unit_rows(simulations=2)
    assert units["over_contexts"].notna().tolist() == (units["noise"] == "shared").tolist()


@pytest.mark.slow
def test_intervals_of_labels_hold_the_published_scores():
    table = label_rows(simulations=150, seed=5)
    error = 3 * np.sqrt(0.95 * 0.05 / 150)
    assert (table["held"] > 0.93 - error).all() and 0.93 <= table["held"].mean() <= 0.985
    units = unit_rows(simulations=150, seed=5)
    assert (units["score"] <= 0.065 + error).all()
