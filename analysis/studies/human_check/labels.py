"""The CSV files that labelling sheets export: read back, and held against the run that they are about."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from probes.csv_text import csv_rows
from probes.errors import UserError
from probes.runs.store import Run

ANSWERS = ("yes", "no", "unclear")
LABELS = ("annotator", "sample_id", "image", "object", "present")
CHANCE = "chance"  # one more column, of sheets that ask some questions only: with which probability each
_CHANCE = re.compile(r"0\.\d{1,6}|1(\.0*)?")


def fingerprint(image) -> str:
    """Sixteen hexadecimal digits of an image's pixels: it detects labels of another run's images."""
    return hashlib.sha256(repr(image.size).encode() + image.convert("RGB").tobytes()).hexdigest()[:16]


def read_labels(path: Path, run: Run) -> pd.DataFrame:
    """Read one annotator's CSV file and check it against the run.

    Returns
    -------
    DataFrame
        ``annotator``, ``sample_id``, ``object``, ``present`` (yes, no or unclear), ``weight``: how many questions
        it stands for, one over the probability with which it was asked.

    Raises
    ------
    UserError
        The file cannot be read, is not what the labelling sheet writes, or is about images of another run.
    """
    again = "export it from the sheet again"
    rows = csv_rows(path, again)
    head = rows[0][1] if rows else []
    names = (*LABELS, CHANCE) if tuple(head) == (*LABELS, CHANCE) else LABELS
    if tuple(head) != names:
        columns = ",".join(head)[:60] or "nothing"
        raise UserError(f"{path}: line 1: expected {','.join(LABELS)}, got {columns}: {again}")
    for number, row in rows[1:]:
        if len(row) != len(names) or row[len(LABELS) - 1] not in ANSWERS:
            place = "the last" if names is LABELS else "the fifth"
            raise UserError(
                f"{path}: line {number}: expected {len(names)} fields, {place} yes, no or unclear,"
                f" got {','.join(row)[:60]!r}: {again}"
            )
        if names is not LABELS and not (_CHANCE.fullmatch(row[-1]) and float(row[-1])):
            raise UserError(
                f"{path}: line {number}: {CHANCE}: expected a probability above 0, got {row[-1][:40]!r}: {again}"
            )
    labels = pd.DataFrame([row for _, row in rows[1:]], columns=list(names))
    chances = labels[CHANCE].astype(float) if CHANCE in labels else 1.0
    labels["weight"] = 1.0 / chances
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
    return labels[["annotator", "sample_id", "object", "present", "weight"]]


def together(labels: Sequence[pd.DataFrame], files: Sequence[Path]) -> pd.DataFrame:
    """Join the labels of several annotators and sheets.

    Raises
    ------
    UserError
        One annotator answers a question twice; the message names the second file that does.
    """
    table = pd.concat(labels, ignore_index=True)
    twice = table.duplicated(["annotator", "sample_id", "object"]).to_numpy()
    if twice.any():
        row = table[twice].iloc[0]
        file = np.repeat(np.arange(len(files)), [len(one) for one in labels])[twice][0]
        raise UserError(
            f"{files[file]}: expected another annotator in each file, or other images, got {row['annotator']!r} twice,"
            f" on {row['object']!r} of {row['sample_id']}: rename one, or leave a file out"
        )
    return table
