"""What a trace will take, for ``--dry-run``; loads no weights."""

from __future__ import annotations

from probes.config.schema import Config
from probes.models.loading import Source
from probes.stages import estimate
from probes.stages.trace import requirements
from probes.stages.trace.batching import auto_batch, rows
from probes.stages.trace.variants import images


def estimated(config: Config, source: Source) -> tuple[str, estimate.RunEstimate]:
    """Return in words how much the trace of a run will draw, and what that takes."""
    assert config.trace is not None
    plan = requirements.trace_plan(config, source)
    setup = estimate.setup(config, source)
    config, pipe = setup.config, setup.pipe
    assert config.trace is not None
    prompts = min(config.trace.prompts, len(config.prompts[: config.limit]))
    draws = prompts * min(config.trace.seeds, len(config.seeds))
    asked = config.trace.batch
    size = auto_batch(pipe, setup.device.type, config) if asked == "auto" else asked
    drawn = draws * images(plan.variants)
    at_once = min(size, draws * len(rows(plan.variants)))
    count = setup.processes(drawn, at_once)
    result = estimate.RunEstimate(
        images=drawn,
        memory=estimate.memory(config, pipe, count, drawn, at_once),
        disk=estimate.image_bytes(config, pipe, draws * len(plan.variants)),
        processes=f"{setup.described(count)}, {at_once} images at once",
    )
    return f"trace: {draws} triplets and seeds x {len(plan.patched)} variants", result
