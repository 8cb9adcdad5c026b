"""Export a run in a format of other programs: ``triptych export RUN --to hub|coco|fiftyone|imagefolder|csv``."""

from __future__ import annotations

import argparse

from analysis.export.registry import FORMATS, HUB
from probes import command_line


def parser() -> command_line.Parser:
    """Return the parser of the command's arguments."""
    formats = "\n".join(f"  {row.name:<12} {row.summary}" for row in FORMATS.values())
    main = command_line.Parser(
        prog="triptych export",
        description="Write a run in a format of other programs, or upload it to the Hugging Face Hub.",
        epilog=f"formats:\n{formats}",
        examples={"triptych export runs/first-light --to coco": "images and instances, in first-light-coco/"},
    )
    main.add_run("directory of a run")
    main.add_argument("--to", choices=list(FORMATS), required=True, help="format, see below")
    main.add_out(what="folder to write to, new or empty (default: RUN-FORMAT in the working directory)")
    main.add_argument(
        "--repo",
        default="",
        metavar="USER/NAME",
        help=f"with --to {HUB}: dataset on the Hub to upload to (default: none, nothing leaves this machine)",
    )
    main.add_argument(
        "--public",
        action="store_true",
        help="with --repo: a repository that is made is public (default: private)",
    )
    return main


def work(arguments: argparse.Namespace) -> None:
    """Run the command with its parsed arguments."""
    from analysis.export.exporting import export_run

    done = export_run(
        arguments.run, arguments.to, arguments.out, repo=arguments.repo, public=arguments.public
    )
    if done.note:
        print(f"images: {done.note}")
    print(f"{arguments.to}: {done.place}\nopen it: {done.opens}")
