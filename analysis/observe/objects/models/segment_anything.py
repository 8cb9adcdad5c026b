"""Segment Anything, a mask for every box: its own package's checkpoints, and folders in the class of transformers.

Source: Kirillov et al. 2023.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import nn

from analysis.observe.checkpoints import fit, from_folder, read_weights, require_kind, settings_beside
from probes.errors import UserError
from probes.models.pretrained import from_auto_class, quiet, readable

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


class SegmentAnythingFolder:
    """The segmenter in a folder of transformers' layout, such as that of ``facebook/sam-vit-huge``."""

    def __init__(self, path: Path, device: torch.device):
        from transformers import SamModel

        require_kind(path, ("sam",), FIELD)
        with readable(f"{FIELD}: {path}", "a model of transformers with its transform"), quiet():
            self.processor = from_auto_class("Processor", path)
        self.model, self.device = from_folder(SamModel, path, FIELD).eval().to(device), device

    @torch.inference_mode()
    def segment(self, images: Sequence[np.ndarray], boxes: Sequence[np.ndarray]) -> list[np.ndarray]:
        """As `SegmentAnything.segment`."""
        image_masks = []
        for image, image_boxes in zip(images, boxes):
            masks = [np.zeros((0, *image.shape[:2]), bool)]
            inputs = self.processor(
                Image.fromarray(image), input_boxes=[image_boxes.tolist()], return_tensors="pt"
            )
            embedding = self.model.get_image_embeddings(inputs["pixel_values"].to(self.device))
            for chunk in inputs["input_boxes"].to(self.device, torch.float32).split(_BOXES, dim=1):
                output = self.model(image_embeddings=embedding, input_boxes=chunk, multimask_output=False)
                sizes = inputs["original_sizes"], inputs["reshaped_input_sizes"]
                (resized,) = self.processor.post_process_masks(output.pred_masks.cpu(), *sizes)
                masks.append(resized[:, 0].numpy())
            image_masks.append(np.concatenate(masks))
        return image_masks


class SegmentAnything:
    """The segmenter of a checkpoint such as ``sam_vit_h_4b8939.pth``: masks for boxes."""

    def __init__(self, path: Path, device: torch.device):
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
        batches = [slice(start, start + step) for start in range(0, len(images), step)]
        return [masks for batch in batches for masks in self._segment(images[batch], boxes[batch], side)]

    @torch.inference_mode()
    def _segment(
        self, images: Sequence[np.ndarray], boxes: Sequence[np.ndarray], side: int
    ) -> list[np.ndarray]:
        from segment_anything.utils.transforms import ResizeLongestSide

        transform = ResizeLongestSide(side)
        resized = [torch.as_tensor(transform.apply_image(image)).permute(2, 0, 1) for image in images]
        embedded = self.model.image_encoder(
            torch.stack([self.model.preprocess(pixels.to(self.device).float()) for pixels in resized])
        )
        image_masks = []
        for image, image_boxes, embedding, pixels in zip(images, boxes, embedded, resized):
            size, inner = image.shape[:2], pixels.shape[1:]
            scaled = transform.apply_boxes_torch(torch.as_tensor(image_boxes, dtype=torch.float32), size)
            masks = [np.zeros((0, *size), bool)]
            for chunk in scaled.to(self.device).split(_BOXES):
                logits = self.model.postprocess_masks(self._decode(embedding[None], chunk), inner, size)
                masks.append((logits[:, 0] > 0).cpu().numpy())
            image_masks.append(np.concatenate(masks))
        return image_masks

    def _decode(self, embedding: torch.Tensor, boxes: torch.Tensor) -> torch.Tensor:
        """Logits ``(n, 1, h, w)`` at low resolution of boxes ``(n, 4)`` in one image."""
        sparse, dense = self.model.prompt_encoder(points=None, boxes=boxes, masks=None)
        return self.model.mask_decoder(
            image_embeddings=embedding,
            image_pe=self.model.prompt_encoder.get_dense_pe(),
            sparse_prompt_embeddings=sparse,
            dense_prompt_embeddings=dense,
            multimask_output=False,
        )[0]
