"""What a trace will take, for ``--dry-run``; loads no weights."""

from __future__ import annotations

from probes.config.schema import Config
from probes.models.loading import without_weights
from probes.models.source import Source
from probes.models.weights import pick_device
from probes.stages.estimate import in_words
from probes.stages.trace import requirements
from probes.stages.trace.batching import auto_batch, rows
from probes.stages.trace.variants import images


def estimated(config: Config, source: Source) -> str:
    """How much the trace of a run will draw, and what that takes, in words."""
    plan, pipe = requirements.trace_plan(config, source), without_weights(source)
    assert config.trace is not None
    prompts = min(config.trace.prompts, len(config.prompts[: config.limit]))
    draws = prompts * min(config.trace.seeds, len(config.seeds))
    size = config.trace.batch
    if size == "auto":
        size = auto_batch(pipe, pick_device(config.generate.device).type, config)
    at_once = min(size, draws * len(rows(plan.variants)))
    takes = in_words(config, pipe, draws * images(plan.variants), draws * len(plan.variants), at_once)
    return f"trace: {draws} triplets and seeds x {len(plan.patched)} variants: {takes}"
