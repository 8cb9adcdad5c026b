"""Generation of images with patched activations: variants, recipients and donors are rows of one batch."""

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
from probes.stages.batch_generation import call_pipeline
from probes.stages.trace.seeded_triplet import SeededTriplet
from probes.stages.trace.variants import POOLED, Variant, distinct_images

# schedulers of diffusers that add no noise as they are configured here, and hold their history in rows
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

    triplet: SeededTriplet
    variant: Variant
    image: NDArray[np.floating]  # in [0, 1]
    fault: str | None  # see `probes.runs.images.WHY`
    writes: int  # at how many runs of modules something was written into its row
    largest_change: float  # of a number by such a write; 0 without one


def generate_variants(
    pipe: Any,
    triplets: Sequence[SeededTriplet],
    variants: Sequence[Variant],
    *,
    guidance_scale: float | None = None,
    shared: bool = True,
    tick: Callable[[float], Any] = lambda images: None,
    **options: Any,
) -> list[TracedImage]:
    """Return the images of all variants of some triplets, generated in one batch with activations patched in.

    Recipients and donors of the variants are rows of it, too, each once, whether or not they are among the variants.
    Variants that exchange the same activations are one row. A variant that cannot be generated of a triplet
    (`SeededTriplet.mismatch_reason`) is left out. With `shared` a row begins when it is first written, as a copy of its
    recipient's, where the scheduler adds no noise. `options` are those of `call_pipeline`, such as steps.
    """
    architecture = architecture_of(pipe)
    wanted = [(each, one) for each in triplets for one in variants if each.mismatch_reason(one) is None]
    grows = shared and not architecture.transformer and allows_new_rows(pipe.scheduler)
    batch = _BatchRows(triplets, wanted, grows)
    first = [row for row, begins in zip(batch.rows, batch.begins) if begins == 0]

    def after_step(index: int, tensors: dict[str, Any]) -> dict[str, Any]:
        """Count the step, and return the tensors with the rows that begin after it."""
        tick(len(batch.rows) / architecture.planned_steps(pipe))
        return batch.add_rows(pipe.scheduler, index, tensors)

    if guidance_scale is None:
        guidance_scale = architecture.default_guidance(type(pipe))
    if not architecture.transformer:
        # what rows that begin later are copies of
        options["callback_on_step_end_tensor_inputs"] = ["latents", "prompt_embeds"]
    prompts = [triplet.prompts[one.recipient] for triplet, one in first]
    seeds = [triplet.noise_seed for triplet, _ in first]
    with Intervention(pipe, batch.patches()) as intervention:
        images, faults = call_pipeline(
            pipe, prompts, seeds, after_step, guidance_scale=guidance_scale, **options
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


def allows_new_rows(scheduler: Any) -> bool:
    """Return whether images can join a batch between a scheduler's steps: only if it adds no noise of its own."""
    stochastic = str(scheduler.config.get("algorithm_type", "")).startswith("sde")
    return type(scheduler).__name__ in _WITHOUT_NOISE and not stochastic


class _BatchRows:
    """Images (rows) of one pipeline call, by the step at which they begin; of a triplet first the unpatched ones.

    With `grows` a row begins when it is first written: until then it would be a copy of its recipient's. A pipeline
    takes latents and texts back from its step callback, and schedulers hold what they remember of a row in tensors with
    one row per image, so a batch can gain rows between two steps.
    """

    def __init__(
        self, triplets: Sequence[SeededTriplet], wanted: Sequence[tuple[SeededTriplet, Variant]], grows: bool
    ) -> None:
        def first_step(variant: Variant) -> int:
            """Return the step at which the row of a variant begins."""
            return 0 if variant.in_text or not grows else variant.first_step

        rows = [
            (triplet, one)
            for triplet in triplets
            for one in distinct_images(each for other, each in wanted if other is triplet).values()
        ]
        self.rows = sorted(rows, key=lambda row: first_step(row[1]))
        self.begins = [first_step(one) for _, one in self.rows]
        self._numbers = {
            (triplet.number, triplet.seed, one.image_key): row for row, (triplet, one) in enumerate(self.rows)
        }

    def row_number(self, triplet: SeededTriplet, variant: Variant) -> int:
        """Return the row number in the batch of the image of a triplet's variant."""
        return self._numbers[triplet.number, triplet.seed, variant.image_key]

    def _unpatched_row(self, triplet: SeededTriplet, indicator: str) -> int:
        """Return the row number in the batch of the unpatched image of a triplet's indicator."""
        return self.row_number(triplet, Variant("", "none", indicator))

    def patches(self) -> list[Patch]:
        """Return the patches of all rows, one for those that differ only in the batch rows that they copy."""
        joined: dict[Any, list[tuple[int, int]]] = {}
        for number, (triplet, one) in enumerate(self.rows):
            if one.donor is None:
                continue
            steps = None if one.in_text else range(one.first_step, one.stop_step)
            pair = self._unpatched_row(triplet, one.donor), number
            for site in one.sites:
                words = (one.recipient, one.donor)
                positions = [triplet.positions(site, name, one.positions) for name in words]
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

    def add_rows(self, scheduler: Any, call: int, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return latents and embeddings with the rows that begin after `call`, which the scheduler gets, too."""
        held, shape = len(tensors["latents"]), tensors["latents"].shape
        new = [row for row, begins in zip(self.rows[held:], self.begins[held:]) if begins == call + 1]
        if not new:
            return {}
        sources = [*range(held), *(self._unpatched_row(triplet, one.recipient) for triplet, one in new)]
        halves = range(0, len(tensors["prompt_embeds"]), held)
        texts = [half + source for half in halves for source in sources]
        for name, value in vars(scheduler).items():
            setattr(scheduler, name, _select_rows(value, shape, sources))
        return {"latents": tensors["latents"][sources], "prompt_embeds": tensors["prompt_embeds"][texts]}


def _select_rows(value: Any, shape: torch.Size, rows: list[int]) -> Any:
    """Return rows of a scheduler's tensors, or list of them, if of the latents' `shape`; other values unchanged."""
    if isinstance(value, Tensor) and value.shape == shape:
        return value[rows]
    return [_select_rows(one, shape, rows) for one in value] if isinstance(value, list) else value


def _patched_addresses(site: str, variant: Variant) -> list[tuple[str, tuple[str, ...]]]:
    """Return the addresses that a variant patches for a site, each with the parts (of `hooks.Patch`) to patch there."""
    if variant.in_text or site == POOLED:
        return [(site, ("output",))]
    addresses: dict[str, list[str]] = {}
    text = f"{site}.text" if site.endswith(".joint") else site  # whose keys and values the text gives
    for part in variant.part.split("+"):
        addresses.setdefault(text if part in ("key", "value") else site, []).append(part)
        if part == "probabilities" and text != site:
            addresses[text] = ["key"]  # they are made of the keys of both streams
    return [(address, tuple(parts)) for address, parts in addresses.items()]
