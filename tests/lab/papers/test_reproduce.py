"""The reproduction: known anchors, the page, and faults in the reference tables."""

import csv
import math
import re
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from lab.papers import gep, gep_floors
from lab.papers.compare import PrintedCell, compared, printed_agreement
from lab.papers.reproduce import main, page
from lab.papers.tables import FOLDER, read_table
from probes.errors import UserError

ROOT = Path(__file__).parents[3]


def plain(name):
    """A reference table by the csv module alone."""
    with (FOLDER / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.lab
def test_the_page_is_current(capsys):
    stored = (ROOT / "docs" / "validation" / "reproduction.md").read_text(encoding="utf-8")
    assert page() == stored, "run: python -m lab.papers.reproduce > docs/validation/reproduction.md"
    assert main([]) == 0 and capsys.readouterr().out == stored


# GEP


def test_gep_table_3_follows_from_the_printed_vectors():
    """By hand: the mean of the absolute printed differences."""
    vectors = {}
    for row in plain("gep2023_table13_14_gep_vectors"):
        vectors.setdefault((row["setting"], row["model"]), []).append(abs(float(row["difference"])))
    (table,) = [one for one in gep.printed_tables() if one.table == "3 from 13, 14"]
    own = {cell.name: cell for cell in table.cells}
    assert len(own) == 6
    for row in plain("gep2023_table3"):
        found = own[f"{row['setting']}, {row['model']}"]
        assert found.recomputed == pytest.approx(np.mean(vectors[row["setting"], row["model"]]))
        assert found.printed == float(row["gep_human"]) and found.agrees == "rounded"


def test_cogviews_neutral_score_lies_below_its_floor():
    own = gep_floors.floors()["neutral", "CogView2"]
    assert own.value == pytest.approx(28 / 1200) and own.floor == pytest.approx(0.0258, abs=5e-5)
    assert own.excess < 0 and own.p_value > 0.5
    others = [f for key, f in gep_floors.floors().items() if key != ("neutral", "CogView2")]
    assert len(others) == 5 and all(f.excess > 0 and f.p_value < 0.01 for f in others)


def test_gep_floor_agrees_with_a_permutation_of_labels():
    """Images of one attribute shuffled between the words, all attributes at once."""
    table = gep_floors.attribute_counts().loc[("neutral", "CogView2")]
    rng = np.random.default_rng(4)
    total = (table["woman"] + table["man"]).to_numpy()
    first = rng.hypergeometric(total, 160 - total, 80, size=(20_000, 15))
    scores = np.abs(2 * first - total).mean(axis=1) / 80
    own = gep_floors.floors()["neutral", "CogView2"]
    assert own.floor == pytest.approx(scores.mean(), abs=4 * own.sd / math.sqrt(20_000))
    assert own.p_value == pytest.approx((scores >= own.value - 1e-9).mean(), abs=0.015)


def test_one_attribute_may_differ_where_the_score_does_not():
    tests = gep_floors.different_attributes().loc[("neutral", "CogView2")]
    assert tests.index[tests["p_adjusted"] < 0.05].tolist() == ["dress"]
    p = stats.fisher_exact([[11, 69], [0, 80]]).pvalue
    assert tests.loc["dress", "p_adjusted"] == pytest.approx(15 * p)


# Tables


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (None, "no such file"),
        (
            b"model,setting,gep_human\nCogView2,neutral,0.02\nDALLE-2,neutral,O.05\n",
            "line 3: gep_human: expected a number, got 'O.05'",
        ),
        (b"model,setting,gep_human\n", "got none"),
        (b"\xff\xfe\x00", "expected a CSV table in UTF-8"),
    ],
)
def test_a_faulty_table_is_one_clear_line(tmp_path, text, fault):
    path = tmp_path / "gep2023_table3.csv"
    if text is not None:
        path.write_bytes(text)
    with pytest.raises(UserError) as error:
        read_table("gep2023_table3", ["model", "gep_human"], numeric=["gep_human"], folder=tmp_path)
    assert "\n" not in str(error.value) and str(path) in str(error.value) and fault in str(error.value)


def test_reference_tables_stand_with_their_sources():
    readme = (FOLDER / "README.md").read_text(encoding="utf-8")
    for path in FOLDER.glob("*.csv"):
        (rows,) = re.findall(rf"^\| {path.stem} \| (\d+) \|", readme, re.MULTILINE)
        assert len(plain(path.stem)) == int(rows), path
    assert len(list(FOLDER.glob("*.csv"))) == 48
    bib = (FOLDER / "references.bib").read_text(encoding="utf-8")
    keys = re.findall(r"^@\w+\{(\w+),", bib, re.MULTILINE)
    assert keys == ["wu2025revealing", "zhang2023auditing", "cho2023dalleval", "gandikota2024unified"]


@pytest.mark.parametrize(
    ("printed", "recomputed", "decimals", "expected"),
    [
        (0.02, 0.025, 2, "rounded"),
        (0.03, 0.025, 2, "rounded"),
        (0.55, 5 / 9, 2, "cut"),
        (0.56, 5 / 9, 2, "rounded"),
        (0.57, 5 / 9, 2, "no"),
        (-0.55, -5 / 9, 2, "cut"),
        (-0.57, -5 / 9, 2, "no"),
        (0.54, 5 / 9, 2, "no"),
        (15, 14, 0, "no"),
        (0.0, 0.0, 4, "rounded"),
    ],
)
def test_agreement(printed, recomputed, decimals, expected):
    assert printed_agreement(printed, recomputed, decimals) == expected
    assert PrintedCell("", printed, recomputed, decimals).agrees == expected


def test_what_is_not_printed_is_left_out():
    own = compared("q", "1", "Eq. 1", 2, [("a", 0.1, 0.104), ("b", math.nan, 0.3), (("c", "d"), 0.2, 0.9)])
    assert [cell.name for cell in own.cells] == ["a", "c, d"] and own.counts == {"rounded": 1, "no": 1}
    assert [cell.name for cell in own.disagreeing] == ["c, d"] and own.largest == pytest.approx(0.7)
