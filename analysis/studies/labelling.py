"""Answers of people about images: folders of questions to fill in, and what was filled in, stored in a run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.tables.answer_sheets import require_annotators
from analysis.tables.registry import write
from probes.csv_text import csv_bytes
from probes.errors import UserError
from probes.runs.parts import write_bytes
from probes.runs.run import Run

FILE = "labels.csv"


def write_sheets(
    run: Run, out: Path, questions: pd.DataFrame, answer: str, *, seed: int, annotators: int = 1
) -> str:
    """Write questions about images as CSV, a sheet for each annotator, beside the images; return what to do with it.

    `questions` has ``sample_id`` and what is to stand between the image's name and ``annotator``; `answer` is the
    column to fill in, `seed` that of the images' names, which say nothing of their prompts.
    """
    stem, suffix = FILE.rsplit(".", 1)
    names = [f"annotator {number}" for number in range(1, annotators + 1)] if annotators > 1 else [""]
    sheets = [out / (FILE if not name else f"{stem}-{name.split()[1]}.{suffix}") for name in names]
    for sheet in {out / FILE, *sheets}:
        if sheet.exists():
            raise UserError(f"{sheet}: expected no sheet yet, found one: name another folder with --out")
    files = _write_images(run, out, set(questions["sample_id"]), seed=seed)
    questions.insert(1, "image", questions["sample_id"].map(files))
    for name, sheet in zip(names, sheets):
        write_bytes(sheet, csv_bytes(questions.assign(annotator=name, **{answer: ""})))
    listed = " ".join(map(str, sheets))
    return (
        f"{len(questions)} questions about {len(files)} images: fill in the column {answer} of {listed}, then"
        f" triptych labels read {run.path} {listed}"
    )


def _write_images(run: Run, out: Path, samples: Collection[str], *, seed: int) -> dict[str, str]:
    """The images' names in the folder, by sample."""
    names = sorted(samples)
    numbers = np.random.default_rng(seed).permutation(len(names))
    files = {name: f"images/{number:05d}.png" for name, number in zip(names, numbers)}
    stored = run.samples(["sample_id", "image"])
    for row in stored[stored["sample_id"].isin(names)].itertuples():
        write_bytes(out / files[row.sample_id], row.image["bytes"])
    return files


def store_answers(
    run: Run,
    table: str,
    files: Sequence[Path],
    read: Callable[[Path, Run], pd.DataFrame],
    *,
    replace: bool = False,
) -> pd.DataFrame:
    """Add the answers of files to a table of a run; return the table.

    `read` reads and checks a file; it returns the table's columns: ``sample_id``, what was asked, ``annotator``, and
    the answer last. With `replace` an annotator's answers take the place of the same annotator's to the same
    questions; else one that differs from a stored one is refused. Those of other annotators stay.
    """
    given = pd.concat([read(file, run) for file in files], ignore_index=True)
    *key, answer = given.columns
    twice = given.duplicated(key)
    if twice.any():
        name = given.loc[twice, "annotator"].iloc[0]
        raise UserError(
            f"{files[-1]}: expected another annotator in each file, got {name!r} twice: rename one"
        )
    if table in run.tables():
        both = run.table(table).merge(given, on=key, how="outer", suffixes=("", "_given"))
        stored, new = both[answer], both[f"{answer}_given"]
        other = stored.notna() & new.notna() & (stored != new)
        if other.any() and not replace:
            sample, asked, name = both.loc[other, key].iloc[0]
            raise UserError(
                f"{files[-1]}: expected the answers that {name or 'the annotator'!r} gave before, got another for"
                f" {asked} in {sample}: name another annotator, or correct your own with --replace"
            )
        given = both.assign(**{answer: new.fillna(stored) if replace else stored.fillna(new)})[[*key, answer]]
    require_annotators(given["annotator"], files[-1])
    write(run, table, given)
    return given
