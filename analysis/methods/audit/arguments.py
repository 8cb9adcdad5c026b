"""The arguments of ``triptych audit``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from probes import command_line
from probes.errors import UserError

TABLE = (
    "CSV, TSV, JSONL, XLSX or Parquet: a row for each label, with the columns image, label, profession and, where there"
    " are any, model, setting, prompt, annotator"
)
ONE = {  # options with one value: what it is, and what it says
    "--label": ("COLUMN", "column of labels (default: label, answer or read_as)"),
    "--answer": ("ANSWER", "answer whose share is asked (default: of two the first in the alphabet)"),
    "--against": (
        "SHARE|TABLE",
        "share, or table with a share for each profession (and n, of how many), that shares are compared with (default:"
        " as many as each other answer)",
    ),
}
SEVERAL = {
    "--undecided": (
        "ANSWER",
        "answers that decide nothing (default: both, cannot tell, unclear and the like; a missing label always)",
    ),
    "--factors": (
        "COLUMN",
        "what pictures were made for: the page's columns first (default: profession, setting and template, where they"
        " are there)",
    ),
    "--baseline": (
        "LEVEL",
        "levels that the others of their factor are compared with (default: of each factor that of its first row)",
    ),
    "--merge": ("OLD=NEW", "spellings to be taken for others (default: none)"),
}


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
    add("--labels", type=Path, required=True, metavar="TABLE", help=TABLE)
    for flag, (metavar, text) in ONE.items():
        add(flag, metavar=metavar, help=text)
    for flag, (metavar, text) in SEVERAL.items():
        add(flag, nargs="+", default=[], metavar=metavar, help=text)
    add(
        "--partial",
        action="store_true",
        help="leave out labels without a picture, and pictures without a label",
    )
    differ = "compare models though their prompts, or who labelled them, differ (default: they may not)"
    add("--unlike", nargs="+", default=[], choices=("prompts", "readers"), help=differ)
    effect = "difference of shares for which the tables say how many pictures it takes"
    add("--effect", type=command_line.number(0, 0.5, closed=False), default=0.2, metavar="P", help=effect)
    behind, number = "pictures behind each cell of the page", command_line.whole_number(0, 1000)
    add("--thumbnails", type=number, default=20, metavar="N", help=behind)
    main.add_inference(permutations=True)
    main.add_seed("resamples and permutations")
    main.add_out("audit")
    add("--overwrite", action="store_true", help="replace the audit that is in the folder")
    return main


def work(arguments: argparse.Namespace) -> None:
    """Write ``audit.html`` and the tables of `labelled_audit.TABLES`, and print what they say."""
    from analysis.methods.audit.labelled_audit import audit, require_new  # not before: --help is quick

    options = vars(arguments)
    out, overwrite, thumbnails = (options.pop(name) for name in ("out", "overwrite", "thumbnails"))
    options.pop("stages")
    command_line.writable(out, folder=True)
    require_new(out, overwrite)  # before the work, too
    result = audit(**options | {"merge": read_merges(options["merge"])})
    page = result.write(out, thumbnails=thumbnails, overwrite=overwrite)
    print(repr(result))
    print(f"page and tables: {page}")


def read_merges(texts: Sequence[str]) -> dict[str, str]:
    """The mapping from spellings to spellings that ``--merge`` gives."""
    merges: dict[str, str] = {}
    for text in texts:
        old, _, new = text.partition("=")
        if not old.strip() or not new.strip():
            raise UserError(f"--merge: expected OLD=NEW, got {text!r}: write --merge females=female")
        if merges.setdefault(old, new) != new:
            raise UserError(
                f"--merge: expected one spelling for {old!r}, got {merges[old]!r} and {new!r}: leave one out"
            )
    return merges
