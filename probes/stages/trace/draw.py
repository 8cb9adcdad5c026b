"""Images of several variants as rows of one batch: donors, recipients and noise are those of one call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hooks import Intervention, Patch
from hooks.architectures.registry import architecture_of
from hooks.errors import HookError
from probes.stages.drawing import call_pipeline
from probes.stages.trace.triplet_draw import TripletDraw
from probes.stages.trace.variants import POOLED, Variant, distinct_images

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


@dataclass(frozen=True)
class TracedImage:
    """An image of a trace, its fault, and how much was patched into it."""

    draw: TripletDraw
    variant: Variant
    image: NDArray[np.floating]  # in [0, 1]
    fault: str | None  # see `probes.runs.images.WHY`
    writes: int  # at how many runs of modules something was written into its row
    largest_change: float  # of a number by such a write; 0 without one


def draw(
    pipe: Any,
    draws: Sequence[TripletDraw],
    variants: Sequence[Variant],
    *,
    guidance_scale: float | None = None,
    shared: bool = True,
    tick: Callable[[float], Any] = lambda images: None,
    **options: Any,
) -> list[TracedImage]:
    """Return the images of all variants of some triplets, generated in one batch with activations patched in.

    Recipients and donors of the variants are rows of it, too, each once, whether or not they are among the variants.
    Variants that exchange the same activations are one row. A variant that cannot be drawn of a triplet
    (`TripletDraw.mismatch_reason`) is left out. With `shared` a row begins when it is first written, as a copy of its
    recipient's, where the scheduler adds no noise. `options` are those of `call_pipeline`, such as steps.
    """
    architecture = architecture_of(pipe)
    wanted = [(triplet, one) for triplet in draws for one in variants if triplet.mismatch_reason(one) is None]
    batch = _BatchRows(draws, wanted, shared and not architecture.transformer and may_grow(pipe.scheduler))
    first = [row for row, begins in zip(batch.rows, batch.begins) if begins == 0]

    def stepped(index: int, kwargs: dict[str, Any]) -> dict[str, Any]:
        tick(len(batch.rows) / architecture.planned_steps(pipe))
        return batch.add_rows(pipe.scheduler, index, kwargs)

    if guidance_scale is None:
        guidance_scale = architecture.default_guidance(type(pipe))
    if not architecture.transformer:
        # what rows that begin later are copies of
        options["callback_on_step_end_tensor_inputs"] = ["latents", "prompt_embeds"]
    prompts = [triplet.prompts[one.recipient] for triplet, one in first]
    seeds = [triplet.noise_seed for triplet, _ in first]
    with Intervention(pipe, batch.patches()) as intervention:
        images, faults = call_pipeline(
            pipe, prompts, seeds, stepped, guidance_scale=guidance_scale, **options
        )
    if len(images) != len(batch.rows):
        raise HookError(f"trace: expected {len(batch.rows)} images, but the pipeline gave {len(images)}")
    writes, changes = [0] * len(images), [0.0] * len(images)
    for written in intervention.written:
        for row, change in zip(written.patch.into, written.changes, strict=True):
            writes[row] += written.writes
            changes[row] = float(np.fmax(changes[row], change))
    numbers = [(triplet, one, batch.row_number(triplet, one)) for triplet, one in wanted]
    return [
        TracedImage(triplet, one, images[row], faults[row], writes[row], changes[row])
        for triplet, one, row in numbers
    ]


def may_grow(scheduler: Any) -> bool:
    """Return whether images may be added to a batch between a scheduler's steps: only if it adds no noise."""
    stochastic = str(scheduler.config.get("algorithm_type", "")).startswith("sde")
    return type(scheduler).__name__ in _WITHOUT_NOISE and not stochastic


