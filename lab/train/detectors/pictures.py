"""Pictures whose boxes, labels and masks are known: renderings, and the same passed through the autoencoder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import pandas as pd
import torch
from diffusers import AutoencoderKL
from numpy.typing import NDArray

from lab.train.base.captions import random_caption
from probes.models.pretrained import from_folder, open_npz
from probes.toyworld import WEIGHTS
from probes.toyworld.checker import LEAST, THINGS, read_images
from probes.toyworld.draw import SIZE, draw
from probes.toyworld.palette import INDEX, RGB
from probes.toyworld.scene import CaptionContent, sample_scene
from probes.toyworld.verdict import verdict
from probes.toyworld.world import load_world

PERSON = "person"
LABELS: tuple[str, ...] = (PERSON, *LEAST)
WORLD = "toyworld-null"  # everything a caption can name, and no difference between the indicator words
NOISE = 0.3  # largest standard deviation of what is added to the latents, in units of their own
UNNAMED = CaptionContent("neutral")  # a picture that names nothing: all that is seen speaks for a component
_COLOURS = np.array([INDEX[label] for label in LABELS[1:]], dtype=np.uint8)


@dataclass(frozen=True)
class Pictures:
    """Pictures ``(n, 64, 64, 3)``, row by row with what is known of them; None of what is not.

    ``indices`` ``(n, 64, 64)`` are the things of the palette that pixels were drawn for, ``figures`` ``(n, 64, 64)``
    what is seen of the figure, or of both; ``labels`` ``(n, 47)`` which of `THINGS` the checker sees, ``truth`` which
    of the tagger's tags; ``verdicts`` ``(n,)`` are log-odds of component *b* where nothing was named, NaN without a
    figure; ``component`` whether a picture was drawn from *b*.
    """

    images: NDArray[np.uint8]
    indices: NDArray[np.uint8] | None = None
    figures: NDArray[np.bool_] | None = None
    labels: NDArray[np.bool_] | None = None
    truth: NDArray[np.bool_] | None = None
    verdicts: NDArray[np.float64] | None = None
    component: NDArray[np.bool_] | None = None

    def __len__(self) -> int:
        return len(self.images)

    def known(self) -> dict[str, NDArray]:
        """What is known, by name."""
        return {name: value for name, value in vars(self).items() if value is not None}

    def save(self, path: Path) -> None:
        """Write to an ``.npz`` file."""
        np.savez_compressed(path, **self.known())

    @classmethod
    def load(cls, path: Path) -> Self:
        """The pictures of a file."""
        with open_npz(path) as file:
            return cls(**{name: file[name] for name in file.files})

    @classmethod
    def together(cls, sets: Sequence[Self]) -> Self:
        """Several sets as one."""
        return cls(**{name: np.concatenate([vars(one)[name] for one in sets]) for name in sets[0].known()})

    def rows(self, chosen: NDArray | slice) -> Self:
        """Those that are chosen."""
        return type(self)(**{name: value[chosen] for name, value in self.known().items()})

    def seen(self, row: int) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
        """Numbers in `LABELS` ``(k,)`` of what is seen in a picture, and masks ``(k, 64, 64)``.

        Two figures, or two boots, are one thing, as for the checker. A mask is a thing's own colour, and for the person
        all that is seen of it.
        """
        counts = np.bincount(self.indices[row].ravel(), minlength=256)
        there = np.flatnonzero(counts[_COLOURS])
        masks = self.indices[row] == _COLOURS[there, None, None]
        return np.concatenate([[0], there + 1]), np.concatenate([self.figures[row][None], masks])

    def pixels(self, rows: NDArray[np.intp]) -> torch.Tensor:
        """The pictures at ``rows`` as the networks take them: ``(k, 3, 64, 64)`` float32 in [-1, 1]."""
        return torch.from_numpy(self.images[rows]).permute(0, 3, 1, 2).float().div_(127.5).sub_(1)


def make_pictures(count: int, seed: int, *, through_vae: float = 0.5) -> Pictures:
    """Draw pictures, the last ``through_vae`` of them as the autoencoder gives them back, as generated images are."""
    world, rng = load_world(WORLD), np.random.default_rng(seed)
    indices = np.empty((count, SIZE, SIZE), dtype=np.uint8)
    figures = np.empty((count, SIZE, SIZE), dtype=bool)
    for row in range(count):
        scene = sample_scene(random_caption(world, rng)[1], world, rng)
        indices[row] = draw(scene)
        figures[row] = indices[row] != draw(scene, figures=False)
    return Pictures(reconstructed(RGB[indices], through_vae, seed), indices, figures)


def make_labelled(count: int, seed: int, *, through_vae: float = 0.5) -> Pictures:
    """Draw pictures with what the checker sees in them before any passes the autoencoder."""
    pictures = make_pictures(count, seed, through_vae=through_vae)
    return Pictures(pictures.images, labels=labels_of(read_images(RGB[pictures.indices])))


def labels_of(seen: pd.DataFrame) -> NDArray[np.bool_]:
    """Which of `THINGS` the checker sees, ``(n, 47)``."""
    return seen[list(THINGS)].to_numpy(bool)


def make_questioned(
    count: int, seed: int, *, through_vae: float = 0.5, free: float = 0.5, empty: float = 0.04
) -> Pictures:
    """Draw labelled pictures of the null world, whose two components are as frequent whatever is said, with verdicts.

    Of ``free`` of them all is drawn at random, the others are drawn for a caption; ``empty`` ones have no figure.
    """
    world, rng = load_world(WORLD), np.random.default_rng(seed)
    indices, figures = np.empty((count, SIZE, SIZE), np.uint8), rng.random(count) >= empty
    for row in range(count):
        named = UNNAMED if rng.random() < free else random_caption(world, rng)[1]
        indices[row] = draw(sample_scene(named, world, rng), figures=bool(figures[row]))
    seen = read_images(RGB[indices])
    said = verdicts(seen)
    said[~figures] = np.nan
    return Pictures(reconstructed(RGB[indices], through_vae, seed), labels=labels_of(seen), verdicts=said)


def verdicts(seen: pd.DataFrame) -> NDArray[np.float64]:
    """Verdicts ``(n,)`` on what the checker sees in pictures for which nothing was named."""
    return verdict(seen, [UNNAMED] * len(seen), load_world(WORLD))


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
