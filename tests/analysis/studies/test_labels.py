"""The labelling sheet and what is made of its answers, up to a browser that is driven by a script."""

import json
import re
import shutil
import subprocess

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import cohen_kappa_score

from analysis.studies.labels.command import FORM, read_files, render_sheet
from analysis.studies.labels.detector import (
    AGREED,
    PERSON,
    annotator_agreement,
    choose_questions,
    human_counts,
    labelled_items,
)
from analysis.studies.labels.form import fingerprint
from analysis.studies.labels.nouns import noun_agreement
from analysis.studies.labels.objects import OBJECTS
from analysis.tables.registry import TABLES, write
from probes.errors import UserError
from probes.runs import parts, schemas
from probes.runs.run import Run
from tests.analysis.synthetic_objects import add_objects
from tests.analysis.synthetic_run import write_run
from triptych.cli.main import command as command_of

main = command_of("labels")

NAMES = ["neutral", "feminine", "masculine"]


def tables_of(run):
    """Tables `nouns` and `objects`, as far as the check reads them."""
    people = {"person", "woman", "man", "individual", "human"}
    samples, found = run.samples(), run.read("objects")
    rows = [
        (t, name, word, word in people)
        for t, name, words in zip(samples["triplet"], samples["indicator"], samples["words"])
        for word in words
        if word not in ("a", "an", "with", "in", "the")
    ]
    nouns = pd.DataFrame(rows, columns=["triplet", "indicator", "lemma", "human"]).drop_duplicates()
    objects = found.rename(columns={"label": "lemma"}).assign(human=found["label"].isin(people))
    return nouns, objects


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Run:
    options = {"prompts": 8, "seeds": 2, "steps": 2}
    path = write_run(tmp_path_factory.mktemp("check") / "run", **options)
    run = Run.open(add_objects(path, missed=0.4, **options))
    for name, table in zip(("nouns", "objects"), tables_of(run)):
        write(run, name, table.reindex(columns=list(TABLES[name].columns)))
    return run


@pytest.fixture(scope="module")
def questions(run) -> pd.DataFrame:
    return choose_questions(run, 32, seed=3)


def labels_csv(run, questions, path, answers, annotator="A"):
    prints = questions["sample_id"].map(
        {s: fingerprint(run.image(s)) for s in questions["sample_id"].unique()}
    )
    rows = zip(questions["sample_id"], questions["question"], answers, prints, strict=True)
    lines = [",".join((s, "objects", what, said, annotator, mark)) for s, what, said, mark in rows]
    path.write_text("\n".join([",".join(FORM), *lines]) + "\n", encoding="utf-8")
    return path


def read_labels(run, *paths):
    return read_files(run, paths)[1]


# The choice


def test_choice_is_balanced_and_asks_the_same_of_all_indicators(questions):
    images = questions.drop_duplicates("sample_id")
    assert images["indicator"].value_counts().to_dict() == dict.fromkeys(
        NAMES, 10
    )  # 32 are ten whole triplets
    for _, draw in questions.groupby(["triplet", "seed"]):
        asked = [tuple(rows["question"]) for _, rows in draw.groupby("indicator")]
        assert len(set(asked)) == 1 and list(asked[0]) == sorted(asked[0])
    first = images.drop_duplicates(["triplet", "seed"]).groupby("triplet").size()
    assert set(first) <= {1, 2} and len(first) == 8  # every prompt once before any twice


def test_questions_hold_nouns_found_and_others(run, questions):
    nouns, objects = run.table("nouns"), run.table("objects")
    labels = questions[["sample_id"]].assign(annotator="A", object=questions["question"], present="yes")
    items = labelled_items(labels, run.samples(), nouns, objects)
    assert set(items["asked"]) == {"prompt", "found", "other"}
    others = items[items["asked"] == "other"].groupby("sample_id").size()
    assert (others >= 2).all() and len(others) == 30
    assert not items.loc[items["asked"] == "other", "detected"].any()
    assert PERSON in set(items["object"]) and not {"woman", "man"} & set(items["object"])


