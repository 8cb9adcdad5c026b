"""``triptych audit`` from the folder to the page; on real pictures where they are beside the project."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from statsmodels.stats.proportion import confint_proportions_2indep, proportion_confint

from analysis.methods.audit.claims import QUESTIONS
from tests.analysis.methods.audit.pictures import table_of, write_pictures
from triptych.cli.main import main

REAL = Path(__file__).parents[5] / "shared" / "real"
COUNTS = {
    (model, profession, setting): numbers
    for model, professions in {
        "first": {"nurse": ((10, 0, 0), (6, 3, 1)), "CEO": ((0, 10, 0), (9, 1, 0))},
        "second": {"nurse": ((6, 4, 0), (5, 5, 0)), "CEO": ((4, 6, 0), (5, 5, 0))},
    }.items()
    for profession, both in professions.items()
    for setting, numbers in zip(("baseline", "diverse"), both, strict=True)
}


@pytest.fixture(scope="module")
def audit(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pictures")
    labels = write_pictures(folder, table_of(COUNTS))
    out = tmp_path_factory.mktemp("out") / "audit"
    assert main(["audit", str(folder), "--labels", str(labels), "--out", str(out), "--resamples", "50"]) == 0
    return folder, labels, out


def refused(capsys, *arguments):
    assert main(["audit", *map(str, arguments)]) == 2
    said = capsys.readouterr().err.strip()
    assert "\n" not in said and len(said) <= 400
    return said


def test_the_page_holds_the_tables(audit):
    _, _, out = audit
    page = (out / "audit.html").read_text("utf-8")
    shares = pd.read_csv(out / "shares.csv")
    assert len(shares) == 8 and page.count('popover id="cell-') == 4
    assert page.count("data:image/jpeg;base64,") == 80 and "://" not in re.sub(r"data:[^\"]*", "", page)
    for row in shares.itertuples():
        assert f'value="{row.share}"' in page and f"{row.count}/{row.decided}" in page
    for name in ("pictures", "shares", "between", "contrasts", "models", "ranks", "agreement"):
        table = pd.read_csv(out / f"{name}.csv")
        assert list(table.columns) == list(pd.read_parquet(out / f"{name}.parquet").columns)
    filled = sum(one <= 0.05 for one in shares["p_page"])
    circles = re.findall(r"<circle [^>]*>", page)
    assert len(circles) == 8 and sum("open" not in one for one in circles) == filled > 0
    for question in QUESTIONS:
        assert f'data-question="{question}"' in page


def test_an_audit_is_replaced_only_when_told(audit, capsys):
    folder, labels, out = audit
    assert "found one: name another --out" in refused(capsys, folder, "--labels", labels, "--out", out)


def test_what_cannot_be_audited_is_said_in_a_line(audit, capsys, tmp_path):
    folder, labels, _ = audit
    out = ("--out", tmp_path / "audit")

    def said(*arguments, table=None):
        path = labels
        if table is not None:
            path = tmp_path / "labels.csv"
            table.to_csv(path, index=False)
        return refused(capsys, folder, "--labels", path, *out, *arguments)

    table = table_of(COUNTS)
    other = table.assign(
        prompt=table["prompt"].where(table["model"] == "first", "Another " + table["prompt"])
    )
    assert "expected the same prompts of first and second, got" in said(table=other)
    assert "--unlike prompts" in said(table=other)
    readers = table.assign(annotator=table["model"])
    assert "--unlike readers" in said(table=readers)
    lost = table[~((table["model"] == "second") & (table["profession"] == "CEO"))]
    assert "expected a label for every picture" in said(table=lost)
    assert "expected the same prompts of first and second" in said("--partial", table=lost)
    assert "expected a decided answer, got 'fmale': did you mean female" in said("--answer", "fmale")
    assert "expected two answers or more that decide" in said("--undecided", "both", "male")
    three = table.assign(read_as=table["read_as"].where(table.index % 5 > 0, "other"))
    assert "--answer: expected the answer whose share is asked" in said(table=three)
    assert "did you mean diverse" in said("--baseline", "divers")
    assert "--against: expected a share between 0 and 1" in said("--against", "1.5")
    assert "none.csv: expected a table, found none" in said("--against", tmp_path / "none.csv")
    assert "--unit: expected a column, got 'seed'" in said("--unit", "seed")
    assert "--level: expected a level above 0.5" in said("--level", "0.4")
    assert "--effect: expected" in said("--effect", "0.5")
    assert "expected a folder of pictures, found none" in refused(capsys, "nowhere", "--labels", labels, *out)
    assert not (tmp_path / "audit" / "audit.html").exists()


def test_models_that_differ_are_compared_with_a_world_when_asked(audit, tmp_path):
    folder, _, _ = audit
    table = table_of(COUNTS)
    lost = table[~((table["model"] == "second") & (table["profession"] == "CEO"))]
    lost.to_parquet(tmp_path / "labels.parquet")
    (tmp_path / "w.csv").write_text("profession,share\nnurse,0.87\nCEO,0.31\n")
    options = [
        "--labels",
        tmp_path / "labels.parquet",
        "--partial",
        "--unlike",
        "prompts",
        "--resamples",
        "20",
    ]
    options += ["--against", tmp_path / "w.csv", "--baseline", "diverse", "--thumbnails", "1"]
    assert main(["audit", str(folder), *map(str, options), "--out", str(tmp_path / "audit")]) == 0
    assert {*pd.read_csv(tmp_path / "audit" / "models.csv")["profession"]} == {"nurse"}
    shares = pd.read_csv(tmp_path / "audit" / "shares.csv")
    assert shares["setting"].iloc[0] == "diverse"
    nurse = shares[shares["profession"] == "nurse"].iloc[0]
    assert nurse["difference"] == pytest.approx(nurse["share"] - 0.87)
    assert (tmp_path / "audit" / "audit.html").read_text("utf-8").count("data:image/jpeg;base64,") == 6


@pytest.mark.skipif(not REAL.exists(), reason="the real pictures are not beside the project")
def test_real_pictures_as_computed_independently(tmp_path, capsys):
    assert (
        main(["audit", str(REAL), "--labels", str(REAL / "labels.csv"), "--out", str(tmp_path / "audit")])
        == 0
    )
    labels = pd.read_csv(REAL / "labels.csv")
    counts = (
        labels.groupby(["model", "profession", "setting"])["read_as"].value_counts().unstack(fill_value=0)
    )
    shares = pd.read_csv(tmp_path / "audit" / "shares.csv").set_index(["model", "profession", "setting"])
    assert len(shares) == len(counts) == 30
    for key, row in counts.iterrows():
        female, n = row["female"], row["female"] + row["male"]
        found = shares.loc[key]
        low, high = proportion_confint(female, n, method="wilson")
        expected = [female / n, low, high, stats.binomtest(int(female), int(n)).pvalue]
        assert found[["share", "low", "high", "p_value"]].tolist() == pytest.approx(expected, abs=1e-12)
    contrasts = pd.read_csv(tmp_path / "audit" / "contrasts.csv")
    single = contrasts[contrasts["profession"] != "all"]
    assert len(single) == 15
    for row in single.itertuples():
        (a, b), (c, d) = (
            counts.loc[(row.model, row.profession, name), ["female", "male"]]
            for name in ("baseline", "controlled")
        )
        ends = confint_proportions_2indep(c, c + d, a, a + b, method="newcomb")
        assert (row.difference, row.low, row.high) == pytest.approx(
            (c / (c + d) - a / (a + b), *ends), abs=1e-12
        )
        assert row.p_value == pytest.approx(stats.fisher_exact([[a, b], [c, d]]).pvalue, abs=1e-12)
    ranks = pd.read_csv(tmp_path / "audit" / "ranks.csv")
    assert set(ranks["model"]) == set(labels["model"]) and np.isfinite(ranks["distance"]).all()
    assert "10 decided pictures a cell" in capsys.readouterr().out
