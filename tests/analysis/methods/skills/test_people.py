"""People's check of a run whose prompts ask for skills, by the command line: what is asked, and what is made of it."""

import csv
import json
import re

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import cohen_kappa_score
from statsmodels.stats.proportion import proportion_confint

from analysis.methods.skills.people import people_table
from analysis.observe.stage import observe
from analysis.report.page import report
from analysis.studies.human_check.labels import LABELS, fingerprint
from analysis.studies.labelling import FILE
from analysis.tables.registry import TABLES
from analysis.tables.stage import measure
from probes.prompts import paintskills
from probes.runs.run import Run
from tests.analysis.methods.skills.conftest import WRONG
from tests.analysis.synthetic_run import configure
from triptych.cli.main import command

labels = command("labels")


@pytest.fixture(scope="module")
def observed(run):
    observe(run, progress=False)
    return Run.open(run.path)


def cards(path):
    page = path.read_text(encoding="utf-8")
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)[1]
    return page, json.loads(data)["cards"]


def of_sample(run):
    """What each image shows: what was asked for, but for the prompt whose images are another's."""
    asked = paintskills.requested_skills(run.config)
    samples = run.samples(["sample_id", "triplet"])
    triplets = zip(samples["sample_id"], samples["triplet"])
    return {one: (asked[t], asked[t + 9] if t == WRONG else asked[t]) for one, t in triplets}


def answers_file(run, shown, path, annotator, mistakes):
    """Labels by what the renderings show, turned round where `mistakes` says so."""
    rows, number = [LABELS], 0
    for card in shown:
        _, seen = of_sample(run)[card["id"]]
        fits = {paintskills.statement(seen)}
        if seen.skill == "spatial":
            turned = {"above": "below", "below": "above", "left": "right", "right": "left"}[seen.relation]
            other = paintskills.SkillRequest("spatial", seen.object_b, object_b=seen.object, relation=turned)
            fits.add(paintskills.statement(other))
        for text in card["objects"]:
            said = (text in fits) != (number in mistakes)
            rows.append((annotator, card["id"], card["print"], text, "yes" if said else "no"))
            number += 1
    path.write_text("\n".join(",".join(row) for row in rows) + "\n", encoding="utf-8")
    return str(path)


def test_answers_are_held_against_the_detector(observed, tmp_path, capsys):
    labels(["sheet", str(observed.path), "--out", str(tmp_path), "--images", "90", "--seed", "2"])
    _, shown = cards(tmp_path / "sheet.html")
    truth, texts = of_sample(observed), [(card["id"], text) for card in shown for text in card["objects"]]
    own = [n for n, (sample, text) in enumerate(texts) if text == paintskills.statement(truth[sample][0])]
    mistakes = {0, 5, *own[3:8]} - {*own[:3]}
    files = [
        answers_file(observed, shown, tmp_path / f"{name}.csv", name, wrong)
        for name, wrong in (("A", set()), ("B", mistakes))
    ]
    assert labels(["read", str(observed.path), *files]) == 0
    assert "skills_people.csv" in capsys.readouterr().out
    table = Run.open(observed.path).table("skills_people")
    assert list(table.columns) == list(TABLES["skills_people"].columns)
    rows = table[table["skill"] == "all"].set_index(["annotator", "beside"])
    # the renderings are read without error: one who sees what is there agrees with the detector everywhere
    assert (table.loc[(table["annotator"] == "A") & (table["beside"] == "the detector"), "same"] == 1).all()
    first = rows.loc["A", "the detector"]
    wrong = sum(f"t{WRONG:05d}" in card["id"] for card in shown)
    assert first["n"] == len(own) == 90 and first["value"] == first["other"] == 1 - wrong / 90
    missed = len(mistakes & {*own})
    assert rows.loc["B", "the detector"]["same"] == rows.loc["A", "B"]["same"] == 1 - missed / 90
    measure(observed)
    page = report(configure(Run.open(observed.path), report={"figures": False})).read_text(encoding="utf-8")
    assert "What people say of some of the images" in page and "Nobody has looked" not in page


