"""A small RAM: the observe stage's own tagger with small settings, trained to say what the checker sees.

Trained on renderings and on images drawn by the benchmark models (`lab.train.detectors.tagged_images`), whose truth is
the checker's word. Zhang et al. 2023 use an asymmetric loss because labels parsed from captions leave much out; the
checker leaves nothing out, so the loss here is binary cross-entropy. Where the whole model is trained, a thing's target
is how clearly it is seen (`clearness`), one half at the checker's count of pixels. As in theirs, the tags' embeddings
come from CLIP's text encoder (toyworld's: "a <tag>") and stay as they are. The Swin is that of toyworld's Grounding
DINO; at first it stays as it is, so that pictures need be encoded once, then all is trained together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional as F

from analysis.observe.checkpoints import read_weights
from analysis.observe.features.registry import FEATURES
from analysis.observe.features.texts import text_vectors
from analysis.observe.objects.tags.ram import TAG_LIST, THRESHOLDS, Ram, pixels
from lab.train.base.loop import Budget, Lessons, batches, mixed_precision
from lab.train.detectors.dino import SETTINGS as DETECTOR
from lab.train.detectors.pictures import Pictures
from lab.train.detectors.tagged_images import TAG_NAMES
from lab.train.stages import Options
from probes.toyworld import WEIGHTS
from probes.toyworld.checker import LEAST, PERSON, TAGS, drawable_area, drop_isolated, read_colours
from probes.toyworld.draw import SIZE
from probes.toyworld.palette import INDEX
from probes.toyworld.world import load_world

SWIN = DETECTOR["swin"]
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
NEARLY = 0.01  # of precision or recall
PRIOR = -2.0  # logit of a tag at the start
SHARPNESS, CELL_PRIOR = 8.0, -3.0  # of the likeness of a cell and a tag, as a logit
_BODY = [INDEX[name] for name in INDEX if name.startswith(("skin_", "hair_", "plain_"))]
# for each tag its colours and the share of a cell that they cover where it counts as seen there
_COLOURS = [
    *[(_BODY, 0.3) if tag == PERSON else ([INDEX[tag]], 0.06) for tag in TAGS],
    *[([INDEX[f"{place}_wall"], INDEX[f"{place}_floor"]], 0.3) for place in load_world().places],
]


@torch.inference_mode()
def label_embeddings() -> torch.Tensor:
    """An embedding ``(tags, 96)`` for each tag: that of "a <tag>" by toyworld's CLIP, whitened over the tags.

    Two words can lie at a cosine of 0.9999 there (hat and tie), from where no short training parts them.
    """
    sentences = [f"a {tag}" for tag in TAG_NAMES]
    embedded = text_vectors(FEATURES["clip"], WEIGHTS / "clip", sentences, torch.device("cpu"))
    texts = torch.nn.functional.normalize(embedded, dim=-1)
    left, _, right = torch.linalg.svd(texts - texts.mean(0), full_matrices=False)
    rank = len(texts) - 1  # the mean took one dimension
    return left[:, :rank] @ right[:rank]


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
    """Return which tags are seen in each cell of the grid of last tokens, by their colours: ``(n, cells, tags)``."""
    side = SIZE // SETTINGS["patch_size"] // 2 ** (len(SETTINGS["depths"]) - 1)
    cells = read_colours(images).reshape(-1, side, SIZE // side, side, SIZE // side).transpose(0, 1, 3, 2, 4)
    share = np.eye(len(INDEX), dtype=np.float32)[cells.reshape(len(images), side * side, -1)].mean(2)
    return np.stack([share[..., colours].sum(-1) > least for colours, least in _COLOURS], -1)


def clearness(images: NDArray[np.uint8], truth: NDArray[np.bool_], chunk: int = 256) -> NDArray[np.float32]:
    """Return how clearly each tag is seen, ``(n, tags)`` in [0, 1]: its pixels over twice the least count.

    At one half or above it is there for the checker. A figure and a place are there (1) or not (0).
    """
    clear = truth.astype(np.float32)
    for start in range(0, len(images), chunk):
        indices = read_colours(images[start : start + chunk])
        for thing, count in LEAST.items():
            seen = drop_isolated((indices == INDEX[thing]) & drawable_area(thing)).sum((1, 2))
            clear[start : start + chunk, TAG_NAMES.index(thing)] = np.minimum(seen / (2 * count), 1)
    return clear


def sampling_weights(clear: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return how often each picture is to be drawn, of `clearness` ``(n, tags)``; the sum is 1.

    Three times as often where a thing is half seen (0.2 to 0.8), and more the rarer the rarest thing in it is: by the
    root of the median frequency of all tags over that of the thing, where this is above 1.
    """
    frequency = np.maximum((clear >= 0.5).sum(0), 1)
    rare = np.where(clear >= 0.5, np.sqrt(np.median(frequency) / frequency), 0).max(1)
    half_seen = ((clear > 0.2) & (clear < 0.8)).any(1)
    weights = np.maximum(rare, 1) * np.where(half_seen, 3.0, 1.0)
    return weights / weights.sum()


