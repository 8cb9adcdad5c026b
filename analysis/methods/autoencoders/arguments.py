"""The arguments of ``triptych sae``."""

from __future__ import annotations

import argparse

from probes import command_line
from probes.models.devices import EXPECTED


def parser() -> command_line.Parser:
    """Return the parser of the command's arguments."""
    main = command_line.Parser(
        prog="triptych sae",
        description="Train a TopK sparse autoencoder on the activations that a run keeps (capture.keep): directions in"
        " which a site's activations decompose, a few at a time.",
        examples={
            "triptych sae runs/triplets --site unet.mid --k 8": "writes weights, tables and a figure to sae/"
        },
    )
    add = main.add_argument
    main.add_run("run with kept activations")
    main.add_out("sae")
    add("--site", default="", metavar="SITE", help="its address (default: the one that the run keeps)")
    add("--latents", type=command_line.count, help="number of latents (default: 4 for each channel)")
    add("--k", type=command_line.count, default=10, help="latents that are active in a vector")
    add("--steps", type=command_line.count, default=2000, help="steps of training")
    add("--batch", type=command_line.count, default=1024, help="vectors of a step")
    add(
        "--rate",
        type=command_line.number(0, ends=False),
        help="learning rate of Adam (default: by the number of latents, as Gao et al. 2024 have it)",
    )
    add(
        "--held-out",
        type=command_line.probability,
        default=0.2,
        metavar="SHARE",
        help="share of the prompts that is held out",
    )
    add("--vectors", type=command_line.count, default=500_000, help="most vectors that are read")
    add("--device", default="auto", help=f"where it is trained: {EXPECTED}")
    main.add_seed("weights, batches and held-out prompts")
    add("--quiet", action="store_true", help="no progress bars")
    return main


def work(options: argparse.Namespace) -> None:
    """Do what the command line asks."""
    from analysis.methods.autoencoders import command  # not before: --help is quick

    command.work(options)
