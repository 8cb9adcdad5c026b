"""Export a run in a format of other programs: ``triptych export RUN --to datasets|coco|imagefolder|csv|card``."""

from __future__ import annotations

import argparse

from analysis.export.exporting import FORMATS, export_run
from probes import command_line


def parser() -> command_line.Parser:
    """Return the argument parser of ``triptych export``."""
    formats = "\n".join(f"  {name:<12} {row.summary}" for name, row in FORMATS.items())
    main = command_line.Parser(
        prog="triptych export",
        description="Write a run in a format of other programs, or what it says of its model as a card.",
        epilog=f"formats:\n{formats}",
        examples={"triptych export runs/first-light --to coco": "images and instances, in first-light-coco/"},
    )
    main.add_run("directory of a run")
    main.add_argument(
        "--to", choices=list(FORMATS), required=True, metavar="FORMAT", help="format, see below"
    )
    main.add_out(help="folder to write to, new or empty (default: RUN-FORMAT in the working directory)")
    return main


def work(arguments: argparse.Namespace) -> None:
    """Write a run in the chosen format, and print where it is and how to open it."""
    done = export_run(arguments.run, arguments.to, arguments.out)
    if done.note:
        print(f"images: {done.note}")
    print(f"{arguments.to}: {done.place}\nopen it: {done.opens}")
