"""The tables that labelling sheets export: read back, and held against the run that they are about."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.tables.answer_sheets import require_annotators
from probes.errors import UserError
from probes.runs.run import Run
from probes.user_tables import open_table

ANSWERS = ("yes", "no", "unclear")
LABELS = ("annotator", "sample_id", "image", "object", "present")


def fingerprint(image) -> str:
    """Sixteen hexadecimal digits of an image's pixels: it detects labels of another run's images."""
    return hashlib.sha256(repr(image.size).encode() + image.convert("RGB").tobytes()).hexdigest()[:16]


def read_labels(path: Path, run: Run) -> pd.DataFrame:
    """Read one annotator's table and check it against the run.

    Returns ``annotator``, ``sample_id``, ``object``, ``present`` (yes, no or unclear).
    """
    again = "export it from the sheet again"
    table = open_table(path, LABELS)
    for name in LABELS:
        table.require(name, again)
    table.print_notes(LABELS)
    labels = table.text_cells(LABELS)
    if labels.empty:
        raise UserError(
            f"{path}: expected labels, got none: mark at least one image as done and export again"
        )
    for name, wrong, what in (
        ("present", ~labels["present"].isin(ANSWERS), "yes, no or unclear"),
        ("annotator", labels["annotator"].str.strip() == "", "the name of the annotator"),
    ):
        if wrong.any():
            place, found = labels.index[wrong][0], labels[name][wrong].iloc[0]
            raise UserError(f"{path}: {place}: {name}: expected {what}, got {found[:40]!r}: {again}")
    require_annotators(labels["annotator"], path)
    twice = labels.duplicated(["annotator", "sample_id", "object"])
    if twice.any():
        row = labels[twice].iloc[0]
        raise UserError(
            f"{path}: expected each object of an image once, got {row['object']!r} of"
            f" {row['sample_id']} twice: {again}"
        )
    shown = labels.drop_duplicates(["sample_id", "image"])
    known = set(run.samples(["sample_id"])["sample_id"])
    for sample, image in zip(shown["sample_id"], shown["image"]):
        if sample not in known or fingerprint(run.image(sample)) != image:
            raise UserError(
                f"{path}: expected images of {run.path}, got another image as {sample!r}: name the run it was made from"
            )
    return labels[["annotator", "sample_id", "object", "present"]]


def together(labels: Sequence[pd.DataFrame], files: Sequence[Path]) -> pd.DataFrame:
    """Join the labels of several annotators and sheets; refuse an annotator who answers a question twice."""
    table = pd.concat(labels, ignore_index=True)
    require_annotators(table["annotator"], files[-1])
    twice = table.duplicated(["annotator", "sample_id", "object"]).to_numpy()
    if twice.any():
        row = table[twice].iloc[0]
        file = np.repeat(np.arange(len(files)), [len(one) for one in labels])[twice][0]
        raise UserError(
            f"{files[file]}: expected another annotator in each file, or other images, got {row['annotator']!r} twice,"
            f" on {row['object']!r} of {row['sample_id']}: rename one, or leave a file out"
        )
    return table
