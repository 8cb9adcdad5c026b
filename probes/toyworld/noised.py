"""Forward-noised renderings whose mixture component is known: what there is to read of it in a latent at a timestep.

A renderer draws both components of what a prompt does not name; the picture is encoded, and noise of the scheduler is
added as in training. Whoever reads the component from that reads the world and not a model's use of a word: it is the
reference against which probes of a model are held (:mod:`analysis.methods.decoding.fit`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from probes.toyworld.draw import draw
from probes.toyworld.palette import RGB
from probes.toyworld.scene import parse, sample_scene
from probes.toyworld.world import load_world

CHUNK = 64  # pictures encoded at a time


def encode_renderings(
    pipe: Any, prompts: Sequence[str], count: int, seed: int = 0
) -> tuple[NDArray[np.float32], NDArray[np.float64], NDArray[np.int64]]:
    """Return VAE latents of `count` renderings per prompt and mixture component, and their components and prompts.

    Latents ``(n, channels, height, width)`` are scaled as the denoiser gets them, without noise; components ``(n,)``
    are 1 for b, 0 for a; prompts ``(n,)`` are indices.
    """
    import torch

    world, rng = load_world(), np.random.default_rng(seed)
    pictures, component, prompt = [], [], []
    for index, text in enumerate(prompts):
        named = parse(text, world)
        for value in (0.0, 1.0):
            planted = replace(world, mixture=dict.fromkeys(world.mixture, value))
            pictures += [draw(sample_scene(named, planted, rng)) for _ in range(count)]
            component += [value] * count
            prompt += [index] * count
    scale, encoded = pipe.vae.config.scaling_factor, []
    with torch.no_grad():
        for start in range(0, len(pictures), CHUNK):
            pixels = torch.from_numpy(RGB[np.stack(pictures[start : start + CHUNK])]).permute(0, 3, 1, 2)
            pixels = pixels.to(pipe.vae.device, pipe.vae.dtype).div(127.5).sub(1.0)
            encoded.append((pipe.vae.encode(pixels).latent_dist.mean * scale).float().cpu().numpy())
    return np.concatenate(encoded), np.array(component), np.array(prompt, np.int64)


def add_noise(
    pipe: Any, latents: NDArray[np.float32], timesteps: Sequence[float], seed: int = 0
) -> Iterator[NDArray[np.float32]]:
    """Yield the latents with noise added as by the scheduler at each timestep; one image has the same noise at all."""
    import torch

    clean = torch.from_numpy(latents)
    noise = torch.randn(clean.shape, generator=torch.Generator().manual_seed(seed))
    for timestep in timesteps:
        when = torch.full((len(clean),), round(timestep), dtype=torch.int64)
        yield pipe.scheduler.add_noise(clean, noise, when).numpy()
