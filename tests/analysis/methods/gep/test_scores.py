"""Frequencies, vector and score of GEP against pandas, the printed tables and cases worked by hand."""

import numpy as np
import pytest

from analysis.methods.gep import scores
from analysis.observe.features.attribute_audit import SETTINGS
from lab.papers.gep_floors import IMAGES, attribute_counts
from lab.papers.tables import read_table


def published(setting, model):
    """An audit with the counts behind Tables 11 and 12: 16 contexts of five images, in any order."""
    counts = attribute_counts().loc[(setting, model)]
    values = np.zeros((16, 2, 5, len(counts)))
    rng = np.random.default_rng(0)
    for column, word in enumerate(("woman", "man")):
        for attribute, count in enumerate(counts[word]):
            flat = np.zeros(IMAGES)
            flat[rng.permutation(IMAGES)[:count]] = 1
            values[:, column, :, attribute] = flat.reshape(16, 5)
    contexts = tuple(map(str, range(16)))
    return scores.Audit(values, contexts, ("woman", "man"), tuple(counts.index), setting, "human")


CASES = [(s, m) for s in SETTINGS for m in ("CogView2", "DALLE-2", "Stable Diffusion")]


@pytest.mark.parametrize(("setting", "model"), CASES)
def test_published_frequencies_give_the_published_vectors_and_scores(setting, model):
    labels = published(setting, model)
    frequency = (
        read_table(
            "gep2023_table11_12_frequencies",
            ["setting", "model", "gender", "attribute", "frequency"],
            numeric=["frequency"],
        )
        .set_index(["setting", "model", "gender", "attribute"])["frequency"]
        .sort_index()
    )
    difference = (
        read_table(
            "gep2023_table13_14_gep_vectors",
            ["setting", "model", "attribute", "difference"],
            numeric=["difference"],
        )
        .set_index(["setting", "model", "attribute"])["difference"]
        .sort_index()
    )
    table3 = read_table("gep2023_table3", ["setting", "model", "gep_human"], numeric=["gep_human"]).set_index(
        ["setting", "model"]
    )["gep_human"]

    recomputed = scores.frequencies(labels)
    for row, word in enumerate(labels.indicators):
        printed = frequency.loc[(setting, model, word)][list(labels.attributes)]
        assert np.abs(recomputed[row] - printed).max() <= 0.005 + 1e-12
    differences = scores.vector(labels, "woman", "man")
    printed = difference.loc[(setting, model)][list(labels.attributes)]
    assert np.abs(differences - printed).max() <= 0.01  # some are cut, not rounded
    assert abs(scores.score(differences) - table3[setting, model]) <= 0.005 + 1e-12


def test_images_that_were_not_read_are_left_out_and_nothing_is_not_a_number():
    values = np.array([[[[1.0, np.nan], [np.nan, np.nan]], [[0.0, np.nan], [1.0, 0.0]]]])
    labels = scores.Audit(values, ("a",), ("woman", "man"), ("hat", "tie"), "neutral", "human")
    np.testing.assert_array_equal(scores.frequencies(labels), [[1, np.nan], [0.5, 0]])
    np.testing.assert_array_equal(scores.vector(labels, "woman", "man"), [0.5, np.nan])
    assert scores.score(scores.vector(labels, "woman", "man")) == 0.5
    assert np.isnan(scores.score(np.array([np.nan])))
