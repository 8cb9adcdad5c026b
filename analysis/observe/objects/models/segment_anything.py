"""Segment Anything in the classes of its own package: a mask for every box.

Weights come from that project's checkpoints or from folders of transformers. Source: Kirillov et al. 2023.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from analysis.observe.checkpoints import described, fit, from_folder, read_weights, settings_beside
from analysis.observe.objects.models import hf_keys, hf_settings
from probes.errors import UserError
from probes.models.pretrained import readable

FIELD = "observe.segmenter"
# the published checkpoints are called sam_vit_h_4b8939.pth, sam_vit_l_0b3195.pth, sam_vit_b_01ec64.pth
SIZES: dict[str, dict[str, Any]] = {
    "vit_h": {"embed_dim": 1280, "depth": 32, "num_heads": 16, "global_attn_indexes": [7, 15, 23, 31]},
    "vit_l": {"embed_dim": 1024, "depth": 24, "num_heads": 16, "global_attn_indexes": [5, 11, 17, 23]},
    "vit_b": {"embed_dim": 768, "depth": 12, "num_heads": 12, "global_attn_indexes": [2, 5, 8, 11]},
}
COMMON: dict[str, Any] = {
    "image_size": 1024,
    "patch_size": 16,
    "window_size": 14,
    "prompt_embed_dim": 256,
    "mask_in_chans": 16,
    "decoder_depth": 2,
    "decoder_heads": 8,
    "decoder_mlp_dim": 2048,
    "iou_head_depth": 3,
    "iou_head_hidden_dim": 256,
}
_MEAN, _DEVIATION = [123.675, 116.28, 103.53], [58.395, 57.12, 57.375]
_BOXES = 64  # boxes decoded in one go


def description(path: Path) -> dict[str, Any]:
    """Return the settings of the model that a checkpoint is for: by its name, with a JSON file beside it over them."""
    stated = settings_beside(path, {**COMMON, **SIZES["vit_b"]}, FIELD, "Segment Anything")
    size = re.search(r"vit_[hlb]", path.stem)
    settings = {**COMMON, **(SIZES[size[0]] if size else {}), **stated}
    missing = [name for name in SIZES["vit_b"] if name not in settings]
    if missing:
        raise UserError(
            f"{FIELD}: {path}: expected vit_h, vit_l or vit_b in its name, or {', '.join(missing)} in"
            f" {path.with_suffix('.json').name}, found neither: rename it or describe it"
        )
    return settings


def build(settings: Mapping[str, Any]) -> Any:
    """Build `Sam` with random weights from its settings."""
    from segment_anything.modeling import ImageEncoderViT, MaskDecoder, PromptEncoder, Sam, TwoWayTransformer

    image, patch, width = settings["image_size"], settings["patch_size"], settings["prompt_embed_dim"]
    return Sam(
        ImageEncoderViT(
            img_size=image,
            patch_size=patch,
            embed_dim=settings["embed_dim"],
            depth=settings["depth"],
            num_heads=settings["num_heads"],
            out_chans=width,
            norm_layer=partial(nn.LayerNorm, eps=1e-6),
            use_rel_pos=True,
            window_size=settings["window_size"],
            global_attn_indexes=settings["global_attn_indexes"],
        ),
        PromptEncoder(
            embed_dim=width,
            image_embedding_size=(image // patch, image // patch),
            input_image_size=(image, image),
            mask_in_chans=settings["mask_in_chans"],
        ),
        MaskDecoder(
            transformer_dim=width,
            transformer=TwoWayTransformer(
                depth=settings["decoder_depth"],
                embedding_dim=width,
                num_heads=settings["decoder_heads"],
                mlp_dim=settings["decoder_mlp_dim"],
            ),
            iou_head_depth=settings["iou_head_depth"],
            iou_head_hidden_dim=settings["iou_head_hidden_dim"],
        ),
        _MEAN,
        _DEVIATION,
    ).eval()


def _from_transformers(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the settings and the weights of a folder of transformers' layout, by segment-anything's names."""
    from transformers import SamModel

    _, config = described(path, "sam", FIELD, tokenizer=False)
    settings = hf_settings.segmenter(config, path, FIELD)
    stored = from_folder(SamModel, path, FIELD).state_dict()
    with torch.device("meta"):  # for its names alone
        names = build(settings).state_dict()
    return settings, hf_keys.segment_anything(stored, names)


