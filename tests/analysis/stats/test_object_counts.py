"""The table of objects from tidy rows and from matrices, against counting by loops."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from analysis.stats.object_counts import object_table
from tests.analysis.object_data import dense_table, random_counts


def images_and_rows(counts, indicators="nfm"):
    rows, keys = [], []
    for (prompt, seed, g), objects in zip(np.ndindex(counts.shape[:3]), counts.reshape(-1, counts.shape[3])):
        keys.append((prompt, seed, indicators[g]))
        rows += [(*keys[-1], f"object {o}") for o, count in enumerate(objects) for _ in range(count)]
    images = pd.DataFrame(keys, columns=["prompt", "seed", "indicator"])
    return images, pd.DataFrame(rows, columns=["prompt", "seed", "indicator", "object"])


def same_table(a, b):
    return all(
        np.array_equal(getattr(a, name), getattr(b, name))
        for name in ("objects", "prompts", "seeds", "prompt", "object", "presence", "detections")
    )


def test_rows_matrix_and_sparse_give_one_table_equal_to_the_counts():
    counts = random_counts(9, 3, 3, 5, repeated=True)
    images, rows = images_and_rows(counts)
    names = [f"object {o}" for o in range(5)]
    flat = counts.reshape(-1, 5)
    tables = [
        dense_table(counts),
        object_table(images, rows.sample(frac=1, random_state=0), indicators="nfm", objects=names),
        object_table(images, sparse.coo_array(flat), indicators="nfm", objects=names),
    ]
    for table in tables:
        assert same_table(table, tables[0])
        np.testing.assert_array_equal(table.totals("detections"), counts.sum(axis=(0, 1)).T)
        np.testing.assert_array_equal(table.totals(), (counts > 0).sum(axis=(0, 1)).T)
        dense = np.zeros((5, 9, 3), int)
        dense[table.object, table.prompt] = table.presence
        np.testing.assert_array_equal(dense, (counts > 0).sum(axis=1).transpose(2, 0, 1))
        assert table.n_images == 27 and table.incomplete == 0
        assert table.matrix("f").toarray().sum() == (counts[:, :, 1] > 0).sum()


def test_counted_rows_add_up_to_single_ones():
    counts = random_counts(4, 2, 2, 3, repeated=True)
    images, rows = images_and_rows(counts)
    grouped = rows.value_counts().rename("count").reset_index()
    tables = [object_table(images, own, indicators="nf") for own in (rows, grouped)]
    assert same_table(*tables)


def test_order_of_images_does_not_matter_and_others_are_ignored():
    counts = random_counts(5, 2, 3, 4)
    images, rows = images_and_rows(counts)
    extra = images[images["indicator"] == "n"].assign(indicator="x")
    mixed = pd.concat([images, extra]).sample(frac=1, random_state=1)
    pair = object_table(mixed, rows, indicators="mf")
    np.testing.assert_array_equal(pair.totals(), (counts > 0).sum(axis=(0, 1)).T[:, [2, 1]])
    np.testing.assert_array_equal(dense_table(counts).select("mf").totals(), pair.totals())


def test_seeds_without_all_indicators_are_left_out_and_counted():
    counts = np.ones((3, 2, 2, 1), int)
    images, rows = images_and_rows(counts)
    lost = (images["prompt"] == 0) & (images["seed"] == 1) & (images["indicator"] == "f")
    gone = (images["prompt"] == 2) & (images["indicator"] == "n")
    images = images[~lost & ~gone].reset_index(drop=True)
    rows = rows.merge(images)
    table = object_table(images, rows, indicators="nf")
    assert table.incomplete == 3 and table.prompts.tolist() == [0, 1] and table.seeds.tolist() == [1, 2]
    assert table.totals().tolist() == [[3, 3]]


def test_empty_tables_stand():
    images, _ = images_and_rows(np.zeros((2, 1, 2, 1), int))
    for shape, frame in (((4, 2), images), ((0, 2), images[:0])):
        table = object_table(frame, np.zeros(shape), indicators="nf", objects=["hat", "cup"])
        assert table.totals().tolist() == [[0, 0], [0, 0]]
    none = object_table(images, np.zeros((4, 0)), indicators="nf", objects=[])
    assert none.totals().shape == (0, 2)


IMAGES = pd.DataFrame({"prompt": [0, 0], "seed": 0, "indicator": ["n", "f"]})


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: object_table(IMAGES.drop(columns="seed"), [[1], [1]], indicators="nf"), "seed missing"),
        (lambda: object_table(IMAGES, [[1], [1]], indicators="nf"), "expected names for the columns"),
        (
            lambda: object_table(IMAGES, [[1]], indicators="nf", objects=["a"]),
            r"shape \(2, 1\), got \(1, 1\)",
        ),
        (lambda: object_table(IMAGES, [[1], [-1]], indicators="nf", objects=["a"]), "at least 0"),
        (lambda: object_table(IMAGES, [[1], [0.5]], indicators="nf", objects=["a"]), "whole counts"),
        (lambda: object_table(IMAGES, [[1], [1]], indicators="nn", objects=["a"]), "different ones"),
        (lambda: object_table(IMAGES, [[1, 1]] * 2, indicators="nf", objects=["a", "a"]), "one twice"),
        (
            lambda: object_table(
                pd.concat([IMAGES, IMAGES]), np.ones((4, 1)), indicators="nf", objects=["a"]
            ),
            r"\(0, 0\) twice",
        ),
        (
            lambda: object_table(IMAGES, IMAGES.assign(prompt=7, object="a"), indicators="nf"),
            r"none for \(7, 0, n\)",
        ),
        (
            lambda: object_table(IMAGES, IMAGES.assign(object="a"), indicators="nf", objects=["b"]),
            "one of the 1 objects, got 'a'",
        ),
    ],
)
def test_bad_input_is_named(call, text):
    with pytest.raises(ValueError, match=text):
        call()


def test_unknown_indicators_and_kinds_of_count_are_named():
    table = dense_table(random_counts())
    with pytest.raises(ValueError, match="expected one of n, f, m, got 'x'"):
        table.column("x")
    with pytest.raises(ValueError, match="presence or detections"):
        table.values("area")
    with pytest.raises(ValueError, match="two or more different"):
        table.select("nn")
