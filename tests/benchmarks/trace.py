"""What exchanging activations costs: ``python -m tests.benchmarks.trace [--repetitions 7]``.

A batch of a trace, drawn with its patches and without them: the same rows, prompts, noise and steps, in turn in one run
on one thread. The ratio is that of the two times in the same repetition, by processor time: its median, least and
largest. Cases: every variant of the default trace of one triplet on `toyworld`, and a few on the shapes of Stable
Diffusion 1.4 at a small width with random weights (`tests.benchmarks.architectures`), keys and values or outputs.
Prints JSON.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

from hooks import sites
from probes.config.schema import Trace
from probes.models import loading
from probes.stages.trace.draw import draw
from probes.stages.trace.patches import BatchRow
from probes.stages.trace.triplet_draw import TripletDraw
from probes.stages.trace.variants import PatchSites, TraceWords, Variant, plan
from tests.benchmarks import architectures

BAR = 1.15
WORDS = {"neutral": "person", "feminine": "woman", "masculine": "man"}
TEXTS = {name: f"a {word} holding an umbrella" for name, word in WORDS.items()}


def variants(pipe: Any, steps: int, **trace: Any) -> tuple[Variant, ...]:
    """Of the default trace, all rows from the first step on: the patched batch is as large as the other."""
    cross = tuple(site.address for site in sites.attention_sites(pipe, "cross"))
    layers = tuple(site.address for site in sites.resolve(pipe, "text.layers.*"))
    places = PatchSites(cross, cross, {}, layers, steps)
    return plan(TraceWords("neutral", ("feminine", "masculine")), places, Trace(**trace)).variants


def timed(work: Callable[[], Any]) -> float:
    """Processor seconds."""
    began = time.process_time()
    work()
    return time.process_time() - began


def unpatched(pipe: Any, triplet: TripletDraw, rows: list[BatchRow], steps: int, size: int | None) -> None:
    """The same rows with nothing exchanged."""
    pipe(
        [row.prompt for row in rows],
        generator=[torch.Generator("cpu").manual_seed(triplet.noise_seed) for _ in rows],
        num_inference_steps=steps,
        height=size,
        width=size,
        output_type="np",
    )


def case(
    name: str, pipe: Any, steps: int, repetitions: int, size: int | None = None, **trace: Any
) -> dict[str, Any]:
    """Times of one case."""
    triplet = TripletDraw.of_texts(pipe, TEXTS, WORDS)
    chosen = variants(pipe, steps, **trace)
    rows = [BatchRow(triplet, one) for one in {one.drawn: one for one in chosen}.values()]
    ratios, seconds = [], []
    for repetition in range(repetitions + 1):
        bare = timed(lambda: unpatched(pipe, triplet, rows, steps, size))
        patched = timed(
            lambda: draw(pipe, [triplet], chosen, steps=steps, height=size, width=size, shared=False)
        )
        if repetition:  # the first warms up
            ratios.append(patched / bare)
            seconds.append(bare)
    return {
        "case": name,
        "images": len(rows),
        "steps": steps,
        "repetitions": repetitions,
        "seconds": round(statistics.median(seconds), 2),
        "ratio": round(statistics.median(ratios), 3),
        "ratio_least": round(min(ratios), 3),
        "ratio_largest": round(max(ratios), 3),
    }


def others(toyworld: Any, times: int) -> list[dict[str, Any]]:
    """Outputs in the place of keys and values, and another model."""
    narrow = architectures.build("sd14", width=0.125, size=128)
    narrow.set_progress_bar_config(disable=True)
    some = {"windows": 2, "cuts": False}
    return [
        case("toyworld, outputs", toyworld, 2, times, part="output", cuts=False),
        case("SD 1.4 at an eighth of its width, keys and values", narrow, 2, times, 128, **some),
        case("SD 1.4 at an eighth of its width, outputs", narrow, 2, times, 128, **some, part="output"),
    ]


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--repetitions", type=int, default=7)
    parser.add_argument("--toyworld", action="store_true", help="the default trace of toyworld alone")
    options = parser.parse_args()
    torch.set_num_threads(1)
    times = options.repetitions
    toyworld = loading.load(loading.resolve("toyworld"), device="cpu").pipe
    cases = [case("toyworld, default trace", toyworld, 2, times)]
    if not options.toyworld:
        cases += others(toyworld, times)
    machine = {
        "load": round(os.getloadavg()[0], 1),
        "python": platform.python_version(),
        "torch": torch.__version__,
    }
    print(
        json.dumps(
            {
                "benchmark": "trace",
                "date": str(datetime.datetime.now(datetime.UTC).date()),
                **machine,
                "bar": BAR,
                "cases": cases,
            },
            indent=1,
        )
    )


if __name__ == "__main__":
    main()
