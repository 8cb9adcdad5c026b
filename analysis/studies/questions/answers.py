"""People's answers to questions about images, stored in a run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from analysis.studies.labelling import store_answers
from analysis.tables.objects.human_answers import LABELS, human_answers, read_answers
from probes.runs.run import Run


def label(run: Run, files: Sequence[Path], *, replace: bool = False) -> str:
    """Add answers to ``tables/question_labels`` of a run; return what there is to say about it.

    Raises
    ------
    UserError
        See `analysis.studies.labelling.store_answers`.
    """
    table = store_answers(run, LABELS, files, read_answers, replace=replace)
    answers = human_answers(run)
    people, undecided = table["annotator"].nunique(), int(answers["reading"].isna().sum())
    return (
        f"{len(answers)} answers by {people} annotator{'s' * (people > 1)}, {undecided} undecided; "
        f"next: triptych run {run.path} --stage measure, and triptych report {run.path}"
    )
