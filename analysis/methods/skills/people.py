"""People judge images of a run whose prompts ask for skills: accuracy by people beside the detector's.

Cho et al. 2023 (DALL-Eval, Table 3) have people say of images whether the object, the number of objects or the relation
is the one that was asked for, and give their accuracy by skill beside that of the detector. Two ways lead here.
`triptych labels` shows statements, that of the image's own prompt among others of the skill, so that nobody is
told which was asked for; with `--about questions` it asks openly (*How many dogs are there?*).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

import numpy as np
import pandas as pd

from analysis.methods.skills.detections import labels as object_names
from analysis.methods.skills.detections import read_scored_images, reasons
from analysis.methods.skills.scores import ACCURACY, INVERSE, TASKS, right, scene_of
from analysis.methods.skills.tables import ALL, OWN, PEOPLE_COLUMNS, rate
from analysis.questions import people_questions
from analysis.studies.labels.kind import TICKED, UNCLEAR, LabelKind, Read, ticked
from analysis.tables.objects.human_answers import LABELS as ANSWERS
from analysis.tables.objects.human_answers import OBJECT_LABELS
from analysis.tables.registry import write
from probes.config.measurement import Skills
from probes.errors import UserError
from probes.prompts.paintskills import SkillRequest, requested_skills, statement
from probes.prompts.prompt import asks_for_skills
from probes.runs.run import Run

VERSION = "skills_people/1"
CHOICE_STREAM = 31  # one seed draws nothing twice
STATED = 3  # statements beside that of the prompt, where nobody says how many
OTHER = "other"
ONE_ANSWER = "one answer only"


def choose_statements(run: Run, images: int, extra: int | None = None, seed: int = 0) -> pd.DataFrame:
    """Return some images, as many of each skill, and the statements that people tick where they are true.

    Every prompt of a skill comes once before any comes twice. The `extra` statements beside that of the prompt are
    those of other prompts of the skill, half of them of the same objects (another number, another relation) as far as
    there are. One row per image and statement, images in the order in which they are shown, statements in alphabetical
    order.
    """
    extra = STATED if extra is None else extra
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
        rows += [(sample, text, text, TICKED) for text in sorted(texts)]
    return pd.DataFrame(rows, columns=["sample_id", "question", "asked", "answers"])


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
    """Return people's answers with what the detector says of the same statement.

    `answers` has ``annotator``, ``sample_id``, ``object`` (a statement) and ``present`` (yes, no or unclear); added are
    ``triplet``, ``skill``, ``asked`` (``prompt``: the statement of the image's own prompt, or ``other``), ``detected``
    (1 or 0; NaN where the detector cannot judge it) and ``reason`` (why not).
    """
    scored, known = read_scored_images(run), _statements(run)
    place = dict(zip(scored.samples["sample_id"], range(len(scored.samples))))
    rows = np.array([place[sample] for sample in answers["sample_id"]], int)
    asked = [known[text] for text in answers["object"]]
    detected = np.full(len(answers), np.nan)
    for one in dict.fromkeys(asked):
        members = np.array([number for number, other in enumerate(asked) if other == one])
        detected[members] = right(one, scored.seen.of(rows[members]), scored.rules)[ACCURACY]
    why = np.array(reasons(run, answers, asked, object_names(run.config)), dtype=object)
    own = [_said(scored.requests[row], scored.rules) for row in rows]
    return answers.reset_index(drop=True).assign(
        triplet=scored.samples["triplet"].to_numpy()[rows],
        skill=[one.skill for one in asked],
        asked=[OWN if text == said else OTHER for text, said in zip(answers["object"], own)],
        detected=np.where(why == "", detected, np.nan),
        reason=why,
    )


def answered_items(run: Run) -> pd.DataFrame:
    """Return `labelled_items` of the answers to open questions (``triptych labels``)."""
    labels, asked = run.table(ANSWERS), requested_skills(run.config)
    questions = {one.key: one for one in people_questions(run.config)}
    triplet = run.samples(["sample_id", "triplet"]).set_index("sample_id")["triplet"]
    own = [asked[triplet[sample]] for sample in labels["sample_id"]]
    readings = [questions[key].read(str(said)) for key, said in zip(labels["question"], labels["answer"])]
    answers = pd.DataFrame(
        {
            "annotator": labels["annotator"].fillna("").to_numpy(),
            "sample_id": labels["sample_id"].to_numpy(),
            "object": [_said(one, run.config.skills) for one in own],
            "present": [_present(one, said, run.config.skills) for one, said in zip(own, readings)],
        }
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
    """Return how often people and the detector say that a statement is true, and how often they say the same.

    Of the images' own statements (``asked``: ``prompt``) ``people`` and ``detector`` are accuracies, as in the paper's
    Table 3, over the same ``n`` answers: those that are neither ``unclear`` nor ``not_judged`` by the detector.
    Intervals are Wilson's with the effective size over prompts (`analysis.stats.proportions.effective`); ``kappa`` is
    Cohen's. Rows of two annotators (``A, B``) compare them with each other.
    """
    rows = []
    people = list(dict.fromkeys(items["annotator"]))
    skills = [skill for skill in TASKS if (items["skill"] == skill).any()]
    for skill in (*skills, *([ALL] if len(skills) > 1 else [])):
        of_skill = items if skill == ALL else items[items["skill"] == skill]
        kinds = [OWN, *([OTHER, ALL] if (items["asked"] == OTHER).any() else [])]
        for kind in kinds:
            chosen = of_skill if kind == ALL else of_skill[of_skill["asked"] == kind]
            place = {"skill": skill, "asked": kind}
            rows += [
                {"annotator": name, **place, **_beside(chosen[chosen["annotator"] == name], level)}
                for name in people
            ]
            rows += [
                {"annotator": f"{a}, {b}", **place, **_between(chosen, a, b, level)}
                for a, b in combinations(people, 2)
            ]
    return pd.DataFrame(rows, columns=list(PEOPLE_COLUMNS)).assign(version=VERSION)


def _beside(answers: pd.DataFrame, level: float) -> dict[str, object]:
    """One annotator and the detector."""
    clear, judged = answers["present"] != UNCLEAR, answers["detected"].notna()
    both = answers[clear & judged]
    yes, detected = (both["present"] == "yes").astype(float), both["detected"]
    return {
        **_ends("people", rate(both.assign(said=yes), "said", level)),
        "detector": float(detected.mean()) if len(both) else np.nan,
        **_same(both, yes, detected, level),
        "unclear": int((~clear).sum()),
        "not_judged": int((clear & ~judged).sum()),
    }


def _between(answers: pd.DataFrame, first: str, second: str, level: float) -> dict[str, object]:
    """Two annotators, on what both answered clearly."""
    one, two = (answers[answers["annotator"] == name] for name in (first, second))
    both = one.merge(
        two[["sample_id", "object", "present"]], on=["sample_id", "object"], suffixes=("", "_two")
    )
    clear = (both["present"] != UNCLEAR) & (both["present_two"] != UNCLEAR)
    unclear, both = int((~clear).sum()), both[clear]
    said = [(both[column] == "yes").astype(float) for column in ("present", "present_two")]
    return {**_same(both, *said, level), "unclear": unclear, "not_judged": 0}


def _same(both: pd.DataFrame, one: pd.Series, two: pd.Series, level: float) -> dict[str, object]:
    """How far two readings of the same statements agree."""
    from sklearn.metrics import cohen_kappa_score  # a run without answers does without

    agreed = rate(both.assign(same=(one == two).astype(float)), "same", level)
    varied = len(set(one) | set(two)) > 1
    return {
        **_ends("same", agreed),
        "kappa": float(cohen_kappa_score(one, two)) if varied else np.nan,
        "n": agreed["n"],
        "n_prompts": agreed["n_prompts"],
        "reason": agreed["reason"] or ("" if varied else ONE_ANSWER),
    }


def _ends(name: str, found: Mapping[str, object]) -> dict[str, object]:
    return {name: found["value"], f"{name}_low": found["low"], f"{name}_high": found["high"]}


def _reader(run: Run) -> Read:
    known = _statements(run)

    def read(sample: str, statement: str, label: str) -> str:
        if statement not in known:
            raise UserError(
                f"expected a statement of what the prompts of {run.path} ask for, got {statement!r:.80}"
            )
        return ticked(label)

    return read


def _measure(run: Run, labels: pd.DataFrame) -> Iterator[str]:
    table = people_table(labelled_items(run, labels), run.config.measure.level)
    write(run, "skills_people", table)
    shown = table.drop(columns=["version", "people_low", "people_high", "same_low", "same_high"])
    yield shown.to_string(index=False, float_format=lambda value: f"{value:.3f}", na_rep="–")
    yield f"wrote {run.path / 'tables' / 'skills_people.csv'}; triptych report {run.path} puts it on the page"


STATEMENTS = LabelKind(
    "statements",
    OBJECT_LABELS.name,
    "object",
    "present",
    images=100,
    instructions="Tick every statement that is true of the image; leave the others empty. Numbers count every object of"
    " the kind that you can see, however small or partly hidden; left, right, above and below are those of the picture."
    " The sheet knows neither which statement was asked for nor what the detector answered.",
    usual=asks_for_skills,
    ask=choose_statements,
    reader=_reader,
    measure=_measure,
    needs="prompts that ask for skills",
)
