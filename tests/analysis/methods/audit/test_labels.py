"""Labels are read as they are written; what does not fit is refused in a line that names the row."""

from __future__ import annotations

from html import unescape
from unicodedata import normalize

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from statsmodels.stats.inter_rater import aggregate_raters, fleiss_kappa

from analysis.methods.audit.agreement import agreement_table
from analysis.methods.audit.labelled_audit import audit
from analysis.methods.audit.labels import MISSING, TIE, find_columns, join_answers, open_labels, read_labels
from analysis.methods.audit.spellings import merges_of
from probes.errors import UserError
from tests.analysis.methods.audit.pictures import table_of, write_pictures

COUNTS = {
    ("a", "nurse", "baseline"): (4, 1, 0),
    ("a", "CEO", "baseline"): (1, 3, 1),
    ("b", "nurse", "baseline"): (5, 0, 0),
    ("b", "CEO", "baseline"): (2, 3, 0),
}


@pytest.fixture
def table():
    return table_of(COUNTS)


def read(folder, table, **options):
    path = write_pictures(folder, table)
    texts = open_labels(path)
    return read_labels(path, folder, find_columns(texts, path), texts, **options)


def test_what_is_read_is_what_was_written(tmp_path, table):
    rows = read(tmp_path, table)
    assert rows["image"].tolist() == table["file"].tolist()
    for name in ("model", "profession", "setting", "prompt"):
        assert rows[name].tolist() == table[name].tolist()
    assert rows["answer"].tolist() == table["read_as"].tolist() and rows.index[0] == "line 2"
    assert (rows["unit"] == "").all()


def test_parquet_and_xlsx_hold_the_same(tmp_path, table):
    path = write_pictures(tmp_path, table.assign(number=range(len(table))))
    texts = open_labels(path).frame()
    stored = table.assign(number=np.arange(len(table), dtype=float))
    stored.to_parquet(tmp_path / "labels.parquet")
    assert (open_labels(tmp_path / "labels.parquet").frame().to_numpy() == texts.to_numpy()).all()
    pytest.importorskip("openpyxl")
    stored.to_excel(tmp_path / "labels.xlsx", index=False)
    found = open_labels(tmp_path / "labels.xlsx").frame()
    assert (found.to_numpy() == texts.to_numpy()).all() and found.index[0] == "row 2"


def test_xlsx_without_its_library_says_what_to_install(tmp_path, monkeypatch):
    (tmp_path / "labels.xlsx").write_bytes(b"PK")

    def none(*args, **options):
        raise ImportError("openpyxl")

    monkeypatch.setattr(pd, "read_excel", none)
    with pytest.raises(UserError, match="pip install openpyxl, or save it as CSV"):
        open_labels(tmp_path / "labels.xlsx")


def test_models_are_the_folders_where_no_column_names_them(tmp_path, table):
    assert read(tmp_path, table.drop(columns="model"))["model"].tolist() == table["model"].tolist()


