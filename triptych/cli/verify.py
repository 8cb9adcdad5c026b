"""Verify what is read of a model on this machine: ``triptych verify MODEL``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from probes import command_line
from probes.errors import printable

if TYPE_CHECKING:
    from triptych.verification.record import Verification


def parser() -> command_line.Parser:
    """Return the argument parser of ``triptych verify``."""
    main = command_line.Parser(
        prog="triptych verify",
        description="Compare what is read of a model with what the model itself computes, on this machine: images with"
        " and without the probe, word maps against an eager softmax, captures, tokens, patches, cost, a run of eight"
        " prompts, LoRA, offloading, quantized weights. Writes a page, a JSON of the same, and the run.",
        examples={"triptych verify toyworld": "writes verify-toyworld/; exit status 1 if a check fails"},
    )
    count, size = command_line.whole_number(2, 1000), command_line.whole_number(8, 8192)
    main.add_argument("model", help="bundled model, hub id, folder of diffusers, or .safetensors file")
    main.add_argument("--images", type=count, default=2, metavar="N", help="images at once")
    main.add_argument("--steps", type=count, default=4, metavar="N", help="steps of the sampler")
    main.add_argument(
        "--size", type=size, metavar="N", help="height and width in pixels (default: the model's)"
    )
    main.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:1, mps")
    main.add_argument(
        "--dtype", default="auto", choices=("auto", "float32", "float16", "bfloat16"), help="number format"
    )
    main.add_out(help="folder to write to (default: verify-MODEL in the working directory)")
    return main


def result(arguments: argparse.Namespace) -> Verification:
    """Verify a model, print each line, write JSON and page; return the verification."""
    from triptych.verification.verification import verify

    options = vars(arguments)
    model, out = options.pop("model"), options.pop("out")
    options.pop("stages", None)
    folder = command_line.writable(out or Path(f"verify-{Path(model).stem}"), folder=True)
    verification = verify(model, folder, lambda line: print(printable(str(line)), flush=True), **options)
    verification.write(folder)
    print(f"{verification}; page: {folder / 'verify.html'}; to hand it back: {folder / 'verify.json'}")
    return verification


def work(arguments: argparse.Namespace) -> int:
    """Verify a model, print each line and write JSON and page; return 1 if a check fails, else 0."""
    return int(result(arguments).failed)
