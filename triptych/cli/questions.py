"""Questions to a run's images, answered by people: ``triptych questions sheet`` and ``labels``.

``sheet`` writes what people are asked, of images chosen at random; ``labels`` takes their answers into the run, where
the stage measure joins them as the reader ``human``.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from probes import command_line


def parser() -> command_line.Parser:
    """Return the parser of the command's arguments."""
    main = command_line.Parser(
        prog="triptych questions",
        description="Have people answer questions about images of a run.",
        examples={"triptych questions sheet runs/first-light": "first a sheet for people, then: labels"},
    )
    which = main.add_subparsers(dest="command", required=True)
    text = "write the questions about a random choice of images, as a sheet to fill in"
    examples = {
        "triptych questions sheet runs/first-light --images 20": "images and a CSV to fill in, in question-sheet/"
    }
    sheet = which.add_parser("sheet", help=text, description=f"{text.capitalize()}.", examples=examples)
    sheet.add_run("directory of a generated run")
    sheet.add_out("question-sheet")
    sheet.add_argument(
        "--images", type=command_line.whole(1, 100_000), default=15, metavar="N", help="images of each word"
    )
    sheet.add_seed("the choice of images")
    text = "store people's answers in a run"
    examples = {
        "triptych questions labels runs/first-light question-sheet/labels.csv": "as the reader `human`"
    }
    read = which.add_parser("labels", help=text, description=f"{text.capitalize()}.", examples=examples)
    read.add_run("directory of a generated run")
    read.add_argument(
        "labels", nargs="+", type=Path, help="CSV files with sample_id, question, answer and annotator"
    )
    return main


def work(options: argparse.Namespace) -> None:
    """Run the command with its parsed arguments."""
    from analysis.studies.opening import opened
    from analysis.studies.questions import sheet as question_sheet
    from analysis.studies.questions.answers import label

    if options.command == "labels":
        print(label(options.run, options.labels))
        return
    command_line.writable(options.out, folder=True)
    print(question_sheet.write(opened(options.run), options.out, count=options.images, seed=options.seed))
