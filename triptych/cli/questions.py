"""Questions to a run's images, answered by people: ``triptych questions sheet`` and ``labels``.

``sheet`` writes what people are asked, of images chosen at random; ``labels`` takes their answers into the run, where
the stage measure joins them as the reader ``human``.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from analysis.studies.opening import opened
from analysis.studies.questions import sheet as question_sheet
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
    answers = human_answers(run)
    people, undecided = table["annotator"].nunique(), int(answers["reading"].isna().sum())
    return (
        f"{len(answers)} answers by {people} annotator{'s' * (people > 1)}, {undecided} undecided: "
        f"run --stage measure on {path}"
    )


def parser() -> command_line.Parser:
    """Return the parser of the command's arguments."""
    main = command_line.Parser(
        prog="triptych questions", description="Have people answer questions about images of a run."
    )
    which = main.add_subparsers(dest="command", required=True)
    text = "write the questions about a random choice of images, as a sheet to fill in"
    sheet = which.add_parser("sheet", help=text, description=f"{text.capitalize()}.")
    sheet.add_run("directory of a generated run")
    sheet.add_out("question-sheet")
    sheet.add_argument(
        "--images", type=command_line.whole(1, 100_000), default=15, metavar="N", help="images of each word"
    )
    sheet.add_seed("the choice of images")
    text = "store people's answers in a run"
    read = which.add_parser("labels", help=text, description=f"{text.capitalize()}.")
    read.add_run("directory of a generated run")
    read.add_argument(
        "labels", nargs="+", type=Path, help="CSV files with sample_id, question, answer and annotator"
    )
    return main


def work(options: argparse.Namespace) -> None:
    """Run the command with its parsed arguments."""
    if options.command == "labels":
        print(label(options.run, options.labels))
        return
    command_line.writable(options.out, folder=True)
    print(question_sheet.write(opened(options.run), options.out, count=options.images, seed=options.seed))
