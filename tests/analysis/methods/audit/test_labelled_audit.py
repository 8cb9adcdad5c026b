"""An audit of labelled pictures, by ``triptych audit`` and by ``import triptych``: tables, page, figure, refusals."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import triptych
from analysis.methods.audit.labelled_audit import TABLES
from analysis.tables.spec import TYPES, described_in
from tests.analysis.access import faults
from tests.analysis.methods.audit.pictures import COUNTS, table_of
from triptych.cli.main import main


@pytest.fixture(scope="module")
def out(folder, tmp_path_factory):
    """What the command writes and prints."""
    out = tmp_path_factory.mktemp("out") / "audit"
    assert main(command(folder, out)) == 0
    return out


def command(folder, out):
    options = ["--resamples", "50", "--permutations", "2000"]
    return ["audit", str(folder), "--labels", f"{folder}/labels.csv", "--out", str(out), *options]


def test_its_tables_and_page_are_those_that_the_command_writes(audit, out, folder, tmp_path, capsys):
    assert main(command(folder, out)) == 2
    assert "expected no audit yet, found one: name another --out" in capsys.readouterr().err
    assert main(["audit", "nowhere", "--labels", f"{folder}/labels.csv"]) == 2
    assert "expected a folder of pictures, found none" in capsys.readouterr().err
    assert main([*command(folder, out), "--overwrite"]) == 0
    printed = capsys.readouterr().out
    assert repr(audit) in printed and f"page and tables: {out / 'audit.html'}" in printed
    page = audit.write(tmp_path / "audit")
    assert (
        page == tmp_path / "audit" / "audit.html" and page.read_bytes() == (out / "audit.html").read_bytes()
    )
    assert faults(page.read_text("utf-8")) == []
    for name, table in audit.tables.items():
        for kind in ("csv", "parquet"):
            files = [(place / f"{name}.{kind}").read_bytes() for place in (out, tmp_path / "audit")]
            assert files[0] == files[1]
        stored = pd.read_parquet(out / f"{name}.parquet")
        assert list(stored.columns) == list(table.columns) and len(stored) == len(table)
    assert list(audit.tables) == list(TABLES)


def test_labels_and_references_may_be_tables_in_memory(audit, folder):
    labels = pd.read_csv(folder / "labels.csv")
    same = triptych.audit(str(folder), labels, resamples=50, permutations=2000)
    for name, table in audit.tables.items():
        pd.testing.assert_frame_equal(same.tables[name], table)
    world = pd.DataFrame(
        {"profession": ["CEO", "nurse", "pilot"], "share": [0.3, 0.87, 0.1], "n": [400, 500, 9]}
    )
    against = triptych.audit(folder, labels, against=world).shares.set_index(
        ["model", "profession", "setting"]
    )
    row = against.loc[("b", "nurse", "baseline")]
    assert row["reference"] == 0.87 and row["difference"] == 0.5 - 0.87
    world = {"CEO": 0.3, "nurse": 0.87, "pilot": 0.1}
    said = triptych.audit(folder, labels, against=world).shares
    assert dict(zip(said["profession"], said["reference"])) == world
    assert triptych.audit(folder, labels, against=0.3).shares["reference"].eq(0.3).all()
    merged = labels.replace({"read_as": {"female": "woman"}})
    merged.loc[0, "read_as"] = "womann"
    with pytest.raises(triptych.UserError, match="table: row 0: expected a label spelled as elsewhere"):
        triptych.audit(folder, merged)
    found = triptych.audit(folder, merged, merge={"womann": "woman"}, answer="woman")
    np.testing.assert_array_equal(found.shares["share"], audit.shares["share"])


def test_what_it_says_is_had_as_a_table_and_shown_with_the_figure(audit):
    said = audit.findings
    assert {"reference", "contrast"} <= set(said["question"])
    assert all(line in repr(audit) for line in said["sentence"])
    shown = audit._repr_html_()
    assert shown.count("<svg") == 1 and "share of female among female and male" in shown


def without_ceos(table):
    return table[~((table["model"] == "b") & (table["profession"] == "CEO"))]


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        (lambda t: t.assign(prompt="A" + t["model"]), {}, "the same prompts of a and b, got .*--unlike prompts"),
        (lambda t: t.assign(annotator=t["model"]), {}, "expected the same annotators of a and b.*--unlike readers"),
        (without_ceos, {}, "expected a label for every picture"),
        (without_ceos, {"partial": True}, "expected the same prompts of a and b"),
        (None, {"answer": "fmale"}, "expected a decided answer, got 'fmale': did you mean female"),
        (None, {"undecided": ["both", "male"]}, "expected two answers or more that decide"),
        (
            lambda t: t.assign(read_as=t["read_as"].where(t.index % 5 > 0, "other")),
            {},
            "--answer: expected the answer whose share is asked",
        ),
        (None, {"baseline": ["divers"]}, "did you mean diverse"),
        (None, {"against": "1.5"}, "--against: expected a share between 0 and 1"),
        (None, {"against": "none.csv"}, "none.csv: expected a table, found none"),
        (None, {"level": 0.4}, "--level: expected a level above 0.5"),
        (None, {"effect": 0.5}, "--effect: expected a difference above 0 and below 0.5"),
    ],
)  # fmt: skip
def test_what_cannot_be_audited_is_one_line(folder, change, options, message):
    table = table_of(COUNTS)
    with pytest.raises(triptych.UserError, match=message) as refused:
        triptych.audit(folder, change(table) if change else table, **options)
    assert "\n" not in str(refused.value) and len(str(refused.value)) <= 400


def test_models_that_differ_are_compared_when_asked(folder, tmp_path):
    without_ceos(table_of(COUNTS)).to_parquet(tmp_path / "labels.parquet")
    options = [
        "--partial",
        "--unlike",
        "prompts",
        "--resamples",
        "20",
        "--baseline",
        "diverse",
        "--thumbnails",
        "1",
    ]
    paths = ["--labels", str(tmp_path / "labels.parquet"), "--out", str(tmp_path / "audit")]
    assert main(["audit", str(folder), *paths, *options]) == 0
    differences = pd.read_csv(tmp_path / "audit" / "differences.csv")
    assert {*differences.loc[differences["question"] == "models", "profession"]} == {"nurse", "pilot", "all"}
    assert pd.read_csv(tmp_path / "audit" / "shares.csv")["setting"].iloc[0] == "diverse"
    assert (tmp_path / "audit" / "audit.html").read_text("utf-8").count("data:image/png;base64,") == 10


def test_every_column_is_described_and_no_other(folder):
    labels = pd.read_csv(folder / "labels.csv")
    both = pd.concat([labels.assign(annotator=one) for one in ("x", "y")])
    found = triptych.audit(folder, both, resamples=20, permutations=99)
    rows = described_in("analysis.methods.audit", "table_columns.csv")
    assert all(column.type in TYPES and column.meaning.endswith(".") for _, column in rows)
    for name in TABLES:
        there = {"<factor>" if one in ("profession", "setting") else one for one in found.tables[name]}
        assert sorted(there) == sorted(column.name for tables, column in rows if name in tables)