class SegmentAnything:
    """A segmenter: masks for boxes.

    `path` is the checkpoint, such as ``sam_vit_h_4b8939.pth``, or a folder of transformers' layout, such as that of
    ``facebook/sam-vit-huge``.
    """

    def __init__(self, path: Path, device: torch.device):
        if path.is_dir():
            self.settings, weights = _from_transformers(path)
        else:
            self.settings, weights = description(path), read_weights(path, FIELD)
        what = f"Segment Anything of width {self.settings['embed_dim']} and depth {self.settings['depth']}"
        with readable(f"{FIELD}: {path}", "settings of Segment Anything", "mend them"):
            model = build(self.settings)
        fit(model, weights, path=path, field=FIELD, what=what)
        self.model, self.device = model.to(device), device

    def segment(self, images: Sequence[np.ndarray], boxes: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Masks ``(n, height, width)`` bool of the boxes ``(n, 4)`` of each image: x0, y0, x1, y1 in pixels."""
        side = self.settings["image_size"]
        # an image of 1024 pixels takes gigabytes of attention; small ones go together
        step = max(1, 4 * 256**2 // side**2)
        masks = []
        with torch.inference_mode():
            for start in range(0, len(images), step):
                some = slice(start, start + step)
                masks += self._segment(images[some], boxes[some], side)
        return masks

    def _segment(
        self, images: Sequence[np.ndarray], boxes: Sequence[np.ndarray], side: int
    ) -> list[np.ndarray]:
        inputs, sizes = zip(*(resized(image, side) for image in images))
        embedded = self.embed(torch.stack([pixels.to(self.device) for pixels in inputs]))
        image_masks = []
        for image, image_boxes, embedding, size in zip(images, boxes, embedded, sizes):
            height, width = image.shape[:2]
            scale = torch.tensor([size[1] / width, size[0] / height] * 2)
            scaled = (torch.as_tensor(image_boxes, dtype=torch.float32).reshape(-1, 4) * scale).to(
                self.device
            )
            masks = [np.zeros((0, height, width), bool)]
            for chunk in scaled.split(_BOXES):
                logits = upscaled(self.decode(embedding[None], chunk), side, size, (height, width))
                masks.append((logits[:, 0] > 0).cpu().numpy())
            image_masks.append(np.concatenate(masks))
        return image_masks

    def embed(self, pixels: torch.Tensor) -> torch.Tensor:
        """Embeddings of images ``(n, 3, side, side)``."""
        return self.model.image_encoder(pixels)

    def decode(self, embedding: torch.Tensor, boxes: torch.Tensor) -> torch.Tensor:
        """Logits ``(n, 1, h, w)`` at low resolution of boxes ``(n, 4)`` in one image."""
        sparse, dense = self.model.prompt_encoder(points=None, boxes=boxes, masks=None)
        return self.model.mask_decoder(
            image_embeddings=embedding,
            image_pe=self.model.prompt_encoder.get_dense_pe(),
            sparse_prompt_embeddings=sparse,
            dense_prompt_embeddings=dense,
            multimask_output=False,
        )[0]


def resized(image: np.ndarray, side: int) -> tuple[torch.Tensor, tuple[int, int]]:
    """An image as the encoder takes it, ``(3, side, side)``: its long side resized, then scaled and padded."""
    from segment_anything.utils.transforms import ResizeLongestSide

    small = torch.as_tensor(ResizeLongestSide(side).apply_image(image)).permute(2, 0, 1).float()
    mean, deviation = (torch.tensor(values)[:, None, None] for values in (_MEAN, _DEVIATION))
    height, width = small.shape[1:]
    padded = nn.functional.pad((small - mean) / deviation, (0, side - width, 0, side - height))
    return padded, (height, width)


def upscaled(logits: torch.Tensor, side: int, inner: tuple[int, int], size: tuple[int, int]) -> torch.Tensor:
    """Logits ``(n, 1, h, w)`` of the padded square at the size of the image, the padding cut off."""
    options = {"mode": "bilinear", "align_corners": False}
    square = nn.functional.interpolate(logits, (side, side), **options)
    return nn.functional.interpolate(square[..., : inner[0], : inner[1]], size, **options)