class _BatchRows:
    """The images (rows) of one pipeline call, sorted by the step at which they begin; of a triplet first the unpatched.

    With `grows` a row begins when it is first written: until then it would be a copy of its recipient's. A pipeline
    takes latents and texts back from its step callback, and schedulers hold what they remember of a row in tensors with
    one row per image, so a batch can gain rows between two steps.
    """

    def __init__(
        self, draws: Sequence[TripletDraw], wanted: Sequence[tuple[TripletDraw, Variant]], grows: bool
    ) -> None:
        def begins(variant: Variant) -> int:
            return 0 if variant.in_text or not grows else variant.first_step

        of_draws = [
            (draw, distinct_images(one for triplet, one in wanted if triplet is draw)) for draw in draws
        ]
        batch = [(draw, one) for draw, some in of_draws for one in some.values()]
        self.rows = sorted(batch, key=lambda row: begins(row[1]))
        self.begins = [begins(one) for _, one in self.rows]
        self._numbers = {
            (draw.triplet, draw.seed, one.image_key): number for number, (draw, one) in enumerate(self.rows)
        }

    def row_number(self, draw: TripletDraw, variant: Variant) -> int:
        """Return the row number of a variant of a triplet."""
        return self._numbers[draw.triplet, draw.seed, variant.image_key]

    def _unpatched_row(self, draw: TripletDraw, indicator: str) -> int:
        """Return the row number of an indicator's unpatched image."""
        return self.row_number(draw, Variant("", "none", indicator))

    def patches(self) -> list[Patch]:
        """Return the patches of all rows; those that differ in their rows alone are joined to one."""
        joined: dict[Any, list[tuple[int, int]]] = {}
        for number, (draw, one) in enumerate(self.rows):
            if one.donor is None:
                continue
            steps = None if one.in_text else range(one.first_step, one.stop_step)
            pair = self._unpatched_row(draw, one.donor), number
            for site in one.sites:
                positions = [draw.positions(site, name, one.positions) for name in (one.recipient, one.donor)]
                for address, part in _patched_addresses(site, one):
                    key = (address, part, one.source, *positions, one.heads, steps)
                    joined.setdefault(key, []).append(pair)
        return [
            Patch(
                address,
                part=part,
                source=[source for source, _ in pairs],
                into=[row for _, row in pairs],
                donor=donor,
                positions=positions,
                source_positions=source_positions,
                heads=heads,
                steps=steps,
            )
            for (address, part, donor, positions, source_positions, heads, steps), pairs in joined.items()
        ]

    def add_rows(self, scheduler: Any, call: int, kwargs: dict[str, Any]) -> dict[str, Any]:
        """Return latents and prompt embeddings with the rows that begin after `call`, and add them to the scheduler."""
        held, shape = len(kwargs["latents"]), kwargs["latents"].shape
        new = [row for row, begins in zip(self.rows[held:], self.begins[held:]) if begins == call + 1]
        if not new:
            return {}
        sources = [*range(held), *(self._unpatched_row(draw, one.recipient) for draw, one in new)]
        texts = [half + source for half in range(0, len(kwargs["prompt_embeds"]), held) for source in sources]
        for name, value in vars(scheduler).items():
            setattr(scheduler, name, _select_rows(value, shape, sources))
        return {"latents": kwargs["latents"][sources], "prompt_embeds": kwargs["prompt_embeds"][texts]}


def _select_rows(value: Any, shape: torch.Size, rows: list[int]) -> Any:
    """Return `rows` of a scheduler's tensor, or list of them, of the latents' shape; any other value unchanged."""
    if isinstance(value, Tensor) and value.shape == shape:
        return value[rows]
    return [_select_rows(one, shape, rows) for one in value] if isinstance(value, list) else value


def _patched_addresses(site: str, variant: Variant) -> list[tuple[str, tuple[str, ...]]]:
    """Return the addresses that a variant patches for a site, each with the parts (of `hooks.Patch`) to patch there."""
    if variant.in_text or site == POOLED:
        return [(site, ("output",))]
    found: dict[str, list[str]] = {}
    text = f"{site}.text" if site.endswith(".joint") else site  # whose keys and values the text gives
    for part in variant.part.split("+"):
        found.setdefault(text if part in ("key", "value") else site, []).append(part)
        if part == "probabilities" and text != site:
            found[text] = ["key"]  # they are made of the keys of both streams
    return [(address, tuple(parts)) for address, parts in found.items()]
