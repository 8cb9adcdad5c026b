"""People's check of a run whose prompts ask for skills, by the command line: what is asked, and what is made of it."""

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
from analysis.studies.labels.command import FORM
from analysis.studies.labels.form import fingerprint
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
    rows, number = [FORM], 0
    for card in shown:
        _, seen = of_sample(run)[card["id"]]
        fits = {paintskills.statement(seen)}
        if seen.skill == "spatial":
            turned = {"above": "below", "below": "above", "left": "right", "right": "left"}[seen.relation]
            other = paintskills.SkillRequest("spatial", seen.object_b, object_b=seen.object, relation=turned)
            fits.add(paintskills.statement(other))
        for text in (one["key"] for one in card["questions"]):
            said = (text in fits) != (number in mistakes)
            rows.append((card["id"], "statements", text, "yes" if said else "no", annotator, card["print"]))
            number += 1
    path.write_text("\n".join(",".join(row) for row in rows) + "\n", encoding="utf-8")
    return str(path)


def test_answers_are_held_against_the_detector(observed, tmp_path, capsys):
    labels(["sheet", str(observed.path), "--out", str(tmp_path), "--images", "90", "--seed", "2"])
    _, shown = cards(tmp_path / "sheet.html")
    mistakes = {0, 5, 40, 41, 77}
    files = [
        answers_file(observed, shown, tmp_path / f"{name}.csv", name, wrong)
        for name, wrong in (("A", set()), ("B", mistakes))
    ]
    assert labels(["read", str(observed.path), *files]) == 0
    assert "skills_people.csv" in capsys.readouterr().out
    table = Run.open(observed.path).table("skills_people")
    assert list(table.columns) == list(TABLES["skills_people"].columns)
    rows = table.set_index(["annotator", "skill", "asked"])
    # the renderings are read without error: one who sees what is there agrees with the detector everywhere
    assert (table.loc[table["annotator"] == "A", "same"] == 1).all()
    own = rows.loc[("A", "all", "prompt")]
    wrong = sum(f"t{WRONG:05d}" in card["id"] for card in shown)
    assert own["n"] == 90 and own["people"] == own["detector"] == 1 - wrong / 90
    total = sum(len(card["questions"]) for card in shown)
    whole = rows.loc[("B", "all", "all")]
    assert whole["n"] == total and whole["same"] == pytest.approx(1 - len(mistakes) / total)
    between = rows.loc[("A, B", "all", "all")]
    assert between["same"] == whole["same"] and np.isnan(between["people"])
    measure(observed)
    page = report(configure(Run.open(observed.path), report={"figures": False})).read_text(encoding="utf-8")
    assert "What people say of some of the images" in page and "Nobody has looked" not in page


def test_labels_of_another_sheet_are_refused(observed, tmp_path, capsys):
    sample = next(iter(of_sample(observed)))
    row = (sample, "statements", "exactly 9 dogs are there", "yes", "A", fingerprint(observed.image(sample)))
    path = tmp_path / "labels.csv"
    path.write_text(",".join(FORM) + "\n" + ",".join(row) + "\n")
    assert labels(["read", str(observed.path), str(path)]) == 2
    assert "line 2: expected a statement of what the prompts of" in capsys.readouterr().err


def test_open_questions_are_those_of_the_skill_and_are_measured(observed, tmp_path, capsys):
    options = ["--about", "questions", "--out", str(tmp_path), "--images", "12"]
    assert labels(["sheet", str(observed.path), *options]) == 0
    _, shown = cards(tmp_path / "sheet.html")
    truth, wrong, rows = of_sample(observed), 0, []
    for card in shown:
        ((question),) = card["questions"]
        asked, seen = truth[card["id"]]
        assert question["key"] == asked.skill and question["text"] == paintskills.question(asked)
        assert (question["answers"] or ["unclear"])[-1] == "unclear"
        said = {"object": "yes", "count": str(seen.count), "spatial": seen.relation}[asked.skill]
        rows.append({"image": card["id"], "about": "questions", "question": asked.skill, "label": said})
        wrong += asked != seen
    assert len(rows) == 36 and {row["question"] for row in rows} == set(paintskills.SKILLS)
    number = next(place for place, row in enumerate(rows) if row["question"] == "count")
    file = tmp_path / "labels.csv"
    for said, status in (("seven", 0), ("many", 2)):
        rows[number]["label"] = said
        pd.DataFrame(rows).assign(annotator="A").to_csv(file, index=False)
        assert labels(["read", str(observed.path), str(file)]) == status
    assert "or unclear, got 'many': correct it" in capsys.readouterr().err
    measure(Run.open(observed.path))
    table = Run.open(observed.path).table("skills_answers").set_index("skill")
    assert table.loc["count", "people"] == pytest.approx(11 / 12) and table.loc["count", "detector"] == 1
    assert table.loc["spatial", "same"] == 1 and table.loc["all", "n"] == 36


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
            "asked": "prompt",
            "present": np.where(present, "yes", "no"),
            "detected": detected.astype(float),
            "reason": "",
        }
    )
    items.loc[0, "present"], items.loc[1, "detected"] = "unclear", np.nan
    (row,) = people_table(items, 0.95).to_dict("records")
    kept = slice(2, None)
    assert row["kappa"] == pytest.approx(cohen_kappa_score(present[kept], detected[kept]))
    same = int((present[kept] == detected[kept]).sum())
    expected = proportion_confint(same, n - 2, method="wilson")
    # one image a prompt: the effective size is that of a cluster variance, n - 1
    assert (row["same_low"], row["same_high"]) == pytest.approx(expected, abs=0.01)
    assert (row["n"], row["unclear"], row["not_judged"]) == (n - 2, 1, 1)
    assert row["people"] == pytest.approx(present[kept].mean())
