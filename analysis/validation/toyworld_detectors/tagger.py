"""A small RAM: the observe stage's own tagger with small settings, trained to say what the checker sees.

It is trained on renderings, half of them passed through the autoencoder with noise on the latents, and on images drawn
by the three specimens; the truth of every picture, rendered or drawn, is the checker's word. Zhang et al. 2023 train
with an asymmetric loss because their labels, parsed from captions, leave much out; the checker leaves nothing out, and
the loss here is binary cross-entropy. As in theirs, the tags' embeddings come from CLIP's text encoder (toyworld's:
"a <tag>") and stay as they are; and as theirs begins with a Swin trained to classify, this one has that of toyworld's
Grounding DINO, which is not trained further.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional as F

from analysis.observe.checkpoints import read_weights
from analysis.observe.objects.ram import TAG_LIST, THRESHOLDS, Ram, pixels
from analysis.observe.objects.toyworld_checker import PERSON, TAGS, ToyworldChecker
from analysis.validation.toyworld_detectors.dino import SETTINGS as DETECTOR
from analysis.validation.toyworld_detectors.pictures import WORLD, batches, reconstruct
from analysis.validation.toyworld_detectors.weights import export, save_weights
from probes.toyworld import SPECIMENS, WEIGHTS
from probes.toyworld.captions import random_caption
from probes.toyworld.checker import read_colours, read_images
from probes.toyworld.draw import SIZE, draw
from probes.toyworld.palette import INDEX, RGB
from probes.toyworld.scene import complete
from probes.toyworld.training.loop import Budget, Log, MovingAverage, train_loop
from probes.toyworld.world import load_world

SWIN = DETECTOR["swin"]
TAG_NAMES: tuple[str, ...] = (*TAGS, *load_world().places)
SETTINGS: dict[str, Any] = {
    "image_size": SIZE,
    **{name: SWIN[name] for name in ("patch_size", "embed_dim", "depths", "num_heads", "window_size")},
    "label_width": 96,
    "hidden_size": 112,
    "intermediate_size": 224,
    "attention_heads": 4,
    "layers": 2,
    "tags": len(TAG_NAMES),
}
TRAINING = 100_000  # first seed of what is trained on
THROUGH_VAE = 0.25
DRAWN_STEPS, REPEATS = 12, 3
BARE = 0.05  # share of renderings without a figure: else every picture has one
PRIOR = -2.0  # logit of a tag at the start
SHARPNESS, CELL_PRIOR = 8.0, -3.0  # of the likeness of a cell and a tag, as a logit
_BODY = [INDEX[name] for name in INDEX if name.startswith(("skin_", "hair_", "plain_"))]
# for each tag its colours and the share of a cell that they cover where it counts as seen there
_COLOURS = [
    *[(_BODY, 0.3) if tag == PERSON else ([INDEX[tag]], 0.06) for tag in TAGS],
    *[([INDEX[f"{place}_wall"], INDEX[f"{place}_floor"]], 0.3) for place in load_world().places],
]


@dataclass(frozen=True)
class Tagged:
    """Pictures and what the checker sees in them.

    Attributes
    ----------
    images : numpy.ndarray
        ``(n, 64, 64, 3)`` uint8 RGB.
    truth : numpy.ndarray
        ``(n, tags)`` bool, in the order of `TAG_NAMES`.
    """

    images: NDArray[np.uint8]
    truth: NDArray[np.bool_]

    @classmethod
    def of(cls, images: NDArray[np.uint8]) -> Tagged:
        """Pictures, read by the checker."""
        return cls(images, checked(images))

    def save(self, path: Path) -> None:
        """Write to an ``.npz`` file."""
        np.savez_compressed(path, images=self.images, truth=self.truth)

    @classmethod
    def load(cls, path: Path) -> Tagged:
        """Read what `save` wrote."""
        with np.load(path) as file:
            return cls(file["images"], file["truth"])


def checked(images: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """What the checker sees of each of `TAG_NAMES` in pictures ``(n, 64, 64, 3)``: ``(n, tags)``."""
    frame = read_images(images)
    seen = ToyworldChecker().detect(list(images), [()] * len(images))
    frame[PERSON] = [any(one.label == PERSON for one in some.detections) for some in seen]
    return frame[list(TAG_NAMES)].to_numpy(bool)


def renderings(count: int, seed: int, *, through_vae: float = 0.5) -> NDArray[np.uint8]:
    """Renderings, a few without a figure, the last `through_vae` of them as the autoencoder gives them back."""
    world, rng = load_world(WORLD), np.random.default_rng(seed)
    scenes = (complete(random_caption(world, rng)[1], world, rng) for _ in range(count))
    images = RGB[np.stack([draw(scene, figures=bool(rng.random() >= BARE)) for scene in scenes])]
    changed = round(count * through_vae)
    if changed:
        images[count - changed :] = reconstruct(images[count - changed :], seed)
    return images


def drawn(count: int, seed: int, *, steps: int) -> NDArray[np.uint8]:
    """Images drawn by the three specimens, `count` each, one after the other, from captions by lot."""
    from probes.toyworld.measure import sample, specimen_pipeline

    images = []
    for number, specimen in enumerate(SPECIMENS):
        first = seed + 10_000 * number
        rng, world = np.random.default_rng(first), load_world(specimen)
        captions = [random_caption(world, rng)[0] for _ in range(count)]
        pipeline, scale = specimen_pipeline(WEIGHTS / specimen)
        seeds, options = first + np.arange(count), {"steps": steps, "guidance_scale": scale}
        images.append(sample(pipeline, captions, seeds, batch_size=64, progress=False, **options))
    return np.concatenate(images)


@torch.inference_mode()
def label_embeddings() -> torch.Tensor:
    """An embedding ``(tags, 96)`` for each tag: that of "a <tag>" by toyworld's CLIP, whitened over the tags.

    As that CLIP has them, two words can lie at a cosine of 0.9999 (hat and tie), from where no short training parts
    them. Whitened (their mean taken off, all singular values made 1) they are as far apart as can be.
    """
    from analysis.observe.objects.taggers import ClipTagger

    texts = ClipTagger(str(WEIGHTS / "clip"), TAG_NAMES, top=1, device=torch.device("cpu")).texts
    left, _, right = torch.linalg.svd(texts - texts.mean(0), full_matrices=False)
    rank = len(texts) - 1  # the mean took one dimension
    return left[:, :rank] @ right[:rank]


def make_tagged(count: int, drawn_count: int, seed: int) -> Tagged:
    """Pictures to train on: `count` renderings, some through the autoencoder, and what each specimen drew, repeated."""
    rendered = Tagged.of(renderings(count, TRAINING + seed, through_vae=THROUGH_VAE))
    if not drawn_count:
        return rendered
    made = Tagged.of(drawn(drawn_count, 5 * TRAINING + seed, steps=DRAWN_STEPS))
    images = [rendered.images, *[made.images] * REPEATS]
    return Tagged(np.concatenate(images), np.concatenate([rendered.truth, *[made.truth] * REPEATS]))


def new_tagger() -> Ram:
    """The model with the detector's image encoder and the tags' embeddings in place, the rest freshly drawn."""
    model = Ram(SETTINGS)
    path, prefix = WEIGHTS / "grounding-dino" / "model.safetensors", "backbone.0."
    weights = read_weights(path, "--weights")
    swin = {name.removeprefix(prefix): weights[name].float() for name in weights if name.startswith(prefix)}
    last = f"norm{len(SETTINGS['depths']) - 1}."
    swin = {name.replace(last, "norm.") if name.startswith(last) else name: swin[name] for name in swin}
    # its norms of earlier stages, for its several levels, and indices that are computed, have no place here
    known = model.visual_encoder.state_dict()
    model.visual_encoder.load_state_dict({name: swin[name] for name in known})
    with torch.no_grad():
        model.label_embed.copy_(label_embeddings())
        model.fc.bias.fill_(PRIOR)
        # embeddings are of length 1: this gives the decoder's input a deviation of 1
        torch.nn.init.normal_(model.wordvec_proj.weight)
    return model


def covered(images: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Which tags are seen in each cell of the grid of last tokens, by their colours: ``(n, cells, tags)``."""
    side = SIZE // SETTINGS["patch_size"] // 2 ** (len(SETTINGS["depths"]) - 1)
    cells = read_colours(images).reshape(-1, side, SIZE // side, side, SIZE // side).transpose(0, 1, 3, 2, 4)
    share = np.eye(len(INDEX), dtype=np.float32)[cells.reshape(len(images), side * side, -1)].mean(2)
    return np.stack([share[..., colours].sum(-1) > least for colours, least in _COLOURS], -1)


@torch.no_grad()
def encoded(model: Ram, images: NDArray[np.uint8], batch: int = 64) -> torch.Tensor:
    """What the image encoder gives for pictures, once and for all: ``(n, 1 + tokens, width)``."""
    chunks = [
        model.visual_encoder(torch.stack([pixels(image, SIZE) for image in images[start : start + batch]]))
        for start in range(0, len(images), batch)
    ]
    return torch.cat(chunks)


def cell_loss(model: Ram, tokens: torch.Tensor, cover: NDArray[np.bool_]) -> torch.Tensor:
    """Binary cross-entropy of every cell's cosine-like likeness to every tag's embedding, against what it shows.

    A head start: the image's tokens learn from each cell what it shows while the decoder learns to ask for it.
    """
    likeness = SHARPNESS * tokens[:, 1:] @ model.label_embed.T + CELL_PRIOR
    return F.binary_cross_entropy_with_logits(likeness, torch.from_numpy(cover).float())


def train_tagger(
    model: Ram,
    pictures: Tagged,
    budget: Budget,
    log: Log,
    *,
    batch_size: int = 32,
    learning_rate: float = 2e-3,
    seed: int = 0,
    checkpoint: Path | None = None,
) -> Ram:
    """Train all but the image encoder and the tags' embeddings; the model gets the moving average of its weights."""
    torch.manual_seed(seed)
    rows = batches(len(pictures.images), batch_size, seed)
    seen = encoded(model, pictures.images)
    for fixed in (model.visual_encoder, model.label_embed):
        fixed.requires_grad_(False)
    average = MovingAverage(model, 0.995)

    def loss_of(step: int) -> dict[str, torch.Tensor]:
        chosen = next(rows)
        truth = torch.from_numpy(pictures.truth[chosen])
        tokens = model.image_proj(seen[chosen])
        logits = model.ask(tokens)
        named = F.binary_cross_entropy_with_logits(logits, truth.float())
        cells = cell_loss(model, tokens, covered(pictures.images[chosen]))
        wrong = ((logits > 0) != truth).float().sum(1).mean()
        return {"loss": named + cells, "named": named, "cells": cells, "wrong": wrong}

    def save() -> None:
        if checkpoint is not None:
            save_weights(model, checkpoint, overwrite=average.values)

    train_loop(model, loss_of, budget, log, learning_rate, 0.01, average, save=save)
    average.copy_to(model)
    return model.eval()


def thresholds(model: Ram, pictures: Tagged, batch: int = 64) -> list[float]:
    """For each tag the probability above which it is said: where F1 is highest on pictures not trained on.

    The middle of the best of 5 %, 10 % … 95 %; one half where no picture shows the tag.
    """
    chances = []
    with torch.inference_mode():
        for start in range(0, len(pictures.images), batch):
            inputs = torch.stack([pixels(image, SIZE) for image in pictures.images[start : start + batch]])
            chances.append(model(inputs).sigmoid().numpy())
    grid = np.arange(1, 20) / 20
    above = np.concatenate(chances)[:, :, None] > grid
    truth = pictures.truth[:, :, None]
    score = 2 * (above & truth).sum(0) / np.maximum(above.sum(0) + truth.sum(0), 1)
    best = np.where(truth.any(0), score == score.max(1, keepdims=True), grid == 0.5)
    return [round(float(grid[row].mean()), 4) for row in best]


def export_tagger(model: Ram, folder: Path, limits: Sequence[float]) -> None:
    """Write weights, settings, tags and thresholds as the observe stage reads them."""
    export(model, folder, SETTINGS)
    (folder / TAG_LIST).write_text("\n".join(TAG_NAMES) + "\n")
    (folder / THRESHOLDS).write_text("".join(f"{limit}\n" for limit in limits))
