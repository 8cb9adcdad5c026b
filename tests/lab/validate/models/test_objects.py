"""Claims of a run compared with the checker's reading of the same images."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from analysis.stats.object_counts import object_table
from analysis.tables.objects.claims import DETECTOR, HEDGED, HOLDS
from lab.validate.models import calibrate
from lab.validate.models import objects as checked
from lab.validate.models.objects import (
    RunReading,
    counted,
    coverage,
    findings,
    page_rows,
)
from tests.analysis.tables.objects.test_claims import SIDES, counts_of, presence, table_of


def reading(truth, detected):
    objects = [f"o{number}" for number in range(truth.shape[3])]
    both = []
    for present in (detected, truth):
        _, images = table_of(present)
        flat = present.reshape(len(images), -1).astype(int)
        both.append(
            object_table(images, flat, indicators=[n for s in SIDES.values() for n in s], objects=objects)
        )
    counts = counts_of(truth, detected).table
    return RunReading("toyworld", *both, counts, SIDES, [("f", "m")])


@pytest.fixture(scope="module")
def readings():
    found = []
    for seed in range(2):
        truth = np.concatenate(
            [presence(3, [[0.05] * 3, [0.9] * 3], 24, seed), presence(3, [[0.3] * 3] * 2, 24, 9 + seed)],
            axis=3,
        )
        detected = truth.copy()
        detected[:, 0, :, 1] = False  # not seen on the first side
        found.append(reading(truth, detected))
    return found


def test_what_the_detector_makes_is_no_finding(readings):
    for one in readings:
        rows = findings(one).set_index("object")
        assert rows.loc["o0", "claim"] == HOLDS and rows.loc["o0", "there"]
        assert rows.loc["o1", "claim"] != HOLDS and not rows.loc["o1", "there"]
        assert rows.loc["o0", "plain"] and rows.loc["o0", "plain_there"]


def test_rows_are_counted():
    table = pd.DataFrame(
        {
            "object": list("abcd"),
            "claim": [HOLDS, HOLDS, HEDGED, DETECTOR],
            "there": [True, False, False, False],
            "plain": [True, True, False, True],
            "plain_there": [True, False, False, True],
        }
    )
    row = counted([table, table])
    assert (row["claimed"], row["claimed, not there"], row["which"]) == (4, 2, "b, b")
    assert (row["uncorrected"], row["uncorrected, not there"], row["marked"]) == (6, 2, 2)


def test_drawn_runs_are_covered(readings):
    table = coverage(readings, runs=4).set_index("treatment")
    # the one object that can be corrected, and its frequency is 0.05 to 0.9
    assert table.loc["corrected", "covered"] >= 0.5
    assert table["intervals"].between(1, 8).all()


def test_the_page_has_claims_and_coverage_in_a_row(readings, monkeypatch):
    monkeypatch.setattr(checked, "read_run", lambda path: readings[int(path.name)])
    rows = json.loads(json.dumps(page_rows([Path("0"), Path("1")], runs=4)))
    stored = json.loads(calibrate.PAGE.with_suffix(".json").read_text("utf-8"))
    section = calibrate.page(stored | {"objects": rows}).partition("## Objects said to differ")[2]
    [cells] = [line.split(" | ") for line in section.splitlines() if line.startswith("| toyworld |")]
    table = coverage(readings, runs=4).set_index("treatment")
    assert cells[1] == "2" and int(cells[2]) == sum((findings(r)["claim"] == HOLDS).sum() for r in readings)
    assert cells[6] == f"{100 * table.loc['corrected', 'covered']:.1f} %"
    assert cells[7].removesuffix(" |") == f"{100 * table.loc['as detected', 'covered']:.1f} %"
