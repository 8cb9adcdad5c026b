"""Settings resolved once when a run begins: those that the configuration leaves to model or machine.

It is plain data, so that a machine of a cluster can find it out for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hooks.architectures.registry import architecture_of
from probes.config.schema import Config
from probes.execution import workers
from probes.models import loading
from probes.models.weights import parameters
from probes.prompts.sample import Sample
from probes.runs.run import Run
from probes.stages.drawing import image_bytes, load


@dataclass(frozen=True)
class ResolvedSettings:
    """A model that was loaded, as far as others need to know."""

    model: dict[str, Any]  # what `run.json` keeps of it
    scheduler: dict[str, Any]
    guidance_scale: float  # the model's own
    device: str  # of torch
    device_name: str
    dtype: str
    batch_triplets: int
    threads: int  # of torch
    image_bytes: float | None = None  # memory of the device that an image takes, where that was measured

    def apply_to(self, config: Config) -> Config:
        """Put numbers where the configuration leaves the choice to the model or the machine."""
        import torch

        guidance = config.sampler.guidance_scale
        guidance = self.guidance_scale if guidance is None else float(guidance)
        drawn = {
            "batch_triplets": self.batch_triplets,
            "device": torch.device(self.device).type,
            "dtype": self.dtype,
        }
        return config.model_copy(
            update={
                "sampler": config.sampler.model_copy(update={"guidance_scale": guidance}),
                "generate": config.generate.model_copy(update=drawn),
            }
        )

    def device_record(self, count: int) -> dict[str, Any]:
        """Return what ``run.json`` keeps of the device, and of so many workers."""
        return {
            "name": self.device_name,
            "torch": self.device,
            "threads": self.threads,
            "workers": count,
            **({"image_bytes": self.image_bytes} if self.image_bytes else {}),
        }


def resolve_settings(
    source: loading.Source, config: Config, first: Sequence[Sample]
) -> tuple[ResolvedSettings, loading.LoadedModel]:
    """Load the model of a run and return what follows from it, and the model; `first`: the images of one triplet."""
    loaded = load(source, config, config.generate.device)
    batch, measured, auto = config.generate.batch_triplets, None, config.generate.batch_triplets == "auto"

    def settings(triplets: int) -> ResolvedSettings:
        return ResolvedSettings(
            loaded.record,
            loaded.scheduler,
            loaded.guidance_scale,
            loaded.device,
            _name(loaded.device),
            loaded.dtype,
            triplets,
            threads(loaded),
            measured,
        )

    if auto:
        measured = image_bytes(loaded, settings(1).apply_to(config), first)
        batch = workers.auto_batch(loaded.pipe, loaded.device, config, measured)
    return settings(int(batch)), loaded


def keep_begun_settings(config: Config, run: Run) -> Config:
    """Draw in the number format and with the batches with which a run was begun, where the configuration says none."""
    generate, begun = config.generate, run.config.generate
    return config.model_copy(
        update={
            "generate": generate.model_copy(
                update={
                    "dtype": begun.dtype if generate.dtype == "auto" else generate.dtype,
                    "batch_triplets": begun.batch_triplets
                    if generate.batch_triplets == "auto"
                    else generate.batch_triplets,
                }
            )
        }
    )


def threads(loaded: loading.LoadedModel) -> int:
    """Threads that torch is given for a model that is loaded."""
    return workers.threads(parameters(architecture_of(loaded.pipe).denoiser(loaded.pipe)), loaded.device)


def _name(device: str) -> str:
    import torch

    return torch.cuda.get_device_name(torch.device(device)) if device.startswith("cuda") else "CPU"
