"""DETR (Carion et al. 2020) in the class of transformers, as an engine that finds the classes it was trained on.

It is what Cho et al. 2023 (DALL-Eval) judge images by, there trained further on their scenes
(`analysis.observe.objects.models.detr_original`); the checkpoint ``facebook/detr-resnet-101-dc5`` was trained on COCO
alone. Images are prepared as by the other detectors (`analysis.observe.objects.models.grounding_dino.pixels`): the
shorter side to 800 pixels, the longer at most 1333. A query is a detection where its likeliest class, "no object"
left out, has a probability above the threshold. There are no masks: a detection's is its box, filled.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from analysis.observe.checkpoints import from_folder, read_json, sides
from analysis.observe.objects.detection import Detection, Found
from analysis.observe.objects.models import detr_original
from analysis.observe.objects.models.grounding_dino import FIELD, pixels
from probes.errors import UserError

KIND = "detr"
_UNUSED = "N/A"  # numbers of COCO's list that no class has


class Detr:
    """Look for objects with DETR; see :class:`analysis.observe.objects.detection.DetectionEngine`.

    `path` is a folder with ``config.json`` and safetensors, as on the hub, or a checkpoint of DETR's authors' code;
    `threshold` the probability that a detection is to exceed.
    """

    def __init__(self, path: Path, device: torch.device, *, threshold: float, batch: int):
        from transformers import DetrForObjectDetection

        self.names = _names(path)
        self.threshold, self.batch, self.device = threshold, batch, device
        if path.is_file():
            description = detr_original.description(path)
            self.sides, model = (
                (description["short_side"], description["long_side"]),
                detr_original.load(path),
            )
        else:
            self.sides, model = sides(path, FIELD), from_folder(DetrForObjectDetection, path, FIELD)
        self.model = model.eval().to(device)

    def detect(self, images: Sequence[np.ndarray], tags: Sequence[Sequence[str]]) -> list[Found]:
        """Give every object of DETR's classes; of the tags those alone that are among them."""
        found: dict[int, Found] = {}
        # images of one size go together, so that none is padded
        for size in dict.fromkeys(image.shape for image in images):
            same_size = [index for index, image in enumerate(images) if image.shape == size]
            for start in range(0, len(same_size), self.batch):
                some = same_size[start : start + self.batch]
                found |= dict(zip(some, self._detect([images[index] for index in some])))
        return [
            Found([one for one in found[index].detections if one.label in set(wanted)])
            for index, wanted in enumerate(tags)
        ]

    def _detect(self, images: Sequence[np.ndarray]) -> list[Found]:
        inputs = torch.stack([pixels(image, *self.sides) for image in images]).to(self.device)
        try:
            with torch.inference_mode():
                output = self.model(pixel_values=inputs)
        except torch.OutOfMemoryError:
            raise UserError(
                f"observe.batch: expected room on the device for {self.batch} images in one go, found too little: use"
                " a smaller batch or another device"
            ) from None
        scores, labels = output.logits.float().softmax(-1)[..., :-1].max(-1)
        boxes = output.pred_boxes.float().cpu().numpy()
        return [
            self._found(images[row].shape[:2], *one)
            for row, one in enumerate(zip(scores.cpu().numpy(), labels.cpu().numpy(), boxes))
        ]

    def _found(self, size: tuple[int, int], scores: Any, labels: Any, boxes: Any) -> Found:
        """The detections in an image, best first."""
        order = np.argsort(-scores, kind="stable")
        kept = [row for row in order if scores[row] > self.threshold and int(labels[row]) in self.names]
        return Found(
            [_detection(self.names[int(labels[row])], scores[row], boxes[row], size) for row in kept]
        )


def classes(path: Path) -> list[str]:
    """Return what a checkpoint can tell apart, as COCO calls it, each once."""
    return list(dict.fromkeys(_names(path).values()))


def _names(path: Path) -> dict[int, str]:
    """The class of each number, of those that are one."""
    if path.is_file():
        names: Any = detr_original.names(path)
    else:
        described = read_json(path / "config.json", FIELD)
        if described.get("model_type") != KIND:
            got = described.get("model_type") or "no `model_type`"
            raise UserError(
                f"{FIELD}: {path}: expected a folder or hub id of {KIND}, got {got}: choose another"
            )
        names = described.get("id2label")
    if not isinstance(names, dict) or not all(str(key).isdecimal() for key in names):
        raise UserError(f"{FIELD}: {path}: expected names by number (`id2label`), found none: add them")
    return {int(key): str(name).lower() for key, name in names.items() if name != _UNUSED}


def _detection(name: str, score: float, box: np.ndarray, size: tuple[int, int]) -> Detection:
    height, width = size
    x, y, w, h = (float(value) for value in box)
    across = np.clip([(x - w / 2) * width, (x + w / 2) * width], 0, width)
    down = np.clip([(y - h / 2) * height, (y + h / 2) * height], 0, height)
    mask = np.zeros(size, dtype=bool)
    rows, columns = (slice(int(np.floor(low)), int(np.ceil(high))) for low, high in (down, across))
    mask[rows, columns] = True
    corners = (float(across[0]), float(down[0]), float(across[1]), float(down[1]))
    return Detection(name, float(score), corners, mask)
