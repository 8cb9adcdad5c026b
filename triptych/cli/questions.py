"""Questions to a run's images, answered by people: ``triptych questions sheet`` and ``labels``.

``sheet`` writes what people are asked, of images chosen by lot; ``labels`` takes their answers into the run, where
the stage measure joins them as the reader ``human``.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from analysis.studies.opening import opened
from analysis.studies.questions import sheet
from analysis.tables.objects.human_answers import LABELS, human_answers, read_answers
from analysis.tables.registry import write
from probes import command_line
from probes.errors import UserError


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
    write(run, LABELS, table)
    said = human_answers(run)
    people, undecided = table["annotator"].nunique(), int(said["reading"].isna().sum())
    return (
        f"{len(said)} answers by {people} annotator{'s' * (people > 1)}, {undecided} undecided: run --stage measure on"
        f" {path}"
    )


def parser() -> argparse.ArgumentParser:
    """The command line's options."""
    main = command_line.Parser(
        prog="triptych questions", description="Questions to images, answered by people."
    )
    which = main.add_subparsers(dest="command", required=True)
    ask = which.add_parser("sheet", help="write what people are asked, of images chosen by lot")
    ask.add_argument("run", type=command_line.run_directory, help="folder of a generated run")
    ask.add_argument("--out", type=Path, default=Path("question-sheet"), help="folder to write to")
    ask.add_argument("--images", type=command_line.whole(1, 100_000), default=15, help="of each word")
    ask.add_argument("--seed", type=command_line.whole(), default=0, help="of the lot")
    read = which.add_parser("labels", help="take answers of people into a run")
    read.add_argument("run", type=command_line.run_directory, help="folder of a generated run")
    read.add_argument(
        "labels", nargs="+", type=Path, help="CSV files with sample_id, question, answer and annotator"
    )
    return main


def work(options: argparse.Namespace) -> None:
    """Do what the command line asks."""
    if options.command == "labels":
        print(label(options.run, options.labels))
        return
    command_line.writable(options.out, folder=True)
    print(sheet.write(opened(options.run), options.out, count=options.images, seed=options.seed))
