"""Pace of this machine: a few steps of the smallest bundled model, timed, by which ``--dry-run`` estimates a run."""

from __future__ import annotations

from functools import cache
from time import process_time

import numpy as np

from probes.config.schema import Config
from probes.execution import workers
from probes.models import estimate, loading
from probes.models.estimate import Pace
from probes.models.requirements import guided, image_size
from probes.prompts.plan import plan
from probes.stages.drawing import draw_batch

_STEPS = (2, 2, 6)  # the first warms up; the difference of the others is four steps
_PROMPT = "a {person} riding a bike"


@cache
def pace() -> Pace:
    """Return the pace at which one core generates images of toyworld, with the probe around it.

    It is counted in seconds of the processor, so that other work on the machine does not enter; about 2 s.
    """
    source = loading.resolve("toyworld")
    loaded = loading.load(source, dtype="float32", device="cpu")
    config = Config(prompts=[_PROMPT], generate={"device": "cpu", "dtype": "float32"})
    samples = plan(config, loaded.tokenizers, loaded.token_limit)
    seconds = []
    with workers.deterministic(1):
        for steps in _STEPS:
            sampler = config.sampler.model_copy(
                update={"steps": steps, "guidance_scale": loaded.guidance_scale}
            )
            began = process_time()
            draw_batch(loaded.pipe, config.model_copy(update={"sampler": sampler}), samples)
            seconds.append(process_time() - began)
    step = max(seconds[2] - seconds[1], 1e-6) / (_STEPS[2] - _STEPS[1]) / len(samples)
    size = image_size(loaded.pipe, config)
    per_call, _ = estimate.operations(loading.without_weights(source), *size)
    image = max(0.0, seconds[1] / len(samples) - _STEPS[1] * step)
    calls = 2 if guided(config, source) else 1
    return Pace(step, image, calls * per_call / step, min(_script() for _ in range(5)))


def _script() -> float:
    """Seconds of the processor for a fixed script of the kind of work that measuring and drawing figures are."""
    began = process_time()
    numbers, lines = np.arange(64.0), []
    for count in range(5000):
        mean = float((numbers * count).mean())
        lines.append(f"{mean:.3f} {count % 7}")
    sorted(lines, key=lambda line: (line[-1], line))
    return process_time() - began
