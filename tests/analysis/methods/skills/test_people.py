"""People's check of a run whose prompts ask for skills, by the command line: what is asked, and what is made of it."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import cohen_kappa_score
from statsmodels.stats.proportion import proportion_confint

from analysis.methods.skills.people import people_table
from analysis.observe.stage import observe
from analysis.report.page import report
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


def of_sample(run):
    """What each image shows: what was asked for, but for the prompt whose images are another's."""
    asked = paintskills.requested_skills(run.config)
    samples = run.samples(["sample_id", "triplet"])
    triplets = zip(samples["sample_id"], samples["triplet"])
    return {one: (asked[t], asked[t + 9] if t == WRONG else asked[t]) for one, t in triplets}


def test_open_questions_are_those_of_the_skill_and_are_measured(observed, tmp_path, capsys):
    assert labels(["sheet", str(observed.path), "--out", str(tmp_path), "--images", "12"]) == 0
    page = (tmp_path / "sheet.html").read_text("utf-8")
    cards = json.loads(page.partition('id="data">')[2].partition("</script>")[0])["cards"]
    truth, wrong, rows = of_sample(observed), 0, []
    for card in cards:
        (question,) = card["questions"]
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
    assert table.loc["count", "value"] == pytest.approx(11 / 12) and table.loc["count", "other"] == 1
    assert table.loc["spatial", "same"] == 1 and table.loc["all", "n"] == 36
    assert list(table.reset_index().columns) == list(TABLES["skills_answers"].names)
    page = report(configure(Run.open(observed.path), report={"figures": False})).read_text(encoding="utf-8")
    assert "What people say of some of the images" in page and "Nobody has looked" not in page


def test_rates_are_those_of_other_libraries():
    rng = np.random.default_rng(3)
    n = 60
    present, detected = rng.random(n) < 0.6, rng.random(n) < 0.5
    answers = pd.DataFrame({"sample_id": range(n), "triplet": range(n), "skill": "object", "annotator": "A"})
    answers = answers.assign(said=present.astype(float), detected=detected.astype(float))
    answers.loc[0, "said"], answers.loc[1, "detected"] = np.nan, np.nan
    (row,) = people_table(answers, 0.95).to_dict("records")
    kept = slice(2, None)
    assert row["kappa"] == pytest.approx(cohen_kappa_score(present[kept], detected[kept]))
    assert row["same"] == pytest.approx((present[kept] == detected[kept]).mean())
    expected = proportion_confint(int(present[kept].sum()), n - 2, method="wilson")
    # one image a prompt: the effective size is that of a cluster variance, n - 1
    assert (row["low"], row["high"]) == pytest.approx(expected, abs=0.01)
    assert (row["n"], row["undecided"]) == (n - 2, 2)
    assert row["value"] == pytest.approx(present[kept].mean())
