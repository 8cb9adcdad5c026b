"""What people are asked of a run's images, chosen by lot: a folder with the images and a CSV to fill in."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from analysis.studies.gep.sheet import FILE, write_images
from analysis.tables.human_answers import UNDECIDED
from probes.attributes.questions import questions
from probes.errors import UserError
from probes.parts import write_bytes
from probes.store import Run

COLUMNS = ("sample_id", "image", "question", "asked", "answers", "annotator", "answer")


def asked(run: Run, *, count: int, seed: int) -> pd.DataFrame:
    """Return the questions: each of so many images of each word, chosen by lot; an image is asked everything.

    Returns
    -------
    DataFrame
        Columns ``sample_id``, ``question``, ``asked`` and ``answers`` (what can be answered), in an order that says
        nothing of the prompt.
    """
    samples = run.samples(["sample_id", "indicator"])
    samples = samples[~samples["sample_id"].isin(list(run.left_out()))]
    rng = np.random.default_rng(seed)
    chosen = [
        sample
        for _, group in samples.groupby("indicator", sort=False)
        for sample in group["sample_id"].to_numpy()[rng.permutation(len(group))[:count]]
    ]
    rows = [
        (sample, one.key, one.text, " / ".join((*one.readings, UNDECIDED)))
        for sample in (chosen[place] for place in rng.permutation(len(chosen)))
        for one in questions(run.config)
    ]
    return pd.DataFrame(rows, columns=["sample_id", "question", "asked", "answers"])


def write(run: Run, out: Path, *, count: int, seed: int) -> str:
    """Write the questions and their images into a folder; return in a line what to do with it.

    Raises
    ------
    UserError
        A sheet stands there already.
    """
    if (out / FILE).exists():
        raise UserError(f"{out / FILE}: expected no sheet yet, found one: name another folder with --out")
    rows = asked(run, count=count, seed=seed)
    files = write_images(run, out, set(rows["sample_id"]), seed=seed)
    table = rows.assign(image=rows["sample_id"].map(files), annotator="", answer="")
    write_bytes(out / FILE, table[list(COLUMNS)].to_csv(index=False, lineterminator="\n").encode())
    return (
        f"{len(table)} questions about {len(files)} images: fill in the column answer of {out / FILE}, then"
        f" python -m analysis questions labels {run.path} {out / FILE}"
    )
