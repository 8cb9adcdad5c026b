"""People judge images of a run whose prompts ask for skills: accuracy by people beside the detector's.

Cho et al. 2023 (DALL-Eval, Table 3) have people say of images whether the object, the number of objects or the relation
is the one that was asked for, and give their accuracy by skill beside that of the detector. Two ways lead here.
`triptych labels` shows statements, that of the image's own prompt among others of the skill, so that nobody is
told which was asked for; with `--about questions` it asks openly (*How many dogs are there?*).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.methods.skills.detections import read_scored_images
from analysis.methods.skills.scores import ACCURACY, INVERSE, TASKS, scene_of
from analysis.methods.skills.tables import ALL, PEOPLE_COLUMNS, image_table, rate
from analysis.questions import people_questions
from analysis.report.format import counted
from analysis.studies.human_check.labels import read_labels, together
from analysis.studies.human_check.method import PeopleCheck
from analysis.studies.human_check.sheet import STATEMENTS, render_sheet
from analysis.tables.objects.human_answers import LABELS as ANSWERS
from analysis.tables.registry import write
from probes.config.measurement import Skills
from probes.errors import UserError
from probes.prompts.paintskills import SkillRequest, requested_skills, statement
from probes.prompts.prompt import asks_for_skills
from probes.runs.parts import write_bytes
from probes.runs.run import Run

VERSION = "skills_people/2"
DETECTOR = "the detector"
CHOICE_STREAM = 31  # one seed draws nothing twice
STATED = 3  # statements beside that of the prompt, where nobody says how many
UNCLEAR = "unclear"
ONE_ANSWER = "one answer only"


def choose_statements(run: Run, *, images: int, extra: int, seed: int) -> pd.DataFrame:
    """Return some images, as many of each skill, and the statements that people tick where they are true.

    Every prompt of a skill comes once before any comes twice. The `extra` statements beside that of the prompt are
    those of other prompts of the skill, half of them of the same objects (another number, another relation) as far as
    there are. One row per image and statement: ``sample_id`` and ``object`` (the statement), images in the order in
    which they are shown, statements in alphabetical order.
    """
    rng, asked = np.random.default_rng([seed, CHOICE_STREAM]), requested_skills(run.config)
    samples = run.samples(["sample_id", "triplet", "seed"])
    samples = samples[~samples["sample_id"].isin(list(run.left_out()))]
    samples = samples.assign(skill=[asked[triplet].skill for triplet in samples["triplet"]])
    skills = [skill for skill in TASKS if (samples["skill"] == skill).any()]
    if not skills:
        raise UserError(f"{run.path}: expected images that can be read, found none: choose another run")
    if images < len(skills):
        raise UserError(
            f"--images: expected at least one of each skill ({len(skills)}), got {images}: ask for more"
        )
    samples = samples.iloc[rng.permutation(len(samples))]
    samples = samples.assign(turn=samples.groupby("triplet").cumcount()).sort_values("turn", kind="stable")
    chosen = samples.groupby("skill").head(images // len(skills))
    chosen = chosen.iloc[rng.permutation(len(chosen))]
    known = _statements(run)
    rows = []
    for sample, triplet in zip(chosen["sample_id"], chosen["triplet"]):
        own = asked[triplet]
        others = [
            (text, one)
            for text, one in known.items()
            if one.skill == own.skill and scene_of(one) != scene_of(own)
        ]
        near = [text for text, one in others if _objects(one) == _objects(own)]
        far = [text for text, one in others if _objects(one) != _objects(own)]
        few = min(len(near), max(-(-extra // 2), extra - len(far)))
        texts = {_said(own, run.config.skills), *_drawn(near, few, rng), *_drawn(far, extra - few, rng)}
        rows += [(sample, text) for text in sorted(texts)]
    return pd.DataFrame(rows, columns=["sample_id", "object"])


def _drawn(texts: Sequence[str], number: int, rng: np.random.Generator) -> list[str]:
    return [texts[place] for place in rng.permutation(len(texts))[: max(number, 0)]]


def _objects(one: SkillRequest) -> tuple[str, ...]:
    return tuple(sorted((one.object, one.object_b)))


def _said(one: SkillRequest, rules: Skills) -> str:
    return statement(one, at_least=rules.count == "at_least")


def _statements(run: Run) -> dict[str, SkillRequest]:
    """What the prompts of a run ask for, by the statement of it."""
    return {_said(one, run.config.skills): one for one in requested_skills(run.config)}


def labelled_items(run: Run, answers: pd.DataFrame) -> pd.DataFrame:
    """Return people's answers about what the images' own prompts ask for, with what the detector says of it.

    `answers` has ``annotator``, ``sample_id``, ``object`` (a statement) and ``present`` (yes, no or unclear); added are
    ``triplet``, ``skill`` and ``detected`` (1 or 0; NaN where the detector cannot judge it).
    """
    scored = read_scored_images(run)
    own = [_said(one, scored.rules) for one in scored.requests]
    images = image_table(scored).assign(object=own)[["sample_id", "object", "triplet", "skill", ACCURACY]]
    return answers.merge(images.rename(columns={ACCURACY: "detected"}), on=["sample_id", "object"])


def answered_items(run: Run) -> pd.DataFrame:
    """Return `labelled_items` of the answers to open questions (``triptych labels``)."""
    labels, asked = run.table(ANSWERS), requested_skills(run.config)
    questions = {one.key: one for one in people_questions(run.config)}
    labels = labels.merge(run.samples(["sample_id", "triplet"]), on="sample_id")
    own = [asked[triplet] for triplet in labels["triplet"]]
    readings = [questions[key].read(str(said)) for key, said in zip(labels["question"], labels["answer"])]
    answers = labels[["sample_id"]].assign(
        annotator=labels["annotator"].fillna(""),
        object=[_said(one, run.config.skills) for one in own],
        present=[_present(one, said, run.config.skills) for one, said in zip(own, readings)],
    )
    return labelled_items(run, answers)


def _present(one: SkillRequest, reading: str | None, rules: Skills) -> str:
    """Whether an answer to an open question says that the image shows what was asked for."""
    if reading is None:
        return UNCLEAR
    if one.skill == "object":
        return reading
    if one.skill == "count":
        fits = int(reading) >= one.count if rules.count == "at_least" else int(reading) == one.count
    else:
        both_ways = {INVERSE[one.relation]} if one.object == one.object_b else set()
        fits = reading in {one.relation, *both_ways}
    return "yes" if fits else "no"


def people_table(items: pd.DataFrame, level: float) -> pd.DataFrame:
    """Return how often people say that an image shows what was asked for, beside the detector and one another.

    ``value`` is an annotator's accuracy, as in the paper's Table 3, and ``other`` that of whom it stands ``beside``,
    over the same ``n`` images: those that both decided. Its interval is Wilson's with the effective size over prompts
    (`analysis.stats.rates.effective`); ``same``: how often both say the same; ``kappa`` is Cohen's.
    """
    people = list(dict.fromkeys(items["annotator"]))
    said = items["present"].map({"yes": 1.0, "no": 0.0})
    keys = ["sample_id", "triplet", "skill"]
    table = items.assign(said=said).pivot(index=keys, columns="annotator", values="said")
    table[DETECTOR] = items.drop_duplicates("sample_id").set_index(keys)["detected"]
    table, rows = table.reset_index(), []
    skills = [skill for skill in TASKS if (table["skill"] == skill).any()]
    for skill in (*skills, *([ALL] if len(skills) > 1 else [])):
        own = table[table["skill"].isin([skill] if skill != ALL else skills)]
        for one, other in (*((name, DETECTOR) for name in people), *combinations(people, 2)):
            rows.append(
                {"skill": skill, "annotator": one, "beside": other, **_beside(own, one, other, level)}
            )
    return pd.DataFrame(rows, columns=list(PEOPLE_COLUMNS)).assign(version=VERSION)


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


def _sample(run: Run, out: Path, images: int, extra: int | None, seed: int) -> str:
    chosen = choose_statements(run, images=images, extra=STATED if extra is None else extra, seed=seed)
    shown = list(dict.fromkeys(chosen["sample_id"]))
    page = render_sheet(chosen, dict(zip(shown, run.images(shown))), run.config.name, kind=STATEMENTS)
    path = out / "sheet.html"
    write_bytes(path, page.encode())
    return (
        f"{path}: {counted(len(shown), 'image')}, {counted(len(chosen), 'statement')}; open it in a browser, export,"
        f" then: triptych labels read {run.path} labels.csv"
    )


def _agreement(run: Run, files: Sequence[Path]) -> Iterator[str]:
    answers, known = together([read_labels(path, run) for path in files], files), _statements(run)
    strange = next((text for text in answers["object"] if text not in known), None)
    if strange is not None:
        raise UserError(
            f"{files[-1]}: expected statements of what the prompts of {run.path} ask for, got {strange!r:.80}:"
            " export it from the sheet of this run"
        )
    table = people_table(labelled_items(run, answers), run.config.measure.level)
    write(run, "skills_people", table)
    shown = table.drop(columns=["version", "low", "high"])
    yield shown.to_string(index=False, float_format=lambda value: f"{value:.3f}", na_rep="–")
    yield f"wrote {run.path / 'tables' / 'skills_people.csv'}; triptych report {run.path} puts it on the page"


CHECK = PeopleCheck(alone=asks_for_skills, sample=_sample, agreement=_agreement)
