"""The arguments of ``triptych audit``."""

from __future__ import annotations

import argparse
from pathlib import Path

from probes import command_line


def parser() -> command_line.Parser:
    """Return the parser of the command's arguments."""
    main = command_line.Parser(
        prog="triptych audit",
        description="Audit pictures of any models by the labels that people gave them: shares by model, profession and"
        " setting with intervals, differences, ranks of models, on one page and as tables. Nothing is generated.",
        examples={
            "triptych audit pictures --labels pictures/labels.csv": "writes the page and tables into audit/",
            "triptych audit pictures --labels labels.xlsx --label race --answer white": "another column and answer",
        },
    )
    add = main.add_argument
    add("pictures", type=Path, help="folder of pictures, or of a folder for each model")
    add(
        "--labels",
        type=Path,
        required=True,
        metavar="TABLE",
        help="CSV, TSV, JSONL, XLSX or Parquet: a row for each label, with the columns file, a label, profession and,"
        " where there are any, model, setting, prompt, annotator",
    )
    add("--label", metavar="COLUMN", help="column of labels (default: label, answer or read_as)")
    add("--answer", help="answer whose share is asked (default: of two the first in the alphabet)")
    add(
        "--undecided",
        nargs="+",
        metavar="ANSWER",
        help="answers that decide nothing (default: both, cannot tell, unclear and the like; a missing label always)",
    )
    add(
        "--factors",
        nargs="+",
        default=[],
        metavar="COLUMN",
        help="what pictures were made for: the page's columns first (default: profession, setting and template, where"
        " they are there)",
    )
    add(
        "--baseline",
        nargs="+",
        default=[],
        metavar="LEVEL",
        help="levels that the others of their factor are held against (default: of each factor that of its first row)",
    )
    add(
        "--unit",
        metavar="COLUMN",
        help="column of the noise or seed that pictures of a model share (default: none)",
    )
    add(
        "--against",
        metavar="SHARE|TABLE",
        help="share, or table with a share for each profession (and n, of how many), that shares are held against"
        " (default: as many as each other answer)",
    )
    add(
        "--merge",
        nargs="+",
        default=[],
        metavar="OLD=NEW",
        help="spellings to be taken for others (default: none)",
    )
    add(
        "--partial",
        action="store_true",
        help="leave out labels without a picture, and pictures without a label",
    )
    add(
        "--unlike",
        nargs="+",
        default=[],
        choices=("prompts", "readers"),
        help="compare models though their prompts, or who labelled them, differ (default: they may not)",
    )
    add(
        "--reader",
        metavar="COLUMN",
        help="column of what a machine read in every picture: it is held against the labels, and labels of some, chosen"
        " at random, the others empty, set its shares right (default: none)",
    )
    add(
        "--effect",
        type=command_line.number(0, 0.5, closed=False),
        default=0.2,
        metavar="P",
        help="difference of shares for which the tables say how many pictures it takes",
    )
    add(
        "--thumbnails",
        type=command_line.whole_number(0, 1000),
        default=20,
        metavar="N",
        help="pictures behind each cell of the page",
    )
    main.add_inference(permutations=True)
    main.add_seed("resamples and permutations")
    main.add_out("audit")
    add("--overwrite", action="store_true", help="replace the audit that is in the folder")
    return main


def work(arguments: argparse.Namespace) -> None:
    """Write ``audit.html`` and the tables of `analysis.methods.audit.columns.TABLES`, and print what they say."""
    from analysis.methods.audit.labelled_audit import audit, require_new  # not before: --help is quick
    from analysis.methods.audit.spellings import merges_of

    options = vars(arguments)
    out, overwrite, thumbnails = (options.pop(name) for name in ("out", "overwrite", "thumbnails"))
    options.pop("stages")
    command_line.writable(out, folder=True)
    require_new(out, overwrite)  # before the work, too
    found = audit(**options | {"merge": merges_of(options["merge"])})
    page = found.write(out, thumbnails=thumbnails, overwrite=overwrite)
    print(repr(found))
    print(f"page and tables: {page}")
