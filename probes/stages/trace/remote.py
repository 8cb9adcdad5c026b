"""The parts of the trace stage as a worker of a cluster finds them again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from probes.config.schema import Config
from probes.execution import settings as settling
from probes.execution.cluster.job import Job
from probes.execution.cluster.worker import Making
from probes.execution.part import Part
from probes.stages import generate
from probes.stages.drawing import load_again
from probes.stages.remote import plan_again
from probes.stages.trace import requirements, stage
from probes.stages.trace.batching import auto_batch


def resolve_settings(job: Job) -> dict[str, Any]:
    """The images that a batch holds on this device, the device, and threads of torch."""
    config = Config.stored(job.config)
    loaded = load_again(job.source(), config, config.generate.device, job.settings["weights"])
    return {
        "batch": auto_batch(loaded.pipe, loaded.device, config),
        "device": loaded.device,
        "threads": settling.threads(loaded),
    }


@contextmanager
def opened(job: Job) -> Iterator[Making]:
    """Hold the model, ready to draw parts."""
    config, settings = Config.stored(job.config), job.settings
    source = job.source()
    run, samples = plan_again(job, config, source)
    chunks = generate.cut(requirements.triplets(config, samples, source), config.generate.part_triplets)
    plan = requirements.trace_plan(config, source)
    counted = stage.counted_in(plan)
    tracing = stage.Tracing(source, config, settings["device"], settings["weights"], settings["threads"])

    def part(number: int) -> Part:
        return stage.part_of(
            run, config, settings["fields"], plan, settings["sizes"], number, chunks[number], counted
        )

    with tracing.opened() as do:
        yield Making(part, do, settings["device"])