def test_choice_follows_the_seed_and_can_fail(run, questions):
    assert choose_questions(run, 32, seed=3).equals(questions)
    assert not choose_questions(run, 32, seed=4).equals(questions)
    with pytest.raises(UserError, match="--images: expected at least one of each indicator"):
        choose_questions(run, 2)


# The answers


def test_rates_follow_a_perfect_annotator(run, questions, tmp_path):
    """The annotator sees what is there; the detector missed 40 % of it on feminine prompts."""
    truth = run.read("objects")[["sample_id", "label"]]
    words = {"person", "woman", "man"}
    there = {(s, PERSON if label in words else label) for s, label in truth.itertuples(index=False)}
    answers = ["yes" if key in there else "no" for key in zip(questions["sample_id"], questions["question"])]
    path = labels_csv(run, questions, tmp_path / "a.csv", answers)
    items = labelled_items(read_labels(run, path), run.samples(), run.table("nouns"), run.table("objects"))
    assert (items["detected"] == (items["present"] == "yes")).all()
    items.loc[(items["object"] == "cup") & (items["indicator"] == "feminine"), "present"] = "yes"
    options = {"indicators": NAMES, "contrasts": [("masculine", "feminine")], "resamples": 300}
    table = annotator_agreement(items, **options).set_index(["quantity", "object", "indicator"])
    assert table.loc[("recall", "all", "masculine"), "value"] == 1.0
    row = table.loc[("recall", "cup", "feminine")]
    own = items[(items["object"] == "cup") & (items["indicator"] == "feminine")]
    assert row["value"] == own["detected"].mean() < 1 and row["n"] == len(own)
    gap = table.loc[("recall", "all", "masculine-feminine")]
    assert gap["value"] > 0 and gap["low"] < gap["value"] < gap["high"]


def test_two_annotators_have_a_kappa(run, questions, tmp_path):
    rng = np.random.default_rng(0)
    answers = rng.choice(["yes", "no", "unclear"], p=[0.4, 0.5, 0.1], size=(2, len(questions)))
    answers[1] = np.where(rng.random(len(questions)) < 0.7, answers[0], answers[1])
    files = [labels_csv(run, questions, tmp_path / f"{n}.csv", own, n) for n, own in zip("AB", answers)]
    labels = read_labels(run, *files)
    items = labelled_items(labels, run.samples(), run.table("nouns"), run.table("objects"))
    table = annotator_agreement(items, indicators=NAMES, contrasts=[], resamples=300)
    kappa = table[table["quantity"] == "kappa"].set_index("indicator")
    assert kappa.loc["all", "value"] == pytest.approx(cohen_kappa_score(*answers))
    assert kappa.loc["all", "low"] < kappa.loc["all", "value"] < kappa.loc["all", "high"]
    assert kappa.loc["all", "n"] == len(questions) and set(kappa.index) == {"all", *NAMES}
    agreed = table[(table["annotator"] == AGREED) & (table["object"] == "all")].set_index("quantity")
    both = (answers[0] == answers[1]) & (answers[0] == "yes")
    assert agreed.loc["recall"].set_index("indicator").loc["all", "n"] == both.sum()


