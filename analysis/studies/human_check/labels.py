"""The CSV files that labelling sheets export: read back, and held against the run that they are about."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from probes.csv_text import csv_rows
from probes.errors import UserError
from probes.runs.store import Run

ANSWERS = ("yes", "no", "unclear")
LABELS = ("annotator", "sample_id", "image", "object", "present")


def fingerprint(image) -> str:
    """Sixteen hexadecimal digits of an image's pixels: it detects labels of another run's images."""
    return hashlib.sha256(repr(image.size).encode() + image.convert("RGB").tobytes()).hexdigest()[:16]


def read_labels(path: Path, run: Run) -> pd.DataFrame:
    """Read one annotator's CSV file and check it against the run.

    Returns
    -------
    DataFrame
        ``annotator``, ``sample_id``, ``object``, ``present`` (yes, no or unclear).

    Raises
    ------
    UserError
        The file cannot be read, is not what the labelling sheet writes, or is about images of another run.
    """
    again = "export it from the sheet again"
    rows = csv_rows(path, again)
    head = rows[0][1] if rows else []
    if tuple(head) != LABELS:
        columns = ",".join(head)[:60] or "nothing"
        raise UserError(f"{path}: line 1: expected {','.join(LABELS)}, got {columns}: {again}")
    for number, row in rows[1:]:
        if len(row) != len(LABELS) or row[-1] not in ANSWERS:
            raise UserError(
                f"{path}: line {number}: expected {len(LABELS)} fields, the last yes, no or unclear,"
                f" got {','.join(row)[:60]!r}: {again}"
            )
    labels = pd.DataFrame([row for _, row in rows[1:]], columns=list(LABELS))
    if labels.empty:
        raise UserError(
            f"{path}: expected labels, got none: mark at least one image as done and export again"
        )
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


def together(labels: Sequence[pd.DataFrame], last: Path) -> pd.DataFrame:
    """Join the labels of several annotators.

    Raises
    ------
    UserError
        Two have the same name; the message names the `last` file.
    """
    table = pd.concat(labels, ignore_index=True)
    twice = table.duplicated(["annotator", "sample_id", "object"])
    if twice.any():
        name = table.loc[twice, "annotator"].iloc[0]
        raise UserError(f"{last}: expected another annotator in each file, got {name!r} twice: rename one")
    return table
