"""Questions to people about an audit's images, chosen at random: a folder with the images and a CSV to fill in."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from analysis.studies.labelling import FILE, write_images
from probes.csv_text import csv_bytes
from probes.errors import UserError
from probes.prompts.audit import attributes, places
from probes.runs.parts import write_bytes
from probes.runs.store import Run

COLUMNS = ("sample_id", "image", "attribute", "question", "annotator", "label")


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
    if not places(run.config):
        raise UserError(f"{run.path}: expected a run whose prompts have contexts, found none: name an audit")
    stem, suffix = FILE.rsplit(".", 1)
    names = [f"annotator {number}" for number in range(1, annotators + 1)] if annotators > 1 else [""]
    sheets = [out / (FILE if not name else f"{stem}-{name.split()[1]}.{suffix}") for name in names]
    for sheet in {out / FILE, *sheets}:
        if sheet.exists():
            raise UserError(f"{sheet}: expected no sheet yet, found one: name another folder with --out")
    questions = sample_questions(run, count=count, seed=seed)
    files = write_images(run, out, set(questions["sample_id"]), seed=seed)
    for name, sheet in zip(names, sheets):
        table = questions.assign(image=questions["sample_id"].map(files), annotator=name, label="")
        write_bytes(sheet, csv_bytes(table[list(COLUMNS)]))
    listed = " ".join(map(str, sheets))
    return (
        f"{len(questions)} questions about {len(files)} images: fill in yes or no under label in {listed}, then"
        f" triptych audit gep labels {run.path} {listed}"
    )