def test_paths_may_begin_beside_the_table(tmp_path, table):
    path = write_pictures(tmp_path / "in", table)
    other = tmp_path / "labels.csv"
    table.assign(file="in/" + table["file"]).to_csv(other, index=False)
    texts = open_labels(other)
    rows = read_labels(other, path.parent, find_columns(texts, other), texts)
    assert rows["image"].tolist() == table["file"].tolist()


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
        (lambda t: t.drop(columns="read_as"), r"expected a column of labels, found .*--label"),
        (lambda t: t.drop(columns=["profession", "setting"]), r"expected a column of what was asked for"),
        (lambda t: t.rename(columns={"file": "name"}), r"expected a column of images"),
        (lambda t: t.iloc[:0], r"expected a row for each label, found none"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_in_a_line(tmp_path, table, change, message):
    write_pictures(tmp_path, table)
    other = change(table)
    other.to_csv(tmp_path / "labels.csv", index=False)
    path = tmp_path / "labels.csv"
    with pytest.raises(UserError, match=message) as error:
        texts = open_labels(path)
        read_labels(path, tmp_path, find_columns(texts, path), texts)
    assert "\n" not in str(error.value) and len(str(error.value)) <= 400


def test_spellings_are_merged_or_kept_when_told(tmp_path, table):
    odd = changed(changed(table, 3, read_as="females"), 5, read_as="male ")
    merged = read(tmp_path, odd, merges=merges_of(["females=female", "male =male"]))
    assert set(merged["answer"]) == {"female", "male", "both"}
    kept = read(tmp_path, changed(table, 3, read_as="females"), merges=merges_of(["females=females"]))
    assert "females" in set(kept["answer"])
    with pytest.raises(UserError, match=r"expected a spelling of .*found none 'woman'"):
        read(tmp_path, table, merges={"woman": "female"})
    for texts in (["female"], ["=a"], ["a=b", "a=c"]):
        with pytest.raises(UserError, match="--merge: expected"):
            merges_of(texts)


def test_male_is_no_slip_of_female(tmp_path, table):
    rows = read(tmp_path, table.assign(read_as=["male", *["female"] * (len(table) - 1)]))
    assert (rows["answer"] == "male").sum() == 1


def test_labels_without_a_picture_and_pictures_without_a_label(tmp_path, table):
    path = write_pictures(tmp_path, table)
    (tmp_path / table["file"][0]).unlink()
    texts = open_labels(path)
    columns = find_columns(texts, path)
    with pytest.raises(UserError, match=r"line 2: expected a picture 'a/nurse_baseline_0.png'.*--partial"):
        read_labels(path, tmp_path, columns, texts)
    assert len(read_labels(path, tmp_path, columns, texts, partial=True)) == len(table) - 1
    write_pictures(tmp_path, table)
    table.iloc[1:].to_csv(path, index=False)
    texts = open_labels(path)
    with pytest.raises(UserError, match=r"found none for a/nurse_baseline_0.png \(1 such pictures\)"):
        read_labels(path, tmp_path, columns, texts)
    assert len(read_labels(path, tmp_path, columns, texts, partial=True)) == len(table) - 1


def test_a_profession_without_pictures_is_refused_even_where_some_may_lack(tmp_path, table):
    path = write_pictures(tmp_path, table)
    for name in table.loc[table["profession"] == "CEO", "file"]:
        (tmp_path / name).unlink()
    texts = open_labels(path)
    with pytest.raises(UserError, match="expected pictures of profession 'CEO', found none"):
        read_labels(path, tmp_path, find_columns(texts, path), texts, partial=True)


def test_several_annotators_are_joined_by_majority(tmp_path, table):
    first = table.assign(annotator="1")
    second = changed(table.assign(annotator="2"), 0, read_as="male")
    third = changed(changed(table.assign(annotator="3"), 0, read_as="male"), 1, read_as="both")
    rows = read(tmp_path, pd.concat([first, second], ignore_index=True))
    two = join_answers(rows).set_index("image")
    assert two.loc[table["file"][0], "answer"] == TIE and two["annotators"].eq(2).all()
    rows = read(
        tmp_path, pd.concat([first, second, third.assign(read_as=third["read_as"])], ignore_index=True)
    )
    three = join_answers(rows).set_index("image")
    assert three.loc[table["file"][0], "answer"] == "male"
    assert three.loc[table["file"][1], "answer"] == "female"
    blank = read(tmp_path, changed(table, 2, read_as=""))
    assert join_answers(blank)["answer"][2] == MISSING and join_answers(blank)["annotators"][2] == 0


def test_agreement_is_that_of_fleiss_for_complete_answers(tmp_path, table):
    """Alpha of complete answers is Fleiss's kappa with a correction for n: 1 - (1 - kappa) (1 - 1 / nm)."""
    rng = np.random.default_rng(0)
    raters = [table.assign(annotator=str(one)) for one in range(3)]
    for one in raters:
        one.loc[rng.random(len(one)) < 0.3, "read_as"] = "male"
    rows = read(tmp_path, pd.concat(raters, ignore_index=True))
    found = agreement_table(rows, resamples=200).set_index("model")
    wide = rows.pivot(index="image", columns="annotator", values="answer").loc[table["file"]]
    kappa = fleiss_kappa(aggregate_raters(wide.to_numpy())[0])
    alpha = 1 - (1 - kappa) * (1 - 1 / wide.size)
    assert found.loc["all", "alpha"] == pytest.approx(alpha, abs=1e-12)
    assert found.loc["all", "low"] < alpha < found.loc["all", "high"]
    assert found.loc["all", "same"] == pytest.approx(np.mean([len({*one}) == 1 for one in wide.to_numpy()]))
    assert list(found.index) == ["all", "a", "b"] and found["pictures"].tolist() == [20, 10, 10]
    assert agreement_table(read(tmp_path, table)).empty


def nurses(*names, **columns):
    """Two professions of six pictures in the form that people's sheets have, without a column of models."""
    files = [f"{name}_{number}.png" for name in names for number in range(6)]
    table = pd.DataFrame({"file": files, "profession": [one.rsplit("_", 1)[0] for one in files]})
    return table.assign(**{"label": ["female", "male", "male"] * 4, **columns})


def audited(folder, table, **options):
    path = write_pictures(folder, table)
    return audit(folder, path, answer="female", resamples=20, permutations=99, **options)


@pytest.mark.parametrize(
    ("change", "note"),
    [
        (lambda text: text.replace("setting", "Setting", 1), "columns taken: 'Setting' as setting"),
        (lambda text: text.replace("setting", "setting ", 1), "columns taken: 'setting ' as setting"),
        (lambda text: text.replace("model", "Model", 1), "columns taken: 'Model' as model"),
        (lambda text: text.replace("model", " model", 1), "columns taken: ' model' as model"),
        (lambda text: text.replace(",", ";"), None),
        (lambda text: "sep=;\n" + text.replace(",", ";"), None),
        (lambda text: text.replace("/", "\\"), None),
        (lambda text: normalize("NFD", text).replace("\n", "\r\n"), None),
        (lambda text: text.replace("\n", ",7\n").replace(",7\n", ",rating\n", 1), "columns not used: rating"),
    ],
)
def test_a_sheet_says_the_same_however_a_spreadsheet_wrote_it(tmp_path, change, note):
    table = nurses("infirmière", "pilote")
    table["file"] = [f"{model}/{file}" for model, file in zip(["m1", "m2"] * 6, table["file"])]
    table = table.assign(setting=["baseline", "baseline", "diverse"] * 4, model=["m1", "m2"] * 6)
    expected = audited(tmp_path, table)
    for file in (tmp_path / "m1").glob("infirmi*"):
        file.rename(file.with_name(normalize("NFD", file.name)))
    path = tmp_path / "labels.csv"
    path.write_bytes(change(path.read_text()).encode())
    found = audit(tmp_path, path, answer="female", resamples=20, permutations=99)
    assert found.design.levels == expected.design.levels
    pd.testing.assert_frame_equal(found.shares, expected.shares)
    assert found.notes == ((f"labels.csv: {note}",) if note else ())
    assert note is None or (note in repr(found) and note in unescape(found.report(thumbnails=0)))


def test_pictures_are_read_by_their_content(tmp_path):
    table = nurses("nurse", "pilot")
    write_pictures(tmp_path, table)
    kinds = {
        "jfif": "jpeg",
        "avif": "avif",
        "GIF": "gif",
        "JPG": "png",
        "webp": "webp",
        "tif": "tiff",
        "bmp": "bmp",
    }
    for (ending, kind), name in zip(kinds.items(), table["file"]):
        with Image.open(tmp_path / name) as image:
            image.save(tmp_path / f"{name[:-4]}.{ending}", kind)
        (tmp_path / name).unlink()
        table["file"] = table["file"].replace(name, f"{name[:-4]}.{ending}")
    (tmp_path / "chart.eps").write_text("%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n")
    (tmp_path / "notes.txt").write_text("of people")
    table.to_csv(tmp_path / "labels.csv", index=False)
    found = audit(tmp_path, tmp_path / "labels.csv", answer="female")
    assert found.pictures["image"].tolist() == table["file"].tolist()
    assert found.report().count("data:image/jpeg") == 12
    (line,) = found.notes
    assert line.startswith(f"{tmp_path}: 2 not read, no PNG, ") and line.endswith("chart.eps, notes.txt")
    broken = table["file"][11]
    (tmp_path / broken).write_bytes(b"\x89PNG and no more")
    with pytest.raises(UserError, match=f"line 13: expected a picture '{broken}' .* found no image in it"):
        audit(tmp_path, tmp_path / "labels.csv", answer="female")
    found = audit(tmp_path, tmp_path / "labels.csv", answer="female", partial=True)
    assert found.notes[0].endswith("chart.eps, notes.txt, pilot_5.png")
    assert found.notes[1] == "left out: 1 label without a picture, 0 pictures without a label"


def test_a_rater_has_one_name(tmp_path):
    table = nurses("nurse", "pilot")
    two = pd.concat([table.assign(annotator=name) for name in ("rater1", "rater2")], ignore_index=True)
    assert audited(tmp_path, two).agreement["annotators"][0] == 2  # which one letter parts
    written = two.assign(annotator=two["annotator"].mask(two.index % 24 < 5, "Rater1"))
    with pytest.raises(
        UserError, match=r"line 2: expected an annotator .*'Rater1' \(5 times\), near 'rater1': --merge R"
    ):
        audited(tmp_path, written)
    merged = audited(tmp_path, written, merge={"Rater1": "rater1"})
    pd.testing.assert_frame_equal(merged.agreement, audited(tmp_path, two).agreement)
    assert audited(tmp_path, written, merge={"Rater1": "Rater1"}).agreement["annotators"][0] == 3
    blank = two.assign(annotator=two["annotator"].mask(two.index == 4, " "))
    with pytest.raises(UserError, match="line 6: expected the name of the annotator, found none: write it"):
        audited(tmp_path, blank)
    assert audited(tmp_path, table.assign(annotator="")).agreement.empty  # one, who has no name


def test_folders_of_windows_are_models(tmp_path):
    table = nurses("nurse", "pilot")
    table["file"] = [f"{model}/{file}" for model, file in zip(["flux", "sdxl"] * 6, table["file"])]
    expected = audited(tmp_path, table)
    path = tmp_path / "labels.csv"
    path.write_text(path.read_text().replace("/", "\\"))
    (tmp_path / table["file"][3]).unlink()
    found = audit(tmp_path, path, answer="female", partial=True)
    assert found.design.levels == expected.design.levels and len(found.pictures) == 11


def test_raters_who_share_no_picture_have_no_alpha_and_a_reason(tmp_path):
    found = audited(tmp_path, nurses("nurse", "pilot", annotator=["r1", "r2"] * 6))
    assert (
        np.isnan(found.agreement["alpha"][0])
        and found.agreement["reason"][0] == "no picture with two answers"
    )


@pytest.mark.parametrize("share", ["0,25", "0.25"])
def test_shares_to_compare_with_may_have_a_decimal_comma(tmp_path, share):
    other = tmp_path / "world.csv"
    other.write_text(f"Profession;Share;n\nnurse;{share};1500\npilot;{share};\n")
    found = audited(tmp_path / "pictures", nurses("nurse", "pilot"), against=other)
    assert found.design.reference == {"nurse": 0.25, "pilot": 0.25} and found.design.reference_n == {
        "nurse": 1500
    }
    other.write_text("profession;share;n\nnurse;0,25;1,500\npilot;0,5;\n")
    with pytest.raises(
        UserError, match=r"world\.csv: line 2: expected numbers as 0\.5 or 1500 in `n`, got '1,500'"
    ):
        audited(tmp_path / "pictures", nurses("nurse", "pilot"), against=other)
