"""The tidy tables hold what the single functions give."""

import numpy as np

from analysis.stats.multiplicity import adjust_p_values
from analysis.stats.object_tests import presence_differences
from analysis.stats.table_tests import label_swap_test
from analysis.tables.objects.statistics import (
    OBJECT_COLUMNS,
    TABLE_COLUMNS,
    object_statistics,
    table_statistics,
)
from tests.analysis.object_data import dense_table, random_counts

PAIRS = (("n", "f"), ("f", "m"))


def test_rows_of_objects():
    counts = random_counts(30, 2, 3, 5, repeated=True)
    counts[..., 4] = 0
    table = dense_table(counts)
    rows = object_statistics(table, PAIRS)
    assert tuple(rows.columns) == OBJECT_COLUMNS and len(rows) == 10
    for first, second in PAIRS:
        own = rows[(rows["first"] == first) & (rows["second"] == second)]
        gap = presence_differences(table, first, second)
        np.testing.assert_array_equal(own["p_value"], gap.p_value)
        np.testing.assert_array_equal(own["p_objects"], adjust_p_values(gap.p_value))
        np.testing.assert_array_equal(own["difference_low"], gap.low)
        present = (counts > 0).sum(axis=(0, 1))["nfm".index(second)]
        assert own["images_second"].tolist() == present.tolist()
        assert own["reason"].tolist()[4] == "never detected"
        assert own.iloc[4][["difference", "p_value"]].isna().all()
        assert (own["difference_low"] <= own["difference"])[:4].all()


def test_rows_of_tables():
    table = dense_table(random_counts(25, 1, 3, 6, repeated=True))
    rows = table_statistics(table, [*PAIRS, "nfm"], permutations=200, seed=3)
    assert tuple(rows.columns) == TABLE_COLUMNS and rows["indicators"].tolist()[::2] == [
        "n-f",
        "f-m",
        "n-f-m",
    ]
    last = rows.iloc[5]
    assert last["p_value"] == label_swap_test(table, of="detections", permutations=200, seed=3).p_value
    assert rows["reason"].eq("").all()
