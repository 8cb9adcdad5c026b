"""People's answers to questions about images, stored in a run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from analysis.studies.opening import opened
from analysis.tables.objects.human_answers import LABELS, human_answers, read_answers
from analysis.tables.registry import write
from probes.errors import UserError
from probes.prompts.user_tables import require_annotators


def label(path: Path, files: Sequence[Path]) -> str:
    """Write ``tables/question_labels`` of a run; return what there is to say about it.

    Raises
    ------
    UserError
        A file of answers is no good, or two hold the same annotator's answer to one question.
    """
    run = opened(path)
    table = pd.concat([read_answers(file, run) for file in files], ignore_index=True)
    twice = table.duplicated(["sample_id", "question", "annotator"])
    if twice.any():
        name = table.loc[twice, "annotator"].iloc[0]
        raise UserError(
            f"{files[-1]}: expected another annotator in each file, got {name!r} twice: rename one"
        )
    require_annotators(table["annotator"], files[-1])
    write(run, LABELS, table)
    answers = human_answers(run)
    people, undecided = table["annotator"].nunique(), int(answers["reading"].isna().sum())
    return (
        f"{len(answers)} answers by {people} annotator{'s' * (people > 1)}, {undecided} undecided; "
        f"next: triptych run {path} --stage measure, and triptych report {path}"
    )
