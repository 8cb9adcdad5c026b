"""People label images of a run: ``triptych labels sheet RUN``, then ``triptych labels read RUN FILE ...``.

``sheet`` writes what people are asked, of images chosen at random: which objects they see, the questions of the run, or
the attributes of a GEP audit. ``read`` takes their labels
into the run.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from probes import command_line

if TYPE_CHECKING:
    from analysis.report.result import Result

ABOUT = ("objects", "questions", "attributes")


def parser() -> command_line.Parser:
    """Return the argument parser of ``triptych labels``."""
    main = command_line.Parser(
        prog="triptych labels",
        description="Have people label images of a run: objects, questions, attributes of an audit.",
        examples={"triptych labels sheet runs/first-light": "first a sheet for people, then: read"},
    )
    which = main.add_subparsers(dest="command", required=True)
    text = "write what people are asked about images chosen at random"
    examples = {
        "triptych labels sheet runs/first-light": "label-sheet/sheet.html opens in any browser",
        "triptych labels sheet runs/first-light --about questions": "a sheet of the run's questions",
    }
    sheet = which.add_parser("sheet", help=text, description=f"{text.capitalize()}.", examples=examples)
    sheet.add_run("directory of a run; objects take a measured one")
    sheet.add_argument(
        "--about",
        choices=ABOUT,
        help="which objects are there, the run's questions, attributes of GEP (default: what the run is an audit of,"
        " else objects)",
    )
    sheet.add_out("label-sheet")
    sheet.add_argument(
        "--images",
        type=command_line.whole_number(1, 100_000),
        metavar="N",
        help="images: in all (objects, in whole triplets, default 100), of each word (questions, 15),"
        " of each word and attribute (attributes, 20)",
    )
    sheet.add_argument(
        "--objects",
        type=command_line.whole_number(0, 1000),
        metavar="N",
        help="objects asked about in an image beside the nouns of its prompt (default: 8)",
    )
    sheet.add_seed("the choice of images")
    text = "store people's answers in a run, and say how far they agree"
    examples = {"triptych labels read runs/first-light labels.csv": "the file that the page exported"}
    read = which.add_parser("read", help=text, description=f"{text.capitalize()}.", examples=examples)
    read.add_run("directory of the run that the sheet was made from")
    read.add_argument(
        "labels", nargs="+", type=Path, help="files of one kind of sheet, of several annotators"
    )
    read.add_argument(
        "--replace",
        action="store_true",
        help="correct what the same annotators said before",
    )
    return main


def result(options: argparse.Namespace) -> Result:
    """Return the questions of a sheet that is written, or people's answers, which are stored."""
    from analysis.studies.labels.command import read_answers, write_sheet
    from probes.runs.missing import open_run

    run = open_run(options.run)
    if options.command == "read":
        return read_answers(run, options.labels, replace=options.replace)
    command_line.writable(options.out, folder=True)
    more = {"about": options.about, "images": options.images, "extra": options.objects, "seed": options.seed}
    return write_sheet(run, options.out, **more)


def work(options: argparse.Namespace) -> None:
    """Write sheets on which people label images, or store their answers, and print what was done."""
    print(result(options))
