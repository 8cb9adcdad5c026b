"""What a trace will take, for ``--dry-run``; loads no weights."""

from __future__ import annotations

from probes.config.schema import Config
from probes.models.source import Source
from probes.stages.estimate import RunEstimate, image_bytes, setup
from probes.stages.trace import requirements
from probes.stages.trace.batching import auto_batch, rows
from probes.stages.trace.variants import images


def estimated(config: Config, source: Source) -> tuple[str, RunEstimate]:
    """Return in words how much the trace of a run will draw, and what that takes."""
    plan = requirements.trace_plan(config, source)
    chosen = setup(config, source)
    config, pipe = chosen.config, chosen.pipe
    assert config.trace is not None
    prompts = min(config.trace.prompts, len(config.prompts[: config.limit]))
    draws = prompts * min(config.trace.seeds, len(config.seeds))
    asked = config.trace.batch
    size = auto_batch(pipe, chosen.device.type, config) if asked == "auto" else asked
    at_once = min(size, draws * len(rows(plan.variants)))
    disk = image_bytes(config, pipe, draws * len(plan.variants))
    result = chosen.estimate(draws * images(plan.variants), disk, at_once)
    return f"trace: {draws} triplets and seeds x {len(plan.patched)} variants", result