def test_command_line(run, questions, tmp_path, capsys):
    assert main(["sheet", str(run.path), "--images", "9", "--out", str(tmp_path)]) == 0
    assert "about 9 images; open it in a browser" in capsys.readouterr().out
    assert "<img" in (tmp_path / "sheet.html").read_text(encoding="utf-8")
    rng = np.random.default_rng(1)
    answers = rng.choice(["yes", "no", "unclear"], size=(2, len(questions)))
    files = [labels_csv(run, questions, tmp_path / f"{n}.csv", own, n) for n, own in zip("AB", answers)]
    assert main(["read", str(run.path), *map(str, files)]) == 0
    shown = capsys.readouterr().out
    assert "kappa" in shown and "masculine-feminine" in shown and AGREED in shown
    assert (
        "Wu et al. 2025" in shown and "65.61" in shown and "people alone saw woman (10), street (7)" in shown
    )
    table = run.table("human_check")
    assert {"recall", "precision", "kappa"} == set(table["quantity"])
    assert main(["read", str(run.path), str(files[0]), str(files[0])]) == 2
    error = capsys.readouterr().err
    assert f"{files[0]}: line 2: expected one label of 'A' for " in error and "rename the annotator" in error
    kept = run.table("object_labels")
    other = labels_csv(run, questions, tmp_path / "other.csv", ["yes"] * len(questions), "A")
    assert main(["read", str(run.path), str(other)]) == 2
    assert (
        "other.csv: line 2: expected the label that 'A' gave before, got another" in capsys.readouterr().err
    )
    assert main(["read", str(run.path), str(other), "--replace"]) == 0
    now = run.table("object_labels")
    assert len(now) == len(kept) and (now.loc[now["annotator"] == "A", "present"] == "yes").all()
    unchanged = [table[table["annotator"] == "B"].reset_index(drop=True) for table in (kept, now)]
    pd.testing.assert_frame_equal(*unchanged)


def test_unreadable_images_are_not_shown(tmp_path, capsys):
    options = {"prompts": 2, "seeds": 1, "steps": 2}
    run = Run.open(add_objects(write_run(tmp_path / "run", **options), **options))
    for name, table in zip(("nouns", "objects"), tables_of(run)):
        write(run, name, table.reindex(columns=list(TABLES[name].columns)))
    observed = run.read("observed")
    file, command = (
        run.parts("observed")[0],
        ["sheet", str(run.path), "--images", "9", "--out", str(tmp_path)],
    )
    for triplet, status in (("t00001", 0), ("t00000", 2)):
        observed.loc[observed["sample_id"] == f"{triplet}-s0-neutral", "status"] = "unreadable"
        parts.write_part(file, observed.to_dict("records"), schemas.OBSERVED, parts.identity(0, {}))
        assert main(command) == status
    sheet = (tmp_path / "sheet.html").read_text(encoding="utf-8")
    assert "t00000-s0-neutral" in sheet and "t00001" not in sheet  # the rest of its triplet is left out too
    assert "expected triplets with images of neutral, feminine, masculine, found" in capsys.readouterr().err


@pytest.mark.parametrize(
    "spoil, line",
    [
        (lambda t: "", "expected a column `image`, found none"),
        (lambda t: t.replace(",A,", ",,", 1), "line 2: expected the name of the annotator, found none"),
        (lambda t: t.replace(",A,", ",a,", 1), "line 2: expected an annotator spelled as elsewhere, got 'a' (1 times)"),
        (lambda t: t.splitlines()[0] + "\n", "expected a row for each label, found none"),
        (lambda t: t.replace(",yes", ",maybe", 1), "line 2: expected yes, no or unclear, got 'maybe'"),
        (lambda t: t.replace(",objects", ",attributes", 1), "expected prompts with contexts for labels about"),
        (lambda t: t.replace(",objects", ",hats", 1), "about: expected a kind of labels, got 'hats'"),
        (lambda t: t.replace("\n", "\nt0,objects,hat,yes,A,\n", 1), "line 2: expected an image of "),
        (lambda t: t + t.splitlines()[1].replace("objects", "questions"), "expected labels about objects, got one"),
        (lambda t: t[: t.rindex(",")], "expected 6 fields"),
        (lambda t: t + t.splitlines()[1], "expected one label of 'A' for "),
        (lambda t: re.sub(r"(A,\w+)\w\n", r"\1x\n", t), "got another as 't0000"),
        (lambda t: t.replace("t0", '"t0', 1), "expected a CSV file, got a damaged one"),
    ],
)  # fmt: skip
def test_damaged_or_foreign_labels_give_one_line(run, questions, tmp_path, capsys, spoil, line):
    path = labels_csv(run, questions, tmp_path / "labels.csv", ["yes"] * len(questions))
    path.write_text(spoil(path.read_text()))
    assert main(["read", str(run.path), str(path)]) == 2
    error = capsys.readouterr().err
    assert line in error and error.count("\n") == 1 and str(path) in error


