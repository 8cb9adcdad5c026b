"""Training data of models that are taught what another predicts: noised drawings, and the teacher's predictions.

A benchmark model learns to predict what its teacher predicts, not the drawing that the noise was added to: the former
is the mean of the latter (Hinton et al. 2015, "Distilling the knowledge in a neural network", for diffusion models
Salimans and Ho 2022), so a step teaches as much as many steps on drawings do.
"""

from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import torch
from diffusers import StableDiffusionPipeline
from safetensors.torch import load_file, save_file
from torch import Tensor

from lab.train.base.data import make_drawings
from lab.train.base.tokenizer import encode
from lab.train.base.unet import noised
from lab.train.base.vae import encode_latents

WORLD = "toyworld"
BATCH = 64  # that a teacher is asked at a time


@dataclass(frozen=True)
class Lessons:
    """Noised latents of captions, and the velocity that a model predicts of them, ``(n, 4, 16, 16)`` float16.

    ``zones`` ``(n, 16, 16)`` are cells that count more (:func:`lab.train.base.data.small_zones`), ``directions``
    ``(n, k, 4, 16, 16)`` unit vectors at right angles; errors along them can count once more.
    """

    noisy: Tensor
    taught: Tensor
    times: Tensor
    tokens: Tensor
    zones: Tensor
    directions: Tensor | None = None

    def save(self, path: Path) -> None:
        """Write them to a file."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        save_file({name: value.contiguous() for name, value in values.items() if value is not None}, path)

    @classmethod
    def load(cls, path: Path) -> "Lessons":
        """The lessons of a file."""
        return cls(**load_file(path))

    def __len__(self) -> int:
        return len(self.times)


@torch.no_grad()
def predicted(pipe: StableDiffusionPipeline, noisy: Tensor, times: Tensor, tokens: Tensor) -> Tensor:
    """The velocity ``(n, 4, 16, 16)`` that a pipeline predicts of noised latents."""
    return pipe.unet(noisy.float(), times, pipe.text_encoder(tokens).last_hidden_state).sample


def make_lessons(
    pipe: StableDiffusionPipeline, count: int, *, noises: int = 2, time_power: float = 0.45, seed: int = 0
) -> Lessons:
    """Make lessons from ``count`` drawings, each noised ``noises`` times, by `toyworld`'s pipeline."""
    drawings = make_drawings(WORLD, count, seed + 21, with_zones=True)
    clean = encode_latents(pipe.vae, drawings, np.arange(count)).float().repeat(noises, 1, 1, 1)
    tokens = encode(pipe.tokenizer, drawings.captions).repeat(noises, 1)
    noisy, times = noised(clean, time_power, torch.Generator().manual_seed(seed))
    parts = zip(noisy.split(BATCH), times.split(BATCH), tokens.split(BATCH))
    taught = torch.cat([predicted(pipe, *part).half() for part in parts])
    return Lessons(noisy, taught, times, tokens, torch.from_numpy(drawings.zones).repeat(noises, 1, 1))
