"""Pictures of scenes of skills: rendered, passed through an autoencoder, or drawn by `toyworld-skills`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from lab.train.skills.scenes import SkillScene, draw_scene, scenes, total
from probes.models import loading
from probes.models.pretrained import from_folder
from probes.prompts.paintskills import SKILLS
from probes.toyworld import SHARED, SKILLED, WEIGHTS
from probes.toyworld.palette import paint

if TYPE_CHECKING:
    from diffusers import AutoencoderKL, StableDiffusionPipeline

BATCH = 32


def some_scenes(number: int) -> list[SkillScene]:
    """Return so many scenes of the test split, the first of each skill: any beginning of them is even."""
    there = {skill: total(skill, "test") for skill in SKILLS}
    share = min(number / sum(there.values()), 1)
    return [
        one for skill, most in there.items() for one in islice(scenes(skill, "test"), round(share * most))
    ]


def rendered(drawn: Sequence[SkillScene]) -> np.ndarray:
    """Return the renderings of scenes, ``(n, 64, 64, 3)`` uint8."""
    return paint(np.stack([draw_scene(one) for one in drawn]))


def shared_autoencoder() -> AutoencoderKL:
    """Return the autoencoder that all other benchmark models share."""
    from diffusers import AutoencoderKL

    return from_folder(AutoencoderKL, WEIGHTS / SHARED / "vae", torch_dtype=torch.float32).eval()


def skills_model(folder: Path | None = None) -> StableDiffusionPipeline:
    """Return the pipeline of `toyworld-skills`: the bundled one, or as it is stored in a folder."""
    from probes.toyworld.skills.assemble import skills_pipeline

    pipe = (
        loading.load(loading.resolve(SKILLED), device="cpu").pipe
        if folder is None
        else skills_pipeline(folder)
    )
    pipe.set_progress_bar_config(disable=True)
    return pipe


@torch.no_grad()
def decoded(pictures: np.ndarray, vae: AutoencoderKL) -> np.ndarray:
    """Return pictures passed through an autoencoder, ``(n, 64, 64, 3)`` uint8."""
    made = []
    for start in range(0, len(pictures), BATCH):
        pixels = torch.from_numpy(pictures[start : start + BATCH]).permute(0, 3, 1, 2).float() / 127.5 - 1
        image = vae.decode(vae.encode(pixels).latent_dist.mean).sample.clamp(-1, 1)
        made.append(((image + 1) * 127.5).round().to(torch.uint8).permute(0, 2, 3, 1).numpy())
    return np.concatenate(made)


def images_of(
    pipe: StableDiffusionPipeline, drawn: Sequence[SkillScene], steps: int, guidance: float, seed: int
) -> np.ndarray:
    """Return what a pipeline draws for the scenes' prompts, ``(n, 64, 64, 3)`` uint8; a seed for each."""
    made = []
    for start in range(0, len(drawn), BATCH):
        some = drawn[start : start + BATCH]
        noise = [torch.Generator().manual_seed(seed + start + place) for place in range(len(some))]
        images = pipe(
            [one.caption for one in some],
            generator=noise,
            num_inference_steps=steps,
            guidance_scale=guidance,
            output_type="np",
        ).images
        made.append((images * 255).round().astype(np.uint8))
        print(f"{start + len(some)} of {len(drawn)} images", flush=True)
    return np.concatenate(made)
