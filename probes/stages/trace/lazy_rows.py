"""Rows that begin when they are first written: until then they would be copies of their recipient's row.

A pipeline takes latents and texts back from its step callback, and schedulers hold what they remember of a row in
tensors with one row per image, so a batch can gain rows between two steps. Not with a scheduler that draws noise: it
draws for the rows of the batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from probes.stages.trace.patches import BatchRow, unpatched

# schedulers of diffusers that draw no noise as they are configured here, and hold their history in rows
_WITHOUT_NOISE = (
    "DDIMScheduler",
    "DPMSolverMultistepScheduler",
    "EulerDiscreteScheduler",
    "HeunDiscreteScheduler",
    "LMSDiscreteScheduler",
    "PNDMScheduler",
    "UniPCMultistepScheduler",
)


def possible(scheduler: Any) -> bool:
    """Return whether a batch may gain rows while a scheduler steps."""
    stochastic = str(scheduler.config.get("algorithm_type", "")).startswith("sde")
    return type(scheduler).__name__ in _WITHOUT_NOISE and not stochastic


def grown(batch: Sequence[BatchRow], pipe: Any, call: int, kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return latents and texts (`kwargs`) for the call of the denoiser after `call`, with the rows that begin at it.

    Rows of the whole batch are in the order in which they begin.
    """
    rows = len(kwargs["latents"])
    new = [row for row in batch[rows:] if row.begins == call + 1]
    if not new:
        return kwargs
    sources = [*range(rows), *(unpatched(batch, row, row.variant.recipient) for row in new)]
    halves = len(kwargs["prompt_embeds"]) // rows
    texts = [half * rows + source for half in range(halves) for source in sources]
    _grow(pipe.scheduler, kwargs["latents"].shape, sources)
    return {"latents": kwargs["latents"][sources], "prompt_embeds": kwargs["prompt_embeds"][texts]}


def _grow(scheduler: Any, shape: torch.Size, sources: Sequence[int]) -> None:
    """Give new rows the history of those that they are copies of."""

    def of(value: Any) -> Any:
        if isinstance(value, Tensor) and value.shape == shape:
            return value[list(sources)]
        return [of(one) for one in value] if isinstance(value, list) else value

    for name, value in vars(scheduler).items():
        if isinstance(value, Tensor | list):
            setattr(scheduler, name, of(value))
