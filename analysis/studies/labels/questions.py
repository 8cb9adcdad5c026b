"""Questions to people about random images of a run, and their answers beside those of the machines that read it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from analysis.questions import questions_by_prompt
from analysis.report.format import counted
from analysis.studies.labels.kind import TICKED, UNCLEAR, LabelKind, Read
from analysis.tables.objects.human_answers import LABELS, human_answers
from probes.config.observation import TONE
from probes.errors import UserError
from probes.prompts.diagnostic import is_diagnostic
from probes.prompts.prompt import asks_for_skills
from probes.runs.run import Run


def sample_questions(run: Run, images: int, extra: int | None = None, seed: int = 0) -> pd.DataFrame:
    """The questions: each of so many images of each word, chosen at random; an image is asked everything.

    Where prompts ask for skills an image is asked what its skill is (`questions_by_prompt`), and so many images of each
    skill are chosen. The order says nothing of the prompt.
    """
    samples = run.samples(["sample_id", "triplet", "indicator"])
    samples = samples[~samples["sample_id"].isin(list(run.left_out()))]
    asked = questions_by_prompt(run.config, samples["triplet"])
    of_image = dict(zip(samples["sample_id"], samples["triplet"]))
    kinds = [tuple(one.key for one in asked[triplet]) for triplet in samples["triplet"]]
    rng = np.random.default_rng(seed)
    chosen = [
        sample
        for _, group in samples.groupby([samples["indicator"], pd.Series(kinds, samples.index)], sort=False)
        for sample in group["sample_id"].to_numpy()[rng.permutation(len(group))[:images]]
    ]
    rows = [
        (sample, one.key, one.text, TICKED if {*one.readings} == {*TICKED[:2]} else (*one.readings, UNCLEAR))
        for sample in (chosen[place] for place in rng.permutation(len(chosen)))
        for one in asked[of_image[sample]]
    ]
    return pd.DataFrame(rows, columns=["sample_id", "question", "asked", "answers"])


def reader(run: Run) -> Read:
    """The check of an answer: it stays verbatim; *unclear* decides nothing; a tone is a number of the scale."""
    samples = dict(zip(*run.samples(["sample_id", "triplet"]).to_numpy().T))
    of_prompt = questions_by_prompt(run.config, samples.values())

    def read(sample: str, key: str, label: str) -> str:
        known = {question.key: question for question in of_prompt[samples[sample]]}
        if key not in known:
            raise UserError(f"expected one of {', '.join(known)}, got {key!r:.60}")
        question = known[key]
        reads = label in question.readings if key == TONE else question.read(label) is not None
        if label.casefold() != UNCLEAR and not reads:
            raise UserError(f"expected {', '.join(question.readings)} or {UNCLEAR}, got {label!r:.60}")
        return label

    return read


def measure(run: Run, labels: pd.DataFrame) -> Iterator[str]:
    """Yield how many answers there are; the stage measure does the rest."""
    answers = human_answers(run)
    people, undecided = counted(labels["annotator"].nunique(), "annotator"), answers["reading"].isna().sum()
    yield (
        f"{len(answers)} answers by {people}, {undecided} undecided; next: triptych run {run.path} --stage measure, and"
        f" triptych report {run.path}"
    )


QUESTIONS = LabelKind(
    "questions",
    LABELS,
    "question",
    "answer",
    images=15,
    instructions="Answer every question about the image as you see it. Tick what is to be answered by yes.",
    usual=lambda config: is_diagnostic(config) or asks_for_skills(config),
    ask=sample_questions,
    reader=reader,
    measure=measure,
)
