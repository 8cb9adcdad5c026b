"""Made-up images of a trace whose truth is known: one place decides, each prompt at a step of its own.

The feminine and the masculine image of a prompt are renderings of the planted world; the reference's is one of both. A
patch draws the donor's image where it holds the deciding place, head and step of the prompt, else the recipient's.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from probes.config.measurement import Trace
from probes.runs import parts, schemas
from probes.runs.run import Run
from probes.stages.trace.variants import PatchSites, Variant, plan
from probes.toyworld.draw import render
from probes.toyworld.scene import parse, sample_scene
from probes.toyworld.world import load_world
from tests.analysis.observe.stored_images import png

CROSS = ("unet.down.1.attn.0.cross", "unet.mid.attn.0.cross", "unet.up.1.attn.0.cross")
STEPS = 8


@dataclass(frozen=True)
class Truth:
    """Where and when a prompt's image is decided."""

    site: str = CROSS[1]
    head: int = 1
    share_masculine: float = 0.7  # of the prompts whose reference image is the masculine one
    seed: int = 0
    trace: Trace = field(default_factory=lambda: Trace(windows=4, heads=[CROSS[1]], positions=["word"]))


def deciding_step(truth: Truth, triplet: int) -> int:
    """The step that decides the image of a prompt."""
    return int(np.random.default_rng([truth.seed, 9, triplet]).integers(STEPS))


def is_masculine(truth: Truth, triplet: int, seed: int) -> bool:
    """Whether the reference's image is the masculine one."""
    return bool(np.random.default_rng([truth.seed, 8, triplet, seed]).random() < truth.share_masculine)


def takes(truth: Truth, variant: Variant, triplet: int) -> bool:
    """Whether the patch gives the recipient the donor's image."""
    if variant.in_text:
        return variant.positions in ("word", None)
    return (
        truth.site in variant.sites
        and variant.heads in (None, (truth.head,))
        and variant.positions in ("word", None)
        and variant.first_step <= deciding_step(truth, triplet) < variant.stop_step
    )


def add_trace(path, truth: Truth | None = None) -> Run:
    """Write ``traced/`` of a run of `tests.analysis.synthetic_run` and the trace's record."""
    truth, run, world = truth or Truth(), Run.open(path), load_world()
    members, reference = run.config.indicators, run.config.reference
    controls = tuple(name for name, one in members.items() if one.control in (True, reference))
    places = PatchSites(CROSS, CROSS, {truth.site: 2}, ("text.layers.0",), STEPS)
    variants = plan(places, truth.trace, reference, ("feminine", "masculine"), controls)
    for number, file in enumerate(run.parts("samples")):
        rows, samples = [], parts.read_part(file, ["triplet", "seed", "indicator", "prompt"]).to_pylist()
        for triplet, seed in dict.fromkeys((one["triplet"], one["seed"]) for one in samples):
            rng = np.random.default_rng([truth.seed, 7, triplet, seed])
            named = parse(next(one["prompt"] for one in samples if one["triplet"] == triplet), world)
            images = {
                word: png(render(sample_scene(replace(named, group=word), world, rng)))
                for word in ("feminine", "masculine")
            }
            own = "masculine" if is_masculine(truth, triplet, seed) else "feminine"
            images |= dict.fromkeys((reference, *controls), images[own])
            for variant in variants:
                given = variant.donor is not None and takes(truth, variant, triplet)
                shown = images[variant.donor if given else variant.recipient]
                about = {"triplet": triplet, "seed": seed, "writes": 1, "largest_change": 1.0, "fault": None}
                rows.append({**about, **variant.row(), "image": {"bytes": shown, "path": "x.png"}})
        target = run.part_path("traced", number)
        parts.write_part(target, rows, schemas.TRACED, parts.identity(number, {"plan": "synthetic"}))
    run.write_meta(trace={})
    return run
