"""Train the small Grounding DINO, with three head starts over training it as it is.

Trained as it is, such a model hardly begins in a thousand steps. So:

- the similarity of queries and tokens starts at a low chance (`lab.train.detectors.dino.new_dino`);
- the image side learns from every pixel at once (`dense_loss`): each cell says which tags cover it and where the
  smallest of them ends, before and while the decoder learns to pick;
- denoising queries (Li et al. 2022; Zhang et al. 2022) give the decoder the true boxes, moved a little, to name and
  to mend, so it need not wait for good proposals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from groundingdino.util.misc import inverse_sigmoid, nested_tensor_from_tensor_list
from numpy.typing import NDArray
from torch.nn import functional as F
from torchvision.ops import box_convert

from analysis.observe.objects.models.grounding_dino import pixels
from analysis.observe.objects.tags.tag_captions import BERT_LIMIT, Caption, captions
from lab.train.base.loop import Budget, Lessons, batches
from lab.train.detectors.dino import HUMAN_WORDS, SETTINGS
from lab.train.detectors.matching import Target, box_loss, focal_terms, set_loss
from lab.train.detectors.pictures import LABELS, Pictures, boxes_of
from lab.train.stages import Options
from probes.toyworld.world import load_world

NOT_THINGS = (*load_world().places, "photo", "air")  # nouns of captions that are no object
DENOISING = 12  # queries
LEAST_COVER = 0.3  # part of a cell
THINGS = 0.6  # of all things that a prompt names


def random_tags(rng: np.random.Generator) -> list[str]:
    """Tags to look for: most of the things there are, a few words of no thing, a word for the figure; in any order.

    The figure goes by any of the words for it, which all mean a figure and nothing else.
    """
    tags = [label for label in LABELS[1:] if rng.random() < THINGS]
    tags += [word for word in NOT_THINGS if rng.random() < 0.15]
    if rng.random() < 0.9 or not tags:
        tags.append(LABELS[0] if rng.random() < 0.3 else HUMAN_WORDS[rng.integers(len(HUMAN_WORDS))])
    return [tags[place] for place in rng.permutation(len(tags))]


def as_targets(
    pictures: Pictures, rows: Sequence[int], text: Caption
) -> tuple[list[Target], list[torch.Tensor]]:
    """Return targets of the tags in the pictures, and their masks ``(k, 64, 64)``, small ones first."""
    length = (
        max(word[-1] for words in text.words.values() for word in words) + 3
    )  # a full stop, the closing token
    person = next((tag for tag in text.words if tag in HUMAN_WORDS), None)
    targets, covers = [], []
    for row in rows:
        labels, masks = pictures.seen(row)
        tags = [person if label == 0 else LABELS[label] for label in labels]
        named = [n for n in np.argsort(masks.sum((1, 2)), kind="stable") if tags[n] in text.words]
        tokens = torch.zeros(len(named), length)
        for place, number in enumerate(named):
            tokens[place, [token for word in text.words[tags[number]] for token in word]] = 1.0
        chosen = masks[named]
        corners = torch.from_numpy(boxes_of(chosen)) / chosen.shape[-1]
        targets.append(Target(box_convert(corners, "xyxy", "cxcywh"), tokens))
        covers.append(torch.from_numpy(chosen))
    return targets, covers


@dataclass(frozen=True)
class Predictions:
    """Logits ``(n, q, t)`` and boxes ``(n, q, 4)`` of every decoder layer and of every cell of the image.

    ``valid`` ``(n, t)`` is false where a token is padding, ``sizes`` are the cells along a side of each level.
    """

    layers: list[tuple[torch.Tensor, torch.Tensor]]
    cells: tuple[torch.Tensor, torch.Tensor]
    valid: torch.Tensor
    sizes: tuple[int, ...]


class Watched:
    """The model with what its forward pass keeps to itself: every layer's queries, and every cell's prediction."""

    def __init__(self, model: torch.nn.Module):
        self.model, self.seen = model, {}
        self.extra: tuple[torch.Tensor, torch.Tensor] | None = None
        transformer = model.transformer
        keep = self.seen.update
        transformer.register_forward_pre_hook(self._add_queries)
        transformer.register_forward_hook(lambda m, inputs, output: keep(inputs=inputs, out=output))
        transformer.enc_out_class_embed.register_forward_hook(lambda m, i, out: keep(cells=out))
        transformer.enc_out_bbox_embed.register_forward_hook(lambda m, i, out: keep(deltas=out))

    def _add_queries(self, module, inputs):
        """Put the denoising queries before the model's own; neither group sees the other's."""
        if self.extra is None:
            return None
        srcs, masks, _, positions, _, _, text = inputs
        boxes, content = self.extra
        count, queries = boxes.shape[1], module.num_queries
        apart = torch.zeros(count + queries, count + queries, dtype=torch.bool, device=boxes.device)
        apart[:count, count:] = apart[count:, :count] = True
        return srcs, masks, inverse_sigmoid(boxes), positions, content, apart, text

    def __call__(self, images: NDArray[np.uint8], text: Caption) -> Predictions:
        """Look for one caption in all images ``(n, h, w, 3)``."""
        sides = SETTINGS["short_side"], SETTINGS["long_side"]
        batch = nested_tensor_from_tensor_list([pixels(image, *sides) for image in images])
        device = self.model.feat_map.weight.device
        self.model(batch.to(device), captions=[text.text] * len(images))
        hidden, references, *_ = self.seen["out"]
        inputs, text = self.seen["inputs"], self.seen["inputs"][6]
        valid = text["text_token_mask"]
        length = valid.shape[1]
        layers = [
            (
                classes(states, text)[..., :length],
                (boxes(states) + inverse_sigmoid(reference)).sigmoid(),
            )
            for states, reference, boxes, classes in zip(
                hidden, references, self.model.bbox_embed, self.model.class_embed
            )
        ]
        centres = torch.cat([_centres(source, level) for level, source in enumerate(inputs[0])])
        cells = (self.seen["deltas"] + inverse_sigmoid(centres)).sigmoid()
        sizes = tuple(source.shape[-1] for source in inputs[0])
        return Predictions(layers, (self.seen["cells"][..., :length], cells), valid, sizes)


def _centres(source: torch.Tensor, level: int) -> torch.Tensor:
    """Return where each cell of a level starts from: its centre, and a side of 0.05 doubled with each level."""
    height, width = source.shape[-2:]
    y, x = torch.meshgrid(
        (torch.arange(height, device=source.device) + 0.5) / height,
        (torch.arange(width, device=source.device) + 0.5) / width,
        indexing="ij",
    )
    side = torch.full_like(x, 0.05 * 2**level)
    return torch.stack([x, y, side, side], -1).flatten(0, 1)


def dense_loss(
    predictions: Predictions, targets: list[Target], covers: list[torch.Tensor]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Losses by covered cell of what it names and of its box.

    A cell is to name the tags whose masks (``covers``, small ones first) cover it, with the box of the smallest of
    them.
    """
    (logits, boxes), valid = predictions.cells, predictions.valid
    one, zero = focal_terms(logits.float().masked_fill(~valid[:, None], 0.0))
    named, guesses, wanted = zero.new_zeros(()), [], []
    for row, (target, masks) in enumerate(zip(targets, covers)):
        if not len(masks):
            named = named + zero[row].masked_fill(~valid[row], 0.0).sum()
            continue
        share = [F.adaptive_avg_pool2d(masks.float()[None], size)[0].flatten(1) for size in predictions.sizes]
        covered = (torch.cat(share, 1) > LEAST_COVER).float()  # (k, cells)
        tokens = (covered.T @ target.tokens) > 0
        named = named + torch.where(tokens, one[row], zero[row]).masked_fill(~valid[row], 0.0).sum()
        cells = covered.any(0).nonzero()[:, 0]
        guesses.append(boxes[row, cells].float())
        wanted.append(target.boxes[covered[:, cells].argmax(0)])
    if not guesses:
        return named, named.new_zeros(())
    count = max(sum(map(len, guesses)), 1)
    return named / count, box_loss(torch.cat(guesses), torch.cat(wanted)) / count


