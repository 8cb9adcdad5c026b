"""People label images of a run: ``triptych labels sheet RUN``, then ``triptych labels read RUN FILE ...``.

``sheet`` writes what people are asked, of images chosen at random: which objects they see (or, where prompts ask for
skills, which statements are true), the questions of the run, or the attributes of a GEP audit. ``read`` takes their
answers into the run; what they are about is told by the columns of the files.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from probes import command_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from probes.runs.run import Run

ABOUT = {  # what people are asked about, and how many images of it
    "objects": 100,
    "questions": 15,
    "attributes": 20,
}


def parser() -> command_line.Parser:
    """Return the argument parser of ``triptych labels``."""
    main = command_line.Parser(
        prog="triptych labels",
        description="Have people label images of a run: objects, skills, questions, attributes of an audit.",
        examples={"triptych labels sheet runs/first-light": "first a sheet for people, then: read"},
    )
    which = main.add_subparsers(dest="command", required=True)
    text = "write what people are asked about images chosen at random"
    examples = {
        "triptych labels sheet runs/first-light": "label-sheet/sheet.html opens in any browser",
        "triptych labels sheet runs/first-light --about questions": "images and a CSV to fill in",
        "triptych labels sheet runs/gep --annotators 3": "three sheets of the same questions",
    }
    sheet = which.add_parser("sheet", help=text, description=f"{text.capitalize()}.", examples=examples)
    sheet.add_run("directory of a run; objects take a measured one")
    sheet.add_argument(
        "--about",
        choices=ABOUT,
        help="which objects are there, or statements about skills; the run's questions; attributes of GEP (default:"
        " what the run is an audit of, else objects)",
    )
    sheet.add_out("label-sheet")
    sheet.add_argument(
        "--images",
        type=command_line.whole_number(1, 100_000),
        metavar="N",
        help="images: in all, of whole triplets (objects, default 100), of each word (questions, 15), of each word and"
        " attribute (attributes, 20)",
    )
    sheet.add_argument(
        "--objects",
        type=command_line.whole_number(0, 1000),
        metavar="N",
        help="objects asked about in an image beside the nouns of its prompt, or statements beside that of its prompt"
        " (default: 8 objects, 3 statements)",
    )
    sheet.add_argument(
        "--annotators",
        type=command_line.whole_number(1, 100),
        default=1,
        metavar="N",
        help="a CSV for each of so many (GEP's paper: 3; the majority counts)",
    )
    sheet.add_seed("the choice of images")
    text = "store people's answers in a run, and say how far they agree"
    examples = {"triptych labels read runs/first-light labels.csv": "the file that the page exported"}
    read = which.add_parser("read", help=text, description=f"{text.capitalize()}.", examples=examples)
    read.add_run("directory of the run that the sheet was made from")
    read.add_argument(
        "labels", nargs="+", type=Path, help="CSV files of one kind of sheet, of all annotators"
    )
    read.add_argument(
        "--replace",
        action="store_true",
        help="correct what the same annotators said before (questions and attributes)",
    )
    return main


def work(options: argparse.Namespace) -> None:
    """Write sheets on which people label images, or store their answers, and print what was done."""
    from probes.runs.missing import open_run

    run = open_run(options.run)
    if options.command == "sheet":
        command_line.writable(options.out, folder=True)
        print(_write_sheet(run, options))
    else:
        print(_store_answers(run, options.labels, replace=options.replace))


def _write_sheet(run: Run, options: argparse.Namespace) -> str:
    """Write sheets on which people label images of a run; return lines on what was written."""
    from analysis.methods.gep import sheet as attributes
    from analysis.observe.features.attribute_audit import places
    from analysis.studies import questions
    from analysis.studies.human_check import detections
    from analysis.studies.human_check.method import people_check
    from probes.errors import UserError
    from probes.prompts.diagnostic import is_diagnostic
    from probes.prompts.prompt import asks_for_skills

    asked = is_diagnostic(run.config) or asks_for_skills(run.config)
    usual = "attributes" if places(run.config) else "questions" if asked else "objects"
    about = options.about or usual
    if about != "objects" and options.objects is not None:
        raise UserError(f"--objects: expected a sheet about objects, got one about {about}: leave it out")
    if about == "objects" and options.annotators > 1:
        raise UserError(
            "--annotators: expected a sheet about questions or attributes, got one about objects, which everybody opens"
            " and exports under a name: leave it out"
        )
    images = options.images or ABOUT[about]
    if about != "objects":
        write = attributes.write if about == "attributes" else questions.write
        return write(run, options.out, count=images, seed=options.seed, annotators=options.annotators)
    if skills := people_check(run.config):
        return skills.sample(run, options.out, images, options.objects, options.seed)
    extra = detections.EXTRA if options.objects is None else options.objects
    return detections.sample(run, options.out, detections.SheetOptions(images, extra, options.seed))


def _store_answers(run: Run, files: Sequence[Path], *, replace: bool) -> str:
    """Store people's answers in a run, from CSV files of one kind of sheet; return lines on their agreement."""
    from analysis.methods.gep import sheet as attributes
    from analysis.studies import questions
    from analysis.studies.human_check import detections
    from analysis.studies.human_check.method import people_check
    from probes.errors import UserError
    from probes.user_tables import open_table

    names = open_table(files[0], ("attribute", "question", "answer")).columns
    if "attribute" in names:
        return attributes.label(run, files, replace=replace)
    if "question" in names or "answer" in names:
        return questions.label(run, files, replace=replace)
    if replace:
        raise UserError("--replace: expected answers to questions or attributes, got objects: leave it out")
    if skills := people_check(run.config):
        return "\n".join(skills.agreement(run, files))
    return detections.agreement(run, files)
