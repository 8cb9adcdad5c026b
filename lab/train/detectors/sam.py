"""A small Segment Anything: segment-anything's classes with small settings, prompted by a box.

The image encoder sees 64 × 64 pixels in patches of 4, so the mask decoder, whose masks are four times as fine as the
patches, gives a mask value for each pixel. The loss is that of Kirillov et al. 2023, section 3 and appendix A: focal
and dice loss in the ratio 20 : 1, of the one mask, and of the best of the three masks of an ambiguous prompt, and the
mean squared error of the predicted IoU.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from segment_anything.modeling import Sam
from torch.nn import functional as F

from analysis.observe.objects.models import segment_anything
from lab.train.base.loop import Budget, Lessons, batches
from lab.train.detectors.pictures import Pictures, boxes_of
from lab.train.stages import Options

SETTINGS: dict[str, Any] = {
    "image_size": 64,
    "patch_size": 4,
    "embed_dim": 96,
    "depth": 4,
    "num_heads": 4,
    "window_size": 8,
    "global_attn_indexes": [1, 3],
    "prompt_embed_dim": 96,
    "mask_in_chans": 16,
    "decoder_depth": 2,
    "decoder_heads": 4,
    "decoder_mlp_dim": 192,
    "iou_head_depth": 3,
    "iou_head_hidden_dim": 96,
}
PROMPTS = 5  # boxes a picture and step


def mask_losses(logits: torch.Tensor, masks: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Loss and IoU ``(k, m)`` of ``m`` predicted masks for each of ``k`` prompts.

    The loss is 20 × focal loss (γ = 2, no weight by class) + dice loss, the IoU that of the mask at 0.
    """
    target = masks[:, None].expand_as(logits).float()
    entropy = F.binary_cross_entropy_with_logits(logits, target, reduction="none")
    chance = logits.sigmoid()
    wrong = torch.where(target > 0, 1 - chance, chance)
    focal = (wrong.square() * entropy).mean((2, 3))
    both = (chance * target).sum((2, 3))
    dice = 1 - (2 * both + 1) / ((chance + target).sum((2, 3)) + 1)
    with torch.no_grad():
        guess = logits > 0
        union = (guess | masks[:, None]).sum((2, 3)).clamp(min=1)
        iou = (guess & masks[:, None]).sum((2, 3)) / union
    return 20 * focal + dice, iou


def sam_loss(
    model: Sam, images: NDArray[np.uint8], boxes: list[NDArray], masks: list[NDArray[np.bool_]]
) -> dict[str, torch.Tensor]:
    """Loss of a batch of images ``(n, h, w, 3)``, each with boxes ``(k, 4)`` and masks ``(k, h, w)``."""
    device = model.device
    pixels = torch.from_numpy(images).to(device).permute(0, 3, 1, 2).float()
    embeddings = model.image_encoder(model.preprocess(pixels))
    logits, qualities = [], []
    for embedding, prompt in zip(embeddings, boxes):
        sparse, dense = model.prompt_encoder(None, torch.from_numpy(prompt).to(device), None)
        one, quality = model.mask_decoder.predict_masks(
            embedding[None], model.prompt_encoder.get_dense_pe(), sparse, dense
        )
        logits.append(one)
        qualities.append(quality)
    loss, iou = mask_losses(torch.cat(logits), torch.from_numpy(np.concatenate(masks)).to(device))
    single, best = loss[:, 0].mean(), loss[:, 1:].min(1).values.mean()
    quality = F.mse_loss(torch.cat(qualities), iou)
    return {
        "loss": single + 0.5 * best + quality,
        "single": single,
        "quality": quality,
        "iou": iou[:, 0].mean(),
    }


def jitter(boxes: NDArray[np.float32], rng: np.random.Generator, size: int) -> NDArray[np.float32]:
    """Half of the boxes as they are, half with edges moved by a normal lot of 5 % of the side and half a pixel."""
    sides = np.tile(boxes[:, 2:] - boxes[:, :2], 2)
    moved = boxes + rng.normal(size=boxes.shape) * (0.05 * sides + 0.5) * (rng.random((len(boxes), 1)) < 0.5)
    moved = moved.clip(0, size)
    return np.concatenate(
        [np.minimum(moved[:, :2], moved[:, 2:]), np.maximum(moved[:, :2], moved[:, 2:])], 1
    ).astype(np.float32)


def new_sam() -> Sam:
    """The model with freshly drawn weights."""
    return segment_anything.build(SETTINGS)


def lessons(model: Sam, pictures: Pictures, options: Options, budget: Budget) -> Lessons:
    """What learns, what is stored, and the loss of a step, on boxes of what is seen."""
    torch.manual_seed(options.seed)
    rng, rows = np.random.default_rng(options.seed), batches(len(pictures), options.batch, options.seed)
    size = model.image_encoder.img_size

    def loss_of(step: int) -> dict[str, torch.Tensor]:
        chosen, boxes, masks = next(rows), [], []
        for row in chosen:
            seen = pictures.seen(row)[1]
            seen = seen[rng.permutation(len(seen))[:PROMPTS]]
            boxes.append(jitter(boxes_of(seen), rng, size))
            masks.append(seen)
        return sam_loss(model, pictures.images[chosen], boxes, masks)

    return model, model, loss_of