def test_labels_of_another_sheet_are_refused(observed, tmp_path, capsys):
    sample = next(iter(of_sample(observed)))
    row = ("A", sample, fingerprint(observed.image(sample)), "exactly 9 dogs are there", "yes")
    path = tmp_path / "labels.csv"
    path.write_text(",".join(LABELS) + "\n" + ",".join(row) + "\n")
    assert labels(["read", str(observed.path), str(path)]) == 2
    assert "expected statements of what the prompts of" in capsys.readouterr().err


def test_open_questions_are_those_of_the_skill_and_are_measured(observed, tmp_path, capsys):
    out = tmp_path / "sheet"
    assert (
        labels(["sheet", str(observed.path), "--about", "questions", "--out", str(out), "--images", "12"])
        == 0
    )
    with open(out / FILE, newline="", encoding="utf-8") as file:
        sheet = list(csv.DictReader(file))
    assert len(sheet) == 36 and {row["question"] for row in sheet} == set(paintskills.SKILLS)
    assert not any("wear" in row["asked"] or "male" in row["asked"] for row in sheet)
    truth, wrong = of_sample(observed), 0
    for row in sheet:
        asked, seen = truth[row["sample_id"]]
        assert row["question"] == asked.skill and row["asked"] == paintskills.question(asked)
        assert row["answers"].endswith("unclear")
        row["annotator"] = "A"
        row["answer"] = {"object": "yes", "count": str(seen.count), "spatial": seen.relation}[asked.skill]
        wrong += asked != seen
    number = next(place for place, row in enumerate(sheet) if row["question"] == "count")
    sheet[number]["answer"] = "seven"
    with open(out / FILE, "w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, sheet[0])
        table.writeheader()
        table.writerows(sheet)
    assert labels(["read", str(observed.path), str(out / FILE)]) == 0
    measure(Run.open(observed.path))
    rows = Run.open(observed.path).table("skills_answers").set_index("skill")
    assert rows.loc["count", "value"] == pytest.approx(11 / 12) and rows.loc["count", "other"] == 1
    assert rows.loc["spatial", "same"] == 1 and rows.loc["all", "n"] == 36
    sheet[number]["answer"] = "many"
    with open(out / FILE, "w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, sheet[0])
        table.writeheader()
        table.writerows(sheet)
    capsys.readouterr()
    assert labels(["read", str(observed.path), str(out / FILE)]) == 2
    assert "or unclear, got 'many': correct it" in capsys.readouterr().err


def test_rates_are_those_of_other_libraries():
    rng = np.random.default_rng(3)
    n = 60
    present, detected = rng.random(n) < 0.6, rng.random(n) < 0.5
    items = pd.DataFrame(
        {
            "annotator": "A",
            "sample_id": [f"s{row}" for row in range(n)],
            "object": "a dog is there",
            "triplet": range(n),
            "skill": "object",
            "present": np.where(present, "yes", "no"),
            "detected": detected.astype(float),
        }
    )
    items.loc[0, "present"], items.loc[1, "detected"] = "unclear", np.nan
    (row,) = people_table(items, 0.95).to_dict("records")
    kept = slice(2, None)
    assert row["kappa"] == pytest.approx(cohen_kappa_score(present[kept], detected[kept]))
    assert row["same"] == pytest.approx((present[kept] == detected[kept]).mean())
    expected = proportion_confint(int(present[kept].sum()), n - 2, method="wilson")
    # one image a prompt: the effective size is that of a cluster variance, n - 1
    assert (row["low"], row["high"]) == pytest.approx(expected, abs=0.01)
    assert (row["n"], row["undecided"]) == (n - 2, 2)
    assert row["value"] == pytest.approx(present[kept].mean())
