"""Every case of the page on one GPU, unattended: ``python -m tests.benchmarks.gpu --out $OUT``.

Stable Diffusion 1.4, 2.1, XL and 3 and FLUX.1 at full width, each at the size that it was published for, 50 steps:
first with one image at once, then with the largest batch of whole triplets that fits, found by drawing one step of two
small batches, laying a line through their peaks, and trying. What does not fit the time is drawn with fewer steps or
repetitions, or left out, and said so. A file is written after every case, so what was measured stays when the command
is cut off.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from tests.benchmarks import architectures
from tests.benchmarks.architectures import TRANSFORMERS
from tests.benchmarks.word_maps import Worker, measure_with, modes_of, record

SHARE = 0.92  # of the free memory that the largest batch may be expected to take
LARGEST = 96  # images; a larger batch says nothing more and takes minutes
LEAST_STEPS = 4
SIZES = {"sd14": 512, "sd21": 768, "sdxl": 1024, "sd3": 1024, "flux": 1024}  # pixels
GUIDANCE = {"flux": 3.5}


class Clock:
    """Seconds left of a budget."""

    def __init__(self, budget: float) -> None:
        self._end = time.monotonic() + budget

    @property
    def left(self) -> float:
        return self._end - time.monotonic()


def fit(
    seconds_a_step: float, fixed: float, modes: int, seconds: float, steps: int, repetitions: int
) -> tuple[int, int]:
    """Steps and repetitions of a case that has so many seconds; (0, 0) if it cannot be drawn at all.

    Repetitions are given up first, down to 2, then steps, down to `LEAST_STEPS`.
    """
    for tried in range(repetitions, 1, -1):
        if modes * tried * (fixed + steps * seconds_a_step) <= seconds:
            return steps, tried
    fewer = int((seconds / (2 * modes) - fixed) / seconds_a_step)
    return (min(fewer, steps), 2) if fewer >= LEAST_STEPS else (0, 0)


def extrapolated(peaks: tuple[float, float], free_mib: float, largest: int = LARGEST) -> int:
    """Images, in whole triplets, that should fit, from the peaks of batches of 3 and of 6; at least 6."""
    an_image = max((peaks[1] - peaks[0]) / 3, 1e-3)
    batch = 3 + math.floor((SHARE * free_mib - peaks[0]) / an_image)
    return max(6, min(batch, largest) // 3 * 3)


def largest_batch(worker: Worker, free_mib: float, largest: int = LARGEST) -> int:
    """The largest number of images, in whole triplets, that draws with every mode; 0 if not one triplet does."""

    def peak(batch: int) -> float | None:
        answers = [worker.run(mode, steps=1, batch=batch) for mode in ("bare", "default")]
        return None if any("error" in answer for answer in answers) else max(a["peak_mib"] for a in answers)

    peaks = [peak(3), peak(6)]
    if None in peaks:
        return 3 if peaks[0] is not None else 0
    batch = extrapolated((peaks[0], peaks[1]), free_mib, largest)
    while batch > 6 and peak(batch) is None:
        batch = max(6, int(batch * 0.8) // 3 * 3)
    return batch


def case_figures(
    worker: Any, case: dict[str, Any], modes: list[str], seconds: float, repetitions: int
) -> dict[str, Any] | None:
    """Measure a case in about so many seconds; None if there is no time for it."""
    batch = case["batch"]
    short, longer = (worker.run("bare", steps=steps, batch=batch) for steps in (1, 3))
    if "error" in short or "error" in longer:
        return None
    a_step = max((longer["seconds"] - short["seconds"]) / 2, 1e-4)
    fixed = max(longer["seconds"] - 3 * a_step, 0.0)
    steps, repetitions = fit(a_step, fixed, len(modes), seconds, case["steps"], repetitions)
    if not steps:
        return None
    return measure_with(
        {"ours": worker}, [("ours", mode) for mode in modes], case | {"steps": steps}, repetitions
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.gpu", description=__doc__.split("\n\n")[0]
    )
    parser.add_argument("--out", type=Path, required=True, help="folder for one JSON file a case")
    parser.add_argument("--budget", type=float, default=520.0, help="seconds in all")
    parser.add_argument("--architectures", nargs="+", default=list(architectures.ARCHITECTURES))
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--largest", type=int, default=LARGEST, help="images a batch at most")
    parser.add_argument("--width", type=float, default=1.0, help="factor on the number of channels")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    types = ("float32", "float16", "bfloat16")
    parser.add_argument("--dtype", choices=types, help="default: float16, of transformers bfloat16")
    options = parser.parse_args(argv)
    options.out.mkdir(parents=True, exist_ok=True)
    clock = Clock(options.budget)
    free_mib = torch.cuda.mem_get_info()[0] / 2**20 if options.device.startswith("cuda") else 4096.0
    notes = []
    for number, architecture in enumerate(options.architectures):
        size = SIZES[architecture]
        # a pipeline serves both batches, so that its weights are made once; cases that are left share the time left
        share = clock.left / (len(options.architectures) - number)
        if share < 10:
            notes.append(f"{architecture} {size}: left out, no time left")
            continue
        case = {
            "size": size,
            "steps": options.steps,
            "batch": 1,
            "guidance_scale": GUIDANCE.get(architecture, 7.5),
            "device": options.device,
            "dtype": options.dtype or ("bfloat16" if architecture in TRANSFORMERS else "float16"),
            "threads": None,
            "build": {"architecture": architecture, "width": options.width, "size": size},
        }
        try:
            notes += _place(case, share, free_mib, options)
        except SystemExit as error:
            notes.append(f"{architecture} {size}: {error}")
        print(f"{architecture} {size}: done, {clock.left:.0f} s left", flush=True)
    (options.out / "notes.txt").write_text("".join(f"{note}\n" for note in notes))
    print("\n".join(notes))
    return 0


def _place(case: dict[str, Any], share: float, free_mib: float, options: argparse.Namespace) -> list[str]:
    """Both batches of one architecture and size; what was left out, in words."""
    clock, notes = Clock(share), []
    name = f"{case['build']['architecture']}-{case['size']}"
    worker = Worker(sys.executable, case)
    try:
        for kind in ("single", "triplets"):
            if kind == "triplets":
                case = case | {"batch": largest_batch(worker, free_mib, options.largest)}
                if not case["batch"]:
                    notes.append(f"{name}: not one triplet fits")
                    break
            seconds = clock.left * (0.45 if kind == "single" else 0.85)
            figures = case_figures(worker, case, modes_of(case), seconds, options.repetitions)
            if figures is None:
                notes.append(f"{name}, batch {case['batch']}: left out, no time left")
                continue
            found = json.dumps(record(figures, case["device"], None), indent=1)
            (options.out / f"{name}-{kind}.json").write_text(found + "\n")
    finally:
        worker.close()
    return notes


if __name__ == "__main__":
    sys.exit(main())