def _by_weight(weights: NDArray[np.float64], size: int, seed: int) -> Iterator[NDArray[np.intp]]:
    rng = np.random.default_rng(seed)
    while True:
        yield rng.choice(len(weights), size, p=weights)


@torch.no_grad()
def encoded(model: Ram, images: NDArray[np.uint8], batch: int = 64) -> torch.Tensor:
    """Return what the image encoder gives for pictures, once and for all: ``(n, 1 + tokens, width)``."""
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


def lessons(model: Ram, pictures: Pictures, options: Options, budget: Budget, whole: bool = False) -> Lessons:
    """What learns (all but the tags' embeddings, and the image encoder only if `whole`), what is stored, the loss.

    The whole model is trained in mixed precision, on pictures at random with `sampling_weights`.
    """
    torch.manual_seed(options.seed)
    wanted, rows = pictures.truth.astype(np.float32), batches(len(pictures), options.batch, options.seed)
    if whole:
        wanted = clearness(pictures.images, pictures.truth)
        rows = _by_weight(sampling_weights(wanted), options.batch, options.seed)
    seen = None if whole else encoded(model, pictures.images)
    model.visual_encoder.requires_grad_(whole)
    model.label_embed.requires_grad_(False)

    def logits_of(chosen: NDArray[np.intp]) -> tuple[torch.Tensor, torch.Tensor]:
        if seen is not None:
            tokens = model.image_proj(seen[chosen])
            return tokens, model.fc(model.states(tokens)).squeeze(-1)
        with mixed_precision("cpu"):
            tokens = model.see(torch.stack([pixels(image, SIZE) for image in pictures.images[chosen]]))
            return tokens.float(), model.fc(model.states(tokens)).squeeze(-1).float()

    def loss_of(step: int) -> dict[str, torch.Tensor]:
        chosen = next(rows)
        truth = torch.from_numpy(pictures.truth[chosen])
        tokens, logits = logits_of(chosen)
        named = F.binary_cross_entropy_with_logits(logits, torch.from_numpy(wanted[chosen]))
        cells = cell_loss(model, tokens, covered(pictures.images[chosen]))
        wrong = ((logits > 0) != truth).float().sum(1).mean()
        return {"loss": named + cells, "named": named, "cells": cells, "wrong": wrong}

    return model, model, loss_of


whole_lessons = partial(lessons, whole=True)


def thresholds(model: Ram, pictures: Pictures, batch: int = 64) -> list[float]:
    """For each tag the probability above which it is said, by `best_thresholds` on pictures not trained on."""
    return best_thresholds(chances(model, pictures.images, batch), pictures.truth)


@torch.inference_mode()
def chances(model: Ram, images: NDArray[np.uint8], batch: int = 64) -> NDArray[np.float32]:
    """The model's probabilities ``(n, tags)`` for pictures ``(n, 64, 64, 3)``."""
    some = (images[start : start + batch] for start in range(0, len(images), batch))
    inputs = (torch.stack([pixels(image, SIZE) for image in group]) for group in some)
    return np.concatenate([model(group).sigmoid().numpy() for group in inputs])


def best_thresholds(probabilities: NDArray[np.floating], truth: NDArray[np.bool_]) -> list[float]:
    """For each tag that of 5 %, 10 % … 95 % nearest to one half whose score is at most `NEARLY` below the best.

    The score is the lesser of precision and recall, as the bar is of both. Where few pictures show a tag many
    thresholds do about as well; one half where none shows it.
    """
    grid = np.arange(1, 20) / 20
    above, there = probabilities[:, :, None] > grid, truth[:, :, None]
    score = (above & there).sum(0) / np.maximum(np.maximum(above.sum(0), there.sum(0)), 1)
    far = np.where(score >= score.max(1, keepdims=True) - NEARLY, np.abs(grid - 0.5), np.inf)
    return [round(float(limit), 4) for limit in grid[far.argmin(1)]]


def export_tags(folder: Path, limits: Sequence[float]) -> None:
    """Write tags and thresholds as the observe stage reads them."""
    (folder / TAG_LIST).write_text("\n".join(TAG_NAMES) + "\n")
    (folder / THRESHOLDS).write_text("".join(f"{limit}\n" for limit in limits))
