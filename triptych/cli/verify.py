"""Verify what is read of a model on this machine: ``triptych verify MODEL``."""

from __future__ import annotations

import argparse

from probes import command_line


def parser() -> command_line.Parser:
    """Return the argument parser of ``triptych verify``."""
    main = command_line.Parser(
        prog="triptych verify",
        description="Compare what is read of a model with what the model itself computes, on this machine: images with"
        " and without the probe, word maps against an eager softmax, captures, tokens, patches, cost, a run of eight"
        " prompts, LoRA, offloading, quantized weights. Writes a page, a JSON of the same, and the run.",
        examples={
            "triptych verify toyworld": "in verify-toyworld/; exit status 1 if a check fails",
            "triptych verify models/mine --size 512 --steps 4": "a folder of diffusers, at 512 x 512 pixels",
        },
    )
    main.add_argument("model", help="bundled model, hub id, folder of diffusers, or .safetensors file")
    main.add_argument(
        "--images", type=command_line.whole_number(2, 16), default=2, metavar="N", help="images"
    )
    main.add_argument(
        "--steps", type=command_line.whole_number(2, 1000), default=4, metavar="N", help="steps"
    )
    main.add_argument(
        "--size",
        type=command_line.whole_number(8, 8192),
        metavar="PIXELS",
        help="height and width of the images (default: the model's)",
    )
    main.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:1, mps")
    main.add_argument(
        "--dtype", default="auto", choices=("auto", "float32", "float16", "bfloat16"), help="number format"
    )
    main.add_out(help="folder to write to (default: verify-MODEL in the working directory)")
    return main


def work(arguments: argparse.Namespace) -> int:
    """Verify a model, print each line and write JSON and page; return 1 if a check fails, else 0."""
    from pathlib import Path

    from probes.errors import printable
    from triptych.verify.record import Line
    from triptych.verify.verification import verify

    options = vars(arguments)
    model, out = options.pop("model"), options.pop("out")
    options.pop("stages")
    folder = command_line.writable(out or Path(f"verify-{Path(model).stem}"), folder=True)

    def tell(line: Line) -> None:
        """Print a line at once."""
        print(printable(f"{line.status:<16}  {line.check}: {line.text}"), flush=True)

    verification = verify(model, folder, **options, tell=tell)
    data, page = verification.write(folder)
    print(f"{verification.summary}; page: {page}; to hand it back: {data}")
    return 1 if verification.failed else 0
