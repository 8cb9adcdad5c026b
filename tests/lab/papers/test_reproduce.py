"""The reproduction: known anchors, the page, and faults in the reference tables."""

import csv
import math
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from lab.papers import gep_floors
from lab.papers.compare import PrintedNumber, family, number, printed_agreement
from lab.papers.page import PAPERS, page
from lab.papers.reproduce import main
from lab.papers.tables import FOLDER

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def sections():
    return {name: section() for name, section in PAPERS.items()}


def plain(name):
    """A reference table by the csv module alone."""
    with (FOLDER / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.lab
def test_the_page_is_current():
    stored = (ROOT / "docs" / "validation" / "reproduction.md").read_text(encoding="utf-8")
    assert page() == stored, "run: python -m lab.papers.reproduce --out docs/validation/reproduction.md"


# GEP


def test_gep_table_3_follows_from_the_printed_vectors(sections):
    """By hand: the mean of the absolute printed differences."""
    vectors = {}
    for row in plain("gep2023_table13_14_gep_vectors"):
        vectors.setdefault((row["setting"], row["model"]), []).append(abs(float(row["difference"])))
    rows = [row for row in sections["gep"].rows if re.search(r"from Table 1[34]", row.table)]
    own = {row.quantity: row for row in rows}
    assert len(own) == 6
    for row in plain("gep2023_table3"):
        found = own[f"GEP, {row['model']}, {row['setting']}"]
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


# Page, command, tables


def test_only_one_paper_is_written(tmp_path, capsys):
    out = tmp_path / "new" / "page.md"
    assert main(["--only", "gep", "--out", str(out)]) == 0
    text = out.read_text(encoding="utf-8")
    assert "## GEP (Zhang et al. 2023)" in text and "## Wu et al. 2025" not in text
    assert capsys.readouterr().out.strip() == str(out) and text == page(["gep"])


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
def test_a_faulty_table_is_one_clear_line(tmp_path, capsys, text, fault):
    folder = tmp_path / "reference"
    shutil.copytree(FOLDER, folder)
    path = folder / "gep2023_table3.csv"
    path.unlink() if text is None else path.write_bytes(text)
    out = tmp_path / "page.md"
    assert main(["--only", "gep", "--data", str(folder), "--out", str(out)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and str(path) in error and fault in error
    assert not out.exists()


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
    assert PrintedNumber("", "", "", printed, recomputed, decimals).agrees == expected


def test_a_family_leaves_out_what_is_not_printed():
    own = family("q", "Table 1", "Eq. 1", [("a", 0.1, 0.104), ("b", math.nan, 0.3), ("c", 0.2, 0.9)], 2)
    assert [row.quantity for row in own.rows] == ["a", "c"] and own.rounded == 1
    assert [row.quantity for row in own.disagreeing] == ["c"] and own.largest == pytest.approx(0.7)
    assert number(-0.00001) == "0.0000" and number(math.nan) == "—"
