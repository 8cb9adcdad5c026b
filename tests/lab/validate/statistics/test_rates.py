"""Rows of the page from simulated rates, and the page from what is stored."""

import json

import numpy as np
import pandas as pd
import pytest

from lab.validate.statistics import page as statistics
from lab.validate.statistics.rates import (
    AT_MOST,
    COLUMNS,
    COVERS,
    LEVEL,
    POWER,
    covered_row,
    lines,
    misses,
    summaries,
)


def rows(values, kind):
    table = [(f"world {n}", "a test", kind, value, 400, 0) for n, value in enumerate(values)]
    return summaries(pd.DataFrame(table, columns=list(COLUMNS)))


def test_misses_are_what_lies_outside():
    assert [misses(rate, LEVEL) for rate in (0.01, 0.05, 0.07)] == [True, False, True]
    assert [misses(rate, AT_MOST) for rate in (0.01, 0.05, 0.07)] == [False, False, True]
    assert [misses(rate, COVERS) for rate in (0.92, 0.95, 0.98)] == [True, False, True]
    assert not misses(0.01, POWER)


def test_a_row_has_its_worst_world_and_what_else_misses():
    (row,) = rows([0.05, 0.09, np.nan, 0.07, 0.04, 0.01], LEVEL)
    assert (row["best"], row["worst"][:2], row["worlds"]) == (0.01, ["world 1", 0.09], 5)
    assert [one[0] for one in row["others"]] == ["world 3", "world 5"]
    (cells,) = lines([row])
    assert cells[1:4] == ["3.5 to 6.5", "1.0 to **9.0 (1.4)**", "world 1"]
    assert cells[4] == "world 3 **7.0 (1.3)**; world 5 **1.0 (0.5)**"
    (row,) = rows([0.95, 0.99, 0.94], COVERS)
    assert (row["best"], row["worst"][0]) == (0.99, "world 2")
    assert [one[0] for one in row["others"]] == ["world 1"]
    assert lines([row])[0][2] == "94.0 (1.2) to 99.0"


def test_undefined_intervals_are_left_out():
    low, high = np.array([0.0, 0.0, np.nan, 2.0]), np.array([2.0, 0.5, 2.0, 3.0])
    assert covered_row("a world", "an interval", 1.0, (low, high))[3:] == (pytest.approx(1 / 3), 3, 1)


def test_the_page_is_made_of_what_is_stored():
    stored = json.loads(statistics.PAGE.with_suffix(".json").read_text("utf-8"))
    assert list(stored) == list(statistics.SWEEPS)
    text = statistics.page(stored)
    assert statistics.PAGE.read_text("utf-8") == text and "nan" not in text
    stored["gaps"]["rows"][0]["worst"][1] = 0.123
    assert "**12.3 (" in statistics.page(stored) and "**12.3 (" not in text


def test_a_sweep_is_simulated_anew_and_the_others_stay(tmp_path, monkeypatch):
    monkeypatch.setitem(statistics.SWEEPS, "gap_coverage", (20, statistics.SWEEPS["gap_coverage"][1]))
    out = tmp_path / "page.md"
    assert statistics.main(["--measure", "gap_coverage", "--out", str(out)]) == 0
    stored = json.loads(out.with_suffix(".json").read_text("utf-8"))
    before = json.loads(statistics.PAGE.with_suffix(".json").read_text("utf-8"))
    assert stored["gap_coverage"]["rows"][0]["simulations"] == 20
    assert {**stored, "gap_coverage": None} == {**before, "gap_coverage": None}
    assert out.read_text("utf-8") == statistics.page(stored)


@pytest.mark.slow
def test_every_sweep_gives_the_rows_that_the_page_has():
    before = json.loads(statistics.PAGE.with_suffix(".json").read_text("utf-8"))
    found = statistics.measure(list(statistics.SWEEPS), part=2000)
    for name, sweep in found.items():
        assert [(row["test"], row["kind"]) for row in sweep["rows"]] == [
            (row["test"], row["kind"]) for row in before[name]["rows"]
        ], name
        assert ("beside" in sweep) == ("beside" in before[name])
