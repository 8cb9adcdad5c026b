"""Questions to people about an audit's images, chosen at random, and their answers taken into its tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.methods.gep.method import METHOD
from analysis.methods.gep.readings import joined, read_labels
from analysis.methods.gep.stage import LABELS, audit_readings
from analysis.observe.features.attribute_audit import attributes, places
from analysis.report.format import number
from analysis.studies.labelling import store_answers, write_sheets
from analysis.tables.registry import write_method
from probes.errors import UserError
from probes.runs.run import Run


def sample_questions(run: Run, *, count: int, seed: int) -> pd.DataFrame:
    """Return the questions: of each word, setting and attribute so many images, chosen at random anew for each.

    In the explicit setting an image is asked for the attribute that its prompt names.

    Returns
    -------
    DataFrame
        Columns ``sample_id``, ``attribute``, ``question``, in an order that says nothing of the prompt.
    """
    phrases, where = attributes(run.config), pd.DataFrame(places(run.config))
    samples = run.samples(["sample_id", "triplet", "indicator"]).merge(where, on="triplet")
    samples = samples[~samples["sample_id"].isin(list(run.left_out()))]
    rng = np.random.default_rng(seed)
    frames = []
    for name, phrase in phrases.items():
        own = samples[(samples["named"] == name) | (samples["setting"] == "neutral")]
        for _, group in own.groupby(["setting", "indicator"], sort=False):
            chosen = rng.permutation(len(group))[:count]
            said = f"Do you see a person {phrase}?"
            frames.append(group.iloc[chosen][["sample_id"]].assign(attribute=name, question=said))
    if not frames:
        raise UserError(
            f"{run.path}: expected images of the contexts to ask about, found none: run --stage generate again"
        )
    questions = pd.concat(frames, ignore_index=True)
    return questions.iloc[rng.permutation(len(questions))].reset_index(drop=True)


def write(run: Run, out: Path, *, count: int, seed: int, annotators: int = 1) -> str:
    """Write the questions and their images into a folder; return in a line what to do with it.

    Several annotators have a sheet each, of the same questions, with their names in it (the paper asks three).

    Raises
    ------
    UserError
        The run is no audit, or a sheet stands there already.
    """
    _require_audit(run)
    questions = sample_questions(run, count=count, seed=seed)
    return write_sheets(run, out, questions, "label", seed=seed, annotators=annotators)


def label(run: Run, files: Sequence[Path], *, replace: bool = False) -> str:
    """Add answers to ``tables/gep_labels`` of a run and write its tables of attributes; return what there is to say.

    Raises
    ------
    UserError
        The run is no audit, or as `analysis.studies.labelling.store_answers` says.
    """
    _require_audit(run)
    table = store_answers(run, LABELS, files, read_labels, replace=replace)
    write_method(run, METHOD, audit_readings(run))
    said, alpha, reason = joined(table)
    people = table["annotator"].nunique()
    known = f"no Krippendorff's alpha ({reason})" if reason else f"Krippendorff's alpha {number(alpha)}"
    agreed = f", {known}" if people > 1 else ""
    undecided = int(said["value"].isna().sum())
    ties = f"; {undecided} undecided" if undecided else ""
    return (
        f"{len(said)} labels by {people} annotator{'s' * (people > 1)}{agreed}{ties}: {run.path / 'tables'};"
        f" next: triptych report {run.path}"
    )


def _require_audit(run: Run) -> None:
    if not places(run.config):
        raise UserError(f"{run.path}: expected a run whose prompts have contexts, found none: name an audit")