# The sheet


@pytest.fixture(scope="module")
def sheet(run, questions) -> str:
    chosen = list(dict.fromkeys(questions["sample_id"]))
    return render_sheet(questions, dict(zip(chosen, run.images(chosen))), "a run & <b>its name</b>", OBJECTS)


def test_sheet_is_blind_and_loads_nothing(run, questions, sheet):
    assert "://" not in sheet and "<b>its" not in sheet and "default-src 'none'" in sheet
    data = json.loads(sheet.partition('id="data">')[2].partition("</script>")[0])
    assert [card["id"] for card in data["cards"]] == list(dict.fromkeys(questions["sample_id"]))
    assert set(data["cards"][0]) == {"id", "print", "source", "width", "height", "questions"}
    # the same sheet whatever the detector said of single images
    visible = re.sub(r"<script.*?</script>", "", sheet, flags=re.S).lower()
    assert not {"feminine", "masculine", "woman"} & set(re.findall(r"\w+", visible))


DRIVER = """
<script>
window.addEventListener("load", () => setTimeout(async () => {
  const press = (code, more = {}) => document.activeElement.dispatchEvent(
    new KeyboardEvent("keydown", { code, key: more.key || code, bubbles: true, cancelable: true, ...more }));
  const wait = () => new Promise((done) => setTimeout(done, 20));
  document.getElementById("export").click();
  const refused = document.getElementById("message").textContent;
  const name = document.getElementById("annotator");
  name.value = 'An "X", B'; name.dispatchEvent(new Event("input", { bubbles: true }));
  document.querySelector("#questions input").focus();
  press("Digit2"); press("Digit3", { shiftKey: true }); press("Digit1"); press("Digit1");
  press("ArrowDown", { key: "ArrowDown" });
  const focus = document.activeElement.id;
  press("Enter", { key: "Enter" }); await wait();
  document.querySelectorAll("#questions input")[3].click();
  document.getElementById("next").click(); await wait();
  press("ArrowLeft", { key: "ArrowLeft" }); await wait();
  const back = document.getElementById("state").textContent;
  document.getElementById("export").click();
  const kept = JSON.parse(localStorage.getItem(Object.keys(localStorage)[0]));
  const out = document.createElement("pre");
  out.id = "out";
  out.textContent = JSON.stringify({ csv: document.getElementById("csv").textContent, refused, focus, back, kept,
    count: document.getElementById("count").textContent });
  document.body.append(out);
}, 100));
</script>
"""


@pytest.mark.skipif(not shutil.which("chromium"), reason="chromium is not installed")
def test_sheet_in_a_browser(run, questions, sheet, tmp_path):
    (tmp_path / "sheet.html").write_text(sheet.replace("</body>", DRIVER + "</body>"), encoding="utf-8")
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
    options += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
    options += [f"--user-data-dir={tmp_path / 'profile'}", "--enable-logging=stderr", "--dump-dom"]
    options += ["--virtual-time-budget=3000", (tmp_path / "sheet.html").as_uri()]
    shown = subprocess.run(["chromium", *options], capture_output=True, text=True, timeout=300)
    assert "CONSOLE" not in shown.stderr
    text = shown.stdout.partition('<pre id="out">')[2].partition("</pre>")[0]
    found = json.loads(text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))
    assert found["refused"].startswith("First give a name") and found["focus"] == "question-1"
    assert found["count"] == "2 of 30 done" and found["back"] == "Image 2 of 30: done"
    assert len(found["kept"]["answers"]) == 3 and found["kept"]["annotator"] == 'An "X", B'
    path = tmp_path / "labels.csv"
    path.write_text(found["csv"], encoding="utf-8")
    labels = read_labels(run, path)
    assert set(labels["annotator"]) == {'An "X", B'}
    images = list(dict.fromkeys(questions["sample_id"]))[:2]
    asked = [list(questions.loc[questions["sample_id"] == image, "question"]) for image in images]
    expected = [[image, what, "no"] for image, own in zip(images, asked) for what in own]
    expected[1][2], expected[2][2], expected[len(asked[0]) + 3][2] = "yes", "unclear", "yes"
    assert labels[["sample_id", "object", "present"]].to_numpy().tolist() == expected


