"""The table of objects from matrices, against counting by loops."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from analysis.stats.object_counts import image_of_each, object_table
from tests.analysis.object_data import dense_table, random_counts


def images_of(counts, indicators="nfm"):
    keys = [(prompt, seed, indicators[g]) for prompt, seed, g in np.ndindex(counts.shape[:3])]
    return pd.DataFrame(keys, columns=["prompt", "seed", "indicator"])


@pytest.mark.parametrize("kind", [np.asarray, sparse.coo_array])
def test_the_table_has_the_counts(kind):
    counts = random_counts(9, 3, 3, 5, repeated=True)
    names = [f"object {o}" for o in range(5)]
    table = object_table(images_of(counts), kind(counts.reshape(-1, 5)), indicators="nfm", objects=names)
    np.testing.assert_array_equal(table.totals("detections"), counts.sum(axis=(0, 1)).T)
    np.testing.assert_array_equal(table.totals(), (counts > 0).sum(axis=(0, 1)).T)
    dense = np.zeros((5, 9, 3), int)
    dense[table.object, table.prompt] = table.presence
    np.testing.assert_array_equal(dense, (counts > 0).sum(axis=1).transpose(2, 0, 1))
    assert table.n_images == 27


def test_order_of_images_does_not_matter_and_others_are_ignored():
    counts = random_counts(5, 2, 3, 4)
    images, flat = images_of(counts), counts.reshape(-1, 4)
    images.loc[images["indicator"] == "n", "indicator"] = "x"
    order = np.random.default_rng(1).permutation(len(images))
    pair = object_table(images.iloc[order], flat[order], indicators="mf", objects=list("abcd"))
    np.testing.assert_array_equal(pair.totals(), (counts > 0).sum(axis=(0, 1)).T[:, [2, 1]])
    np.testing.assert_array_equal(dense_table(counts).select("mf").totals(), pair.totals())


def test_seeds_without_all_indicators_are_left_out():
    images = images_of(np.ones((3, 2, 2, 1), int))
    lost = (images["prompt"] == 0) & (images["seed"] == 1) & (images["indicator"] == "f")
    gone = (images["prompt"] == 2) & (images["indicator"] == "n")
    images = images[~lost & ~gone].reset_index(drop=True)
    table = object_table(images, np.ones((len(images), 1)), indicators="nf", objects=["hat"])
    assert table.prompts.tolist() == [0, 1] and table.seeds.tolist() == [1, 2]
    assert table.totals().tolist() == [[3, 3]]


def test_empty_tables_stand():
    images = images_of(np.zeros((2, 1, 2, 1), int))
    for shape, frame in (((4, 2), images), ((0, 2), images[:0])):
        table = object_table(frame, np.zeros(shape), indicators="nf", objects=["hat", "cup"])
        assert table.totals().tolist() == [[0, 0], [0, 0]]
    none = object_table(images, np.zeros((4, 0)), indicators="nf", objects=[])
    assert none.totals().shape == (0, 2)


IMAGES = pd.DataFrame({"prompt": [0, 0], "seed": 0, "indicator": ["n", "f"]})


def test_unknown_images_indicators_and_kinds_of_count_are_named():
    with pytest.raises(ValueError, match=r"shape \(2, 1\), got \(1, 1\)"):
        object_table(IMAGES, [[1]], indicators="nf", objects=["a"])
    twice = pd.concat([IMAGES, IMAGES])
    with pytest.raises(ValueError, match=r"\(0, 0\) twice"):
        object_table(twice, np.ones((4, 1)), indicators="nf", objects=["a"])
    with pytest.raises(ValueError, match="twice"):
        image_of_each(twice, IMAGES)
    with pytest.raises(ValueError, match=r"none for \(7, 0, n\)"):
        image_of_each(IMAGES, IMAGES.assign(prompt=7))
