"""Every case of the page on one GPU: ``python -m tests.benchmarks.gpu --out $OUT``.

Stable Diffusion 1.4, 2.1, XL and 3 and FLUX.1 at full width, each at the size that it was published for, with one image
at once and with four triplets. A file is written after every case, so what was measured stays when the command is cut
off; a case without room on the device is left out, and said so.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

from tests.benchmarks.architectures import ARCHITECTURES, TRANSFORMERS
from tests.benchmarks.word_maps import Worker, measure_with, modes_of, record

SIZES = {"sd14": 512, "sd21": 768, "sdxl": 1024, "sd3": 1024, "flux": 1024}  # pixels
GUIDANCE = {"flux": 3.5}
BATCHES = {"single": (1, 50, 5), "triplets": (12, 20, 2)}  # images, steps, repetitions


def main(argv: Sequence[str] | None = None) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.gpu", description=__doc__.split("\n\n")[0]
    )
    parser.add_argument("--out", type=Path, required=True, help="folder for one JSON file a case")
    parser.add_argument("--architectures", nargs="+", default=list(ARCHITECTURES), choices=ARCHITECTURES)
    parser.add_argument("--width", type=float, default=1.0, help="factor on the number of channels")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args(argv)
    options.out.mkdir(parents=True, exist_ok=True)
    for architecture in options.architectures:
        size = SIZES[architecture]
        case = {
            "size": size,
            "guidance_scale": GUIDANCE.get(architecture, 7.5),
            "device": options.device,
            "dtype": "bfloat16" if architecture in TRANSFORMERS else "float16",
            "threads": None,
            "build": {"architecture": architecture, "width": options.width, "size": size},
        }
        worker = Worker(sys.executable, case)  # serves both batches, so that its weights are made once
        for kind, (batch, steps, repetitions) in BATCHES.items():
            case |= {"batch": batch, "steps": steps}
            try:
                plan = [("ours", mode) for mode in modes_of(case)]
                figures = measure_with({"ours": worker}, plan, case, repetitions)
            except SystemExit as error:
                print(f"{architecture} {size}, {batch} images: left out: {error}", flush=True)
                continue
            text = json.dumps(record(figures, case["device"], None), indent=1)
            (options.out / f"gpu-{architecture}-{size}-{kind}.json").write_text(text + "\n", "utf-8")
        worker.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
