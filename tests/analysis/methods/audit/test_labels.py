"""Labels are read as they are written; what does not fit is refused in a line that names the row."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from statsmodels.stats.inter_rater import aggregate_raters, fleiss_kappa

from analysis.methods.audit.arguments import read_merges
from analysis.methods.audit.labelled_audit import audit
from analysis.methods.audit.labels import MISSING, TIE
from probes.errors import UserError
from tests.analysis.methods.audit.pictures import table_of, write_pictures

COUNTS = {
    ("a", "nurse", "baseline"): (4, 1, 0),
    ("a", "CEO", "baseline"): (1, 3, 1),
    ("b", "nurse", "baseline"): (5, 0, 0),
    ("b", "CEO", "baseline"): (2, 3, 0),
}
OPTIONS = {"answer": "female", "resamples": 200, "permutations": 99}


@pytest.fixture
def table():
    return table_of(COUNTS)


def audited(folder, table, **options):
    return audit(folder, write_pictures(folder, table), **OPTIONS, **options)


def changed(table, row, **values):
    table = table.copy()
    for name, value in values.items():
        table.loc[row, name] = value
    return table


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: changed(t, 3, read_as="females"), r"line 5.*'females' \(1 times\), near 'female': --merge fem"),
        (lambda t: changed(t, 3, read_as="male "), r"line 5: .*near 'male': --merge 'male =male' merges"),
        (lambda t: changed(t, 0, read_as="Female"), r"line 2.*near 'female'"),
        (lambda t: changed(t, 0, profession="nurses"), r"expected a profession .*'nurses'.* near 'nurse'"),
        (lambda t: changed(t, 2, profession=""), r"line 4: expected a text in 'profession', found none"),
        (lambda t: pd.concat([t, t.iloc[[4]]]), r"line 22: expected one label for a/nurse_baseline_4.png, got another"),
        (lambda t: pd.concat([t, t.iloc[[4]].assign(profession="CEO")]), r"expected one label"),
        (lambda t: t.drop(columns="read_as"), r"expected a column of labels .*--label"),
        (lambda t: t.drop(columns=["profession", "setting"]), r"expected a column of what was asked for"),
        (lambda t: t.rename(columns={"file": "name"}), r"expected a column of images"),
        (lambda t: t.iloc[:0], r"expected a row for each label, found none"),
        (lambda t: t.iloc[1:], r"found none for a/nurse_baseline_0.png \(1 such pictures\)"),
        (lambda t: changed(t, 0, file="a/x.png"), r"line 2: expected a picture 'a/x.png'.*--partial"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_in_a_line(tmp_path, table, change, message):
    write_pictures(tmp_path, table)
    change(table).to_csv(tmp_path / "labels.csv", index=False)
    with pytest.raises(UserError, match=message) as error:
        audit(tmp_path, tmp_path / "labels.csv", **OPTIONS)
    assert "\n" not in str(error.value) and len(str(error.value)) <= 400


def test_spellings_are_merged_or_kept_when_told(tmp_path, table):
    odd = changed(changed(table, 3, read_as="females"), 5, read_as="male ")
    merged = audited(tmp_path, odd, merge=read_merges(["females=female", "male =male"]))
    assert {*merged.pictures["answer"]} == {"female", "male", "both"}
    kept = audited(tmp_path, changed(table, 3, read_as="females"), merge={"females": "females"})
    assert "females" in {*kept.pictures["answer"]}
    rare = audited(tmp_path, table.assign(read_as=["male", *["female"] * (len(table) - 1)]))
    assert (rare.pictures["answer"] == "male").sum() == 1  # no slip of female
    with pytest.raises(UserError, match=r"expected a spelling of .*found none 'woman'"):
        audited(tmp_path, table, merge={"woman": "female"})
    for texts in (["female"], ["=a"], ["a=b", "a=c"]):
        with pytest.raises(UserError, match="--merge: expected"):
            read_merges(texts)


def test_labels_without_a_picture_and_pictures_without_a_label_are_left_out_when_told(tmp_path, table):
    path = write_pictures(tmp_path, table)
    (tmp_path / table["file"][0]).unlink()
    (tmp_path / table["file"][1]).write_bytes(b"\x89PNG and no more")
    Image.new("RGB", (16, 16)).save(tmp_path / "a" / "other.webp")
    (tmp_path / "notes.txt").write_text("of people")
    with pytest.raises(UserError, match=r"line 2: expected a picture 'a/nurse_baseline_0.png'.*--partial"):
        audit(tmp_path, path, **OPTIONS)
    found = audit(tmp_path, path, **OPTIONS, partial=True)
    assert len(found.pictures) == len(table) - 2
    assert found.notes[0].startswith(f"{tmp_path}: 2 not read, no PNG, ") and "notes.txt" in found.notes[0]
    assert found.notes[1] == "left out: 2 labels without a picture, 1 picture without a label"
    for name in table.loc[table["profession"] == "CEO", "file"]:
        (tmp_path / name).unlink()
    with pytest.raises(UserError, match="expected pictures of profession 'CEO', found none"):
        audit(tmp_path, path, **OPTIONS, partial=True)


def test_several_annotators_are_joined_by_majority(tmp_path, table):
    first = table.assign(annotator="1")
    second = changed(table.assign(annotator="2"), 0, read_as="male")
    third = changed(changed(table.assign(annotator="3"), 0, read_as="male"), 1, read_as="both")
    two = audited(tmp_path, pd.concat([first, second])).pictures
    assert two["answer"][0] == TIE and two["annotators"].eq(2).all()
    three = audited(tmp_path, pd.concat([first, second, third])).pictures
    assert three["answer"][:2].tolist() == ["male", "female"]
    blank = audited(tmp_path, changed(table, 2, read_as="")).pictures
    assert blank["answer"][2] == MISSING and blank["annotators"][2] == 0


def test_agreement_is_that_of_fleiss_for_complete_answers(tmp_path, table):
    """Alpha of complete answers is Fleiss's kappa with a correction for n: 1 - (1 - kappa) (1 - 1 / nm)."""
    rng = np.random.default_rng(0)
    raters = [table.assign(annotator=str(one)) for one in range(3)]
    for one in raters:
        one.loc[rng.random(len(one)) < 0.3, "read_as"] = "male"
    found = audited(tmp_path, pd.concat(raters)).agreement.set_index("model")
    answers = np.stack([one["read_as"] for one in raters], axis=1)
    alpha = 1 - (1 - fleiss_kappa(aggregate_raters(answers)[0])) * (1 - 1 / answers.size)
    assert found.loc["all", "alpha"] == pytest.approx(alpha, abs=1e-12)
    assert found.loc["all", "low"] < alpha < found.loc["all", "high"]
    assert found.loc["all", "same"] == pytest.approx(np.mean([len({*one}) == 1 for one in answers]))
    assert list(found.index) == ["all", "a", "b"] and found["pictures"].tolist() == [20, 10, 10]
    assert audited(tmp_path, table).agreement.empty


def test_annotators_who_share_no_picture_have_a_reason_and_no_agreement(tmp_path, table):
    found = audited(tmp_path, table.assign(annotator=["1", "2"] * (len(table) // 2))).agreement
    assert found["alpha"].isna().all() and set(found["reason"]) == {"no picture has two answers"}


def test_models_are_the_folders_where_no_column_names_them_and_paths_may_begin_beside_the_table(
    tmp_path, table
):
    expected = audited(tmp_path / "in", table)
    other = tmp_path / "labels.csv"
    table.assign(file="in\\" + table["file"].str.replace("/", "\\")).drop(columns="model").to_csv(
        other, index=False
    )
    found = audit(tmp_path / "in", other, **OPTIONS)
    pd.testing.assert_frame_equal(found.pictures, expected.pictures)


def test_shares_to_compare_with_may_have_a_decimal_comma_and_no_n(tmp_path, table):
    (tmp_path / "world.csv").write_text("Profession;Share;n\nnurse;0,25;1500\nCEO;0,25;\n")
    design = audited(tmp_path / "pictures", table, against=tmp_path / "world.csv").design
    assert design.reference == {"nurse": 0.25, "CEO": 0.25} and design.reference_n == {"nurse": 1500}
