"""Cost of an image on this machine: measured with the bundled model, reckoned for published models."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from time import monotonic

from probes.config.schema import Config
from probes.execution.settings import ResolvedSettings
from probes.models import estimate, hub, loading
from probes.models.devices import pick_device, pick_dtype
from probes.prompts import plan
from probes.stages.drawing import Drawing, load
from probes.toyworld import MODELS

PROMPTS = [f"a {{person}} with a {thing}" for thing in ("dog", "cat", "ball", "kite", "book", "cup")]
STEPS, SIDE = 20, 64
PUBLISHED_STEPS = 30  # the default of `sampler.steps`; with guidance, the default of these models


@dataclass(frozen=True)
class ImageCost:
    """Seconds that one image takes, with the probe around the model.

    Attributes
    ----------
    model : str
    side, steps : int
        Pixels along a side; denoising steps.
    seconds : float
        Of one process.
    basis : str
        How it is known.
    """

    model: str
    side: int
    steps: int
    seconds: float
    basis: str


def measured(deadline: float) -> ImageCost:
    """Generate triplets with the bundled model and take the time; the first one warms up where there are more.

    Parameters
    ----------
    deadline : float
        By `time.monotonic`, after which no further triplet is begun; one is made in any case.
    """
    config = Config(prompts=PROMPTS, sampler={"steps": STEPS})
    source = loading.resolve(MODELS[0])
    tokenizers, limit = loading.tokenizers(source)
    samples = plan.plan(config, tokenizers, limit)
    loaded = load(source, config, "auto")
    found = ResolvedSettings.of(loaded, config)
    config = found.apply_to(config)
    drawing = Drawing(
        source, config, found.device, found.model["weight_hash"], found.threads, samples[0].sample_id, loaded
    )
    members, times = len(config.indicators), []
    with drawing.opened() as draw:
        for first in range(0, len(samples), members):
            began = monotonic()
            draw(samples[first : first + members], lambda share: None)
            times.append(monotonic() - began)
            if monotonic() > deadline:
                break
    kept = times[1:] or times
    basis = f"measured on {len(kept) * members} images, {found.device_name}, threads: {found.threads}"
    return ImageCost(source.name, SIDE, STEPS, sum(kept) / len(kept) / members, basis)


def reckoned() -> Iterator[ImageCost]:
    """Reckon with the operations of published models and the speed of a matrix product that is just timed."""
    import torch

    device = pick_device("auto")
    dtype = pick_dtype("auto", device, bundled=False)
    threads = torch.get_num_threads()
    speed = estimate.speed(device, dtype, threads)
    for name, entry in hub.known().items():
        if operations := entry.get("gflop"):
            total = (2 * PUBLISHED_STEPS * operations["call"] + operations["decode"]) * 1e9
            basis = f"reckoned at {speed / 1e9:.3g} GFLOP/s, {dtype} on {device}, threads: {threads}"
            yield ImageCost(name, entry["side"], PUBLISHED_STEPS, total / speed, basis)
