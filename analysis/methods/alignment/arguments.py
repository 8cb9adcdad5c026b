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
    main.add_argument(
        "--features", help="features for FID and KID, joined by commas (default: all that the run holds)"
    )
    main.add_argument("--clip", help="CLIP for R-precision, one of observe.features (default: clip)")
    main.add_argument(
        "--negatives",
        type=command_line.whole_number(1, 100_000),
        default=99,
        help="captions in a pool beside the prompt itself",
    )
    main.add_argument(
        "--pool",
        choices=("word", "run"),
        default="word",
        help="take these captions from prompts with the same word, or from the whole run",
    )
    main.add_seed("pools, renderings and subsets")
    return main


def work(options: argparse.Namespace) -> None:
    """Do what the command line asks."""
    from analysis.methods.alignment import command  # not before: --help is quick

    command.work(options)
