"""Have people check the detected objects: ``triptych human-check sample RUN``, then ``agreement RUN labels.csv``.

Of a run whose prompts ask for skills they check what the skill is: the object, its number, the relation.

``sample`` writes a page that opens in any browser, without network; its button exports a CSV file.
``agreement`` reads one or more of these back and says how far the detector saw what people see, for each indicator.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from probes import command_line


def parser() -> command_line.Parser:
    """Return the parser of the command's arguments."""
    main = command_line.Parser(
        prog="triptych human-check",
        description="Have people check the objects that the detector found.",
        examples={
            "triptych human-check sample runs/first-light --out sheet": "first a page for people, then: agreement"
        },
    )
    which = main.add_subparsers(dest="command", required=True)
    text = "write a page on which people say which objects they see in images of a run"
    examples = {
        "triptych human-check sample runs/first-light --out sheet": "sheet/sheet.html opens in any browser",
    }
    sheet = which.add_parser("sample", help=text, description=f"{text.capitalize()}.", examples=examples)
    sheet.add_run("directory of a measured run")
    sheet.add_argument(
        "--images",
        type=command_line.count,
        default=100,
        metavar="N",
        help="largest number of images; triplets stay whole, skills have as many each",
    )
    sheet.add_argument(
        "--objects",
        type=command_line.whole(0, 1000),
        metavar="N",
        help="objects asked about in an image, beside the nouns of its prompt, or statements beside that of its prompt"
        " where it asks for a skill (default: 8 objects, 3 statements)",
    )
    sheet.add_seed("the choice of images and objects")
    sheet.add_out(what="folder for sheet.html", required=True)
    text = "compare people's answers with the detector's, and store them in the run"
    examples = {
        "triptych human-check agreement runs/first-light labels.csv": "the file that the page exported"
    }
    read = which.add_parser("agreement", help=text, description=f"{text.capitalize()}.", examples=examples)
    read.add_run("directory of the run that the page was made from")
    read.add_argument(
        "labels", nargs="+", type=Path, help="CSV files that the pages exported, of all annotators and sheets"
    )
    return main


def work(options: argparse.Namespace) -> None:
    """Run the command with its parsed arguments."""
    from analysis.studies.human_check.check import AGREED
    from analysis.studies.human_check.detections import (
        EXTRA,
        SheetOptions,
        check,
        sample,
        summary,
    )
    from analysis.studies.human_check.method import people_check
    from analysis.studies.human_check.nouns import noun_summary
    from analysis.studies.opening import opened

    if options.command == "sample":
        command_line.writable(options.out, folder=True)
        run = opened(options.run)
        of_method = people_check(run.config)
        if of_method:
            print(of_method.sample(run, options.out, options.images, options.objects, options.seed))
            return
        extra = EXTRA if options.objects is None else options.objects
        print(sample(run, options.out, SheetOptions(options.images, extra, options.seed)))
        return
    run = opened(options.run)
    if of_method := people_check(run.config):
        print(*of_method.agreement(run, options.labels), sep="\n")
        return
    table, of_nouns = check(run, options.labels)
    print(summary(table))
    print(noun_summary(of_nouns))
    if AGREED in set(table["annotator"]):
        print(f"“{AGREED}”: only what every annotator answered, with equal answers")
    print(f"wrote {run.path / 'tables' / 'human_check.csv'}; triptych report {run.path} puts it on the page")