def denoising(
    model: torch.nn.Module, targets: list[Target], generator: torch.Generator
) -> tuple[tuple[torch.Tensor, torch.Tensor], list[tuple[torch.Tensor, torch.Tensor]]]:
    """Queries at the true boxes, moved by up to a fifth of their sides, and which object each is to give."""
    boxes = torch.rand((len(targets), DENOISING, 4), generator=generator) * 0.5 + 0.25
    pairs = []
    for row, target in enumerate(targets):
        count = len(target.boxes)
        objects = torch.arange(DENOISING) % count if count else torch.zeros(0, dtype=torch.long)
        moved = target.boxes[objects]
        lots = torch.rand(moved.shape, generator=generator) * 0.4 - 0.2
        boxes[row, : len(moved)] = (moved + lots * moved[:, 2:].repeat(1, 2)).clamp(0.01, 0.99)
        pairs.append((torch.arange(len(moved)), objects))
    content = model.transformer.tgt_embed.weight[:DENOISING].expand(len(targets), -1, -1)
    return (boxes.to(content.device), content), pairs


def dino_loss(
    watched: Watched,
    images: NDArray[np.uint8],
    text: Caption,
    targets: list[Target],
    covers: list[torch.Tensor],
    *,
    head_start: float,
    generator: torch.Generator,
) -> dict[str, torch.Tensor]:
    """Loss of a batch.

    With a ``head_start`` of 1 every cell that a tag covers is to name it; with 0 one cell for each object, as Grounding
    DINO is trained.
    """
    watched.extra, known = denoising(watched.model, targets, generator)
    output = watched(images, text)
    watched.extra = None
    named, boxes = dense_loss(output, targets, covers)
    cells = set_loss(*output.cells, output.valid, targets)
    queries, moved = 0.0, 0.0
    for logits, guesses in output.layers:
        moved = moved + set_loss(logits[:, :DENOISING], guesses[:, :DENOISING], output.valid, targets, known)
        queries = queries + set_loss(logits[:, DENOISING:], guesses[:, DENOISING:], output.valid, targets)
    loss = queries + moved + (1 - head_start) * cells + 0.5 * boxes + 2 * head_start * named
    return {
        "loss": loss,
        "queries": queries,
        "denoising": moved,
        "cells": cells,
        "named": named,
        "boxes": boxes,
    }


def lessons(model: torch.nn.Module, pictures: Pictures, options: Options, budget: Budget) -> Lessons:
    """What learns, what is stored, and the loss of a step.

    ``head_start`` is the number of steps in which every cell's loss gives way to that of one cell an object.
    """
    torch.manual_seed(options.seed)
    rng, rows = np.random.default_rng(options.seed), batches(len(pictures), options.batch, options.seed)
    generator, watched = torch.Generator().manual_seed(options.seed), Watched(model)

    def loss_of(step: int) -> dict[str, torch.Tensor]:
        chosen = next(rows)
        (text,) = captions(random_tags(rng), model.tokenizer, BERT_LIMIT)
        targets, covers = as_targets(pictures, chosen, text)
        start = max(0.0, 1 - step / options.head_start) if options.head_start else 0.0
        return dino_loss(
            watched, pictures.images[chosen], text, targets, covers, head_start=start, generator=generator
        )

    return model, model, loss_of
