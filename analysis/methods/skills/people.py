"""People judge images of a run whose prompts ask for skills: accuracy by people beside the detector's.

Cho et al. 2023 (DALL-Eval, Table 3) have people say of images whether the object, the number of objects or the relation
is the one that was asked for, and give their accuracy by skill beside that of the detector. `triptych labels` asks
openly (*How many dogs are there?*), so that nobody is told what was asked for.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd

from analysis.methods.skills.scores import ACCURACY, INVERSE, TASKS
from analysis.methods.skills.tables import ALL, ScoredImages, image_table, rate
from analysis.questions import people_questions
from analysis.tables.objects.human_answers import LABELS
from probes.config.measurement import Skills
from probes.prompts.paintskills import SkillRequest
from probes.runs.run import Run

VERSION = "skills_answers/1"
DETECTOR = "the detector"
ONE_ANSWER = "one answer only"


def answered_images(run: Run, scored: ScoredImages) -> pd.DataFrame:
    """Return people's answers about images of a run, with what the detector says of each.

    ``sample_id``, ``triplet``, ``skill``, ``annotator``, and ``said`` and ``detected`` (1: the image shows what was
    asked for, 0, or NaN).
    """
    questions = {one.key: one for one in people_questions(run.config)}
    requests = dict(zip(scored.samples["sample_id"], scored.requests))
    answers = run.table(LABELS)
    said = [
        _fits(requests[row.sample_id], questions[row.question].read(str(row.answer)), scored.rules)
        for row in answers.itertuples()
    ]
    answers = answers[["sample_id"]].assign(annotator=answers["annotator"].fillna(""), said=said)
    images = image_table(scored)[["sample_id", "triplet", "skill", ACCURACY]]
    return answers.merge(images.rename(columns={ACCURACY: "detected"}), on="sample_id")


def _fits(one: SkillRequest, reading: str | None, rules: Skills) -> float:
    """Whether an answer to an open question says that the image shows what was asked for; NaN where it is undecided."""
    if reading is None:
        return np.nan
    if one.skill == "object":
        return float(reading == "yes")
    if one.skill == "count":
        return float(int(reading) >= one.count if rules.count == "at_least" else int(reading) == one.count)
    both_ways = {INVERSE[one.relation]} if one.object == one.object_b else set()
    return float(reading in {one.relation, *both_ways})


def people_table(answers: pd.DataFrame, level: float) -> pd.DataFrame:
    """Return how often people say that an image shows what was asked for, beside the detector and one another.

    ``value`` is an annotator's accuracy, as in the paper's Table 3, and ``other`` that of whom it stands ``beside``,
    over the same ``n`` images: those that both decided. Its interval is Wilson's with the effective size over prompts
    (`analysis.stats.proportions.effective`); ``same``: how often both say the same; ``kappa`` is Cohen's.
    """
    keys = ["sample_id", "triplet", "skill"]
    people, rows = list(dict.fromkeys(answers["annotator"])), []
    table = answers.pivot(index=keys, columns="annotator", values="said")
    table[DETECTOR] = answers.drop_duplicates("sample_id").set_index(keys)["detected"]
    table = table.reset_index()
    skills = [skill for skill in TASKS if (table["skill"] == skill).any()]
    for skill in (*skills, *([ALL] if len(skills) > 1 else [])):
        own = table[table["skill"].isin([skill] if skill != ALL else skills)]
        for one, other in (*((name, DETECTOR) for name in people), *combinations(people, 2)):
            rows.append(
                {"skill": skill, "annotator": one, "beside": other, **_beside(own, one, other, level)}
            )
    return pd.DataFrame(rows).assign(version=VERSION)


def _beside(images: pd.DataFrame, one: str, other: str, level: float) -> dict[str, object]:
    """An annotator beside another or the detector, over the images that both decided."""
    from sklearn.metrics import cohen_kappa_score  # a run without answers does without

    both = images[images[[one, other]].notna().all(axis=1)]
    varied = len(set(both[one]) | set(both[other])) > 1
    numbers = rate(both, one, level)
    return {
        **numbers,
        "other": both[other].mean(),
        "same": (both[one] == both[other]).mean(),
        "kappa": cohen_kappa_score(both[one], both[other]) if varied else np.nan,
        "undecided": len(images) - len(both),
        "reason": numbers["reason"] or ("" if varied else ONE_ANSWER),
    }
