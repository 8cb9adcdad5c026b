"""The arguments of ``triptych audit alignment``."""

from __future__ import annotations

import argparse

from probes import command_line


def parser() -> command_line.Parser:
    """Return the parser of the command's arguments."""
    main = command_line.Parser(
        prog="triptych audit alignment",
        description="Image-text alignment and image quality of a run (DALL-Eval, appendix D).",
        examples={
            "triptych audit alignment runs/first-light --reference renderings": (
                "R-precision, and FID and KID against renderings of the same prompts (of toyworld alone)"
            )
        },
    )
    main.add_run("directory of a run whose images were observed (--stage observe)")
    main.add_argument(
        "--reference",
        help="what FID and KID compare with: a folder of images, or `renderings` of toyworld's prompts"
        " (default: neither is computed)",
    )
    main.add_seed("pools, renderings and groups of prompts")
    return main


def work(options: argparse.Namespace) -> None:
    """Do what the command line asks."""
    from analysis.methods.alignment import command  # not before: --help is quick

    command.work(options)