def test_counts_are_weighted_as_the_run_is():
    """Asked of a hat: one draw of one where it was detected, one of three where it was not."""
    samples = pd.DataFrame({"triplet": range(4), "seed": 0, "indicator": "f", "sample_id": list("abcd")})
    objects = pd.DataFrame({"triplet": [0], "seed": [0], "object": [0], "lemma": ["hat"], "human": [False]})
    nouns = pd.DataFrame({"triplet": [], "lemma": [], "human": []})
    rows = [("A", "a", 0, "hat", "no", True, "found"), ("A", "b", 1, "hat", "yes", False, "other")]
    rows += [("A", "c", 2, "hat", "unclear", False, "other")]
    names = ["annotator", "sample_id", "prompt", "object", "present", "detected", "asked"]
    items = pd.DataFrame(rows, columns=names).assign(seed=0, indicator="f")
    counts = human_counts(items, samples, nouns, objects).set_index("prompt")
    assert counts.loc[0, "false"] == pytest.approx(2 * 1 / 4) and counts.loc[0, "hits"] == 0
    assert counts.loc[1, "missed"] == pytest.approx(2 * 3 / 4)  # stands for three draws of four
    assert counts[["hits", "missed", "false", "rejected"]].to_numpy().sum() == pytest.approx(2)


# The paper's figures


def test_nouns_of_the_prompts_are_counted_as_in_the_paper(run, questions, tmp_path):
    rng = np.random.default_rng(7)
    answers = rng.choice(["yes", "no", "unclear"], size=len(questions), p=[0.5, 0.4, 0.1])
    labels = read_labels(run, labels_csv(run, questions, tmp_path / "a.csv", answers, "A"))
    nouns, objects = tables_of(run)
    table = noun_agreement(labels, run.samples(), nouns, objects).set_index(["annotator", "word"])
    said = dict(zip(zip(questions["sample_id"], questions["question"]), answers))
    expected = {}  # by hand: image by image, noun by noun
    shown = run.samples().set_index("sample_id").loc[list(dict.fromkeys(questions["sample_id"]))]
    for sample, row in shown.iterrows():
        here = set(objects.loc[objects["sample_id"] == sample, "lemma"])
        for word in set(row["words"]) - {"a", "an", "with", "in", "the"}:
            people = {"person", "woman", "man", "individual", "human"}
            answer = said[sample, PERSON if word in people else word]
            cell = "unclear" if answer == "unclear" else (answer == "yes", word in here)
            for name in ("all", word):
                counts = expected.setdefault(name, {})
                counts[cell] = counts.get(cell, 0) + 1
    names = {(True, True): "both", (False, True): "detector_only", (True, False): "people_only"}
    names |= {(False, False): "neither", "unclear": "unclear"}
    for word, counts in expected.items():
        row = table.loc[("A", word)]
        assert {name: row[name] for name in names.values()} == {
            n: counts.get(c, 0) for c, n in names.items()
        }, word
        clear = sum(number for cell, number in counts.items() if cell != "unclear")
        assert row["nouns"] == clear
        if clear:
            assert row["percent_both"] == pytest.approx(100 * counts.get((True, True), 0) / clear)
    assert {"woman", "man", "person"} <= set(expected)
    paper = table.loc["Wu et al. 2025"]
    assert paper.loc["all", ["nouns", "both", "detector_only"]].tolist() == [346, 227, 8]
    words = paper.drop("all")
    assert words["detector_only"].sum() == 8 and words.loc["woman", "people_only"] == 10
