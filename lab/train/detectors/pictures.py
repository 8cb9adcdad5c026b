"""Pictures whose boxes, labels and masks are known: renderings, and the same passed through the autoencoder."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Self

import numpy as np
import torch
from diffusers import AutoencoderKL
from numpy.typing import NDArray

from lab.train.base.captions import random_caption
from probes.models.pretrained import from_folder, open_npz
from probes.toyworld import WEIGHTS
from probes.toyworld.checker import LEAST, THINGS, read_images
from probes.toyworld.draw import SIZE, draw
from probes.toyworld.palette import INDEX, RGB
from probes.toyworld.scene import sample_scene
from probes.toyworld.world import load_world

PERSON = "person"
LABELS: tuple[str, ...] = (PERSON, *LEAST)
WORLD = "toyworld-null"  # everything a caption can name, and no difference between the indicator words
NOISE = 0.3  # largest standard deviation of what is added to the latents, in units of their own
_COLOURS = np.array([INDEX[label] for label in LABELS[1:]], dtype=np.uint8)


@dataclass(frozen=True)
class Pictures:
    """Pictures ``(n, 64, 64, 3)``, row by row with what a subclass knows of them."""

    images: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.images)

    def save(self, path: Path) -> None:
        """Write to an ``.npz`` file."""
        np.savez_compressed(path, **vars(self))

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read what `save` wrote."""
        with open_npz(path) as file:
            return cls(**{field.name: file[field.name] for field in fields(cls)})


@dataclass(frozen=True)
class PictureSet(Pictures):
    """Pictures, the thing of the palette that each pixel was drawn for, and what is seen of the figure, or of both."""

    indices: NDArray[np.uint8]
    figures: NDArray[np.bool_]

    def seen(self, row: int) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
        """Numbers in `LABELS` ``(k,)`` of what is seen in a picture, and masks ``(k, 64, 64)``.

        Two figures, or two boots, are one thing, as for the checker. A mask is a thing's own colour, and for the person
        all that is seen of it.
        """
        counts = np.bincount(self.indices[row].ravel(), minlength=256)
        there = np.flatnonzero(counts[_COLOURS])
        masks = self.indices[row] == _COLOURS[there, None, None]
        return np.concatenate([[0], there + 1]), np.concatenate([self.figures[row][None], masks])


@dataclass(frozen=True)
class LabelledPictures(Pictures):
    """Pictures with a column for each of `THINGS`, ``labels`` ``(n, 47)``, of whose places just one is true."""

    labels: NDArray[np.bool_]

    def pixels(self, rows: NDArray[np.intp]) -> torch.Tensor:
        """The pictures at ``rows`` as the networks take them: ``(k, 3, 64, 64)`` float32 in [-1, 1]."""
        return torch.from_numpy(self.images[rows]).permute(0, 3, 1, 2).float().div_(127.5).sub_(1)


def make_pictures(count: int, seed: int, *, through_vae: float = 0.5) -> PictureSet:
    """Draw pictures, the last ``through_vae`` of them as the autoencoder gives them back.

    The detectors are for generated images, which are a decoder's work: latents of a picture, with some noise of a
    strength drawn for each, give the like.
    """
    world, rng = load_world(WORLD), np.random.default_rng(seed)
    indices = np.empty((count, SIZE, SIZE), dtype=np.uint8)
    figures = np.empty((count, SIZE, SIZE), dtype=bool)
    for row in range(count):
        scene = sample_scene(random_caption(world, rng)[1], world, rng)
        indices[row] = draw(scene)
        figures[row] = indices[row] != draw(scene, figures=False)
    return PictureSet(reconstructed(RGB[indices], through_vae, seed), indices, figures)


def make_labelled(count: int, seed: int, *, through_vae: float = 0.5) -> LabelledPictures:
    """Draw pictures with what the checker sees in them before any passes the autoencoder."""
    pictures = make_pictures(count, seed, through_vae=through_vae)
    return LabelledPictures(pictures.images, read_images(RGB[pictures.indices])[list(THINGS)].to_numpy(bool))


def reconstructed(images: NDArray[np.uint8], share: float, seed: int) -> NDArray[np.uint8]:
    """The pictures, the last ``share`` of them as the autoencoder gives them back."""
    changed = round(len(images) * share)
    if changed:
        images[-changed:] = reconstruct(images[-changed:], seed)
    return images


@torch.inference_mode()
def reconstruct(images: NDArray[np.uint8], seed: int, noise: float = NOISE) -> NDArray[np.uint8]:
    """Pass pictures ``(n, 64, 64, 3)`` through the autoencoder, with noise up to ``noise`` on the latents."""
    vae = from_folder(AutoencoderKL, WEIGHTS / WORLD / "vae", torch_dtype=torch.float32).eval()
    generator, scale = torch.Generator().manual_seed(seed), vae.config.scaling_factor
    parts = []
    for start in range(0, len(images), 64):
        pixels = torch.from_numpy(images[start : start + 64]).permute(0, 3, 1, 2).float() / 127.5 - 1
        latents = vae.encode(pixels).latent_dist.mean * scale
        strength = noise * torch.rand((len(latents), 1, 1, 1), generator=generator)
        latents = latents + strength * torch.randn(latents.shape, generator=generator)
        decoded = vae.decode(latents / scale).sample.clamp(-1, 1)
        parts.append(((decoded + 1) * 127.5).round().byte().permute(0, 2, 3, 1).numpy())
    return np.concatenate(parts)


def boxes_of(masks: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Tight boxes ``(k, 4)``, ``x0, y0, x1, y1`` in pixels, of masks ``(k, h, w)`` none of which is empty."""
    rows, columns = masks.any(2), masks.any(1)
    height, width = masks.shape[1:]
    return np.stack(
        [
            columns.argmax(1),
            rows.argmax(1),
            width - columns[:, ::-1].argmax(1),
            height - rows[:, ::-1].argmax(1),
        ],
        axis=1,
    ).astype(np.float32)


def batches(count: int, size: int, seed: int) -> Iterator[NDArray[np.intp]]:
    """Rows of ``count`` pictures in random order, ``size`` at a time, for ever."""
    rng = np.random.default_rng(seed)
    while True:
        order = rng.permutation(count)
        for start in range(0, count - size + 1, size):
            yield order[start : start + size]
