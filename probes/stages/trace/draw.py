"""Images of several variants as rows of one batch: donors, recipients and noise are those of one call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from hooks import Intervention
from hooks.architectures.registry import architecture_of
from hooks.errors import HookError
from probes.runs.images import find_faults
from probes.stages.trace import lazy_rows
from probes.stages.trace.patches import BatchRow, patches
from probes.stages.trace.triplet_draw import TripletDraw
from probes.stages.trace.variants import Variant

_GROWN = ["latents", "prompt_embeds"]  # what rows that begin later are copies of


@dataclass(frozen=True)
class TracedImage:
    """An image of a trace."""

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
    steps: int,
    guidance_scale: float | None = None,
    true_cfg_scale: float | None = None,
    height: int | None = None,
    width: int | None = None,
    negative_prompt: str = "",
    shared: bool = True,
    tick: Callable[[float], Any] = lambda images: None,
) -> list[TracedImage]:
    """Draw variants of some triplets in one batch.

    Recipients and donors of the variants are rows of it, too, each once, whether or not they are among the variants.
    Variants that exchange the same activations are one row. A variant that cannot be drawn of a triplet
    (`TripletDraw.why_not`) is left out. With `shared` a row begins when it is first written, as a
    copy of its recipient's, where the scheduler adds no noise.
    """
    wanted = [[one for one in variants if triplet.why_not(one) is None] for triplet in draws]
    rows = _rows(draws, wanted)
    if shared and lazy_rows.possible(pipe.scheduler) and not architecture_of(pipe).transformer:
        rows = sorted(rows, key=lambda row: row.begins)
    else:
        rows = [row.from_the_start() for row in rows]
    images, faults, intervention = _called(
        pipe,
        rows,
        tick,
        num_inference_steps=steps,
        height=height,
        width=width,
        guidance=(guidance_scale, true_cfg_scale),
        negative_prompt=negative_prompt,
    )
    writes, changes = [0] * len(rows), [0.0] * len(rows)
    for one in intervention.written if intervention else ():
        for row, change in zip(one.patch.into, one.changes, strict=True):
            writes[row] += one.writes
            changes[row] = float(np.fmax(changes[row], change))
    place = {(row.draw.triplet, row.draw.seed, row.variant.drawn): number for number, row in enumerate(rows)}
    found = [
        (triplet, one, place[triplet.triplet, triplet.seed, one.drawn])
        for triplet, some in zip(draws, wanted, strict=True)
        for one in some
    ]
    return [
        TracedImage(triplet, one, images[row], faults[row], writes[row], changes[row])
        for triplet, one, row in found
    ]


def _rows(draws: Sequence[TripletDraw], wanted: Sequence[Sequence[Variant]]) -> list[BatchRow]:
    """The rows of the batch: of each triplet first those in which nothing is exchanged."""
    rows = []
    for triplet, variants in zip(draws, wanted, strict=True):
        names = [name for one in variants for name in (one.recipient, one.donor) if name is not None]
        unpatched = [Variant("", "none", name) for name in dict.fromkeys(names)]
        distinct = {one.drawn: one for one in (*unpatched, *variants)}
        rows += [BatchRow(triplet, one) for one in distinct.values()]
    return rows


def _called(
    pipe: Any, rows: Sequence[BatchRow], tick: Callable[[float], Any], **call: Any
) -> tuple[NDArray[np.floating], list[str | None], Intervention | None]:
    """The pipeline's call with the patches around it: images, what is at fault with each, and what was written."""
    there = [row for row in rows if row.begins == 0]
    architecture, (scale, true_scale) = architecture_of(pipe), call.pop("guidance")
    negative = [call.pop("negative_prompt")] * len(there)
    scale = architecture.default_guidance(type(pipe)) if scale is None else scale
    generators = [torch.Generator("cpu").manual_seed(row.draw.noise_seed) for row in there]
    last: dict[str, Any] = {}

    def stepped(pipe: Any, index: int, timestep: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
        tick(len(rows) / architecture.planned(pipe))
        last.update(lazy_rows.grown(rows, pipe, index, kwargs))
        return dict(last)

    def run() -> Any:
        return pipe(
            prompt=[row.prompt for row in there],
            **architecture.call_arguments(pipe, scale, negative, true_scale),
            generator=generators,
            output_type="np",
            **architecture.step_callback(pipe, stepped),
            **({} if architecture.transformer else {"callback_on_step_end_tensor_inputs": _GROWN}),
            **call,
        )

    chosen = patches(rows)
    intervention = Intervention(pipe, chosen) if chosen else None
    if intervention is None:
        output = run()
    else:
        with intervention:
            output = run()
    images = np.asarray(output.images)
    if len(images) != len(rows):
        raise HookError(f"trace: expected {len(rows)} images, but the pipeline gave {len(images)}")
    flagged = getattr(output, "nsfw_content_detected", None)
    return images, find_faults(images, last.get("latents"), flagged), intervention
