"""DETR (Carion et al. 2020) in the class of transformers, as an engine that finds the classes it was trained on.

Cho et al. 2023 (DALL-Eval) judge images by it, there trained further on their scenes; ``facebook/detr-resnet-101-dc5``
was trained on COCO alone. A query is a detection where its likeliest class, "no object" left out, has a probability
above the threshold. There are no masks: a detection's is its box, filled.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torchvision.ops import clip_boxes_to_image

from analysis.observe.checkpoints import from_folder, require_kind
from analysis.observe.objects.detection import Detection, Found, batches_of_one_size, enough_memory
from probes.errors import UserError
from probes.models.pretrained import from_auto_class, quiet, readable

FIELD = "observe.detector"
_UNUSED = "N/A"  # numbers of COCO's list that no class has


class Detr:
    """Look for objects with DETR; see :class:`analysis.observe.objects.detection.DetectionEngine`.

    `path` is a folder as on the hub; `threshold` the probability that a detection is to exceed.
    """

    def __init__(self, path: Path, device: torch.device, *, threshold: float, batch: int):
        from transformers import DetrForObjectDetection

        self.names = _names(path)
        self.threshold, self.batch, self.device = threshold, batch, device
        with readable(f"{FIELD}: {path}", "a description of how images are prepared", "mend it"), quiet():
            self.processor = from_auto_class("ImageProcessor", path)
        self.model = from_folder(DetrForObjectDetection, path, FIELD).eval().to(device)

    def detect(self, images: Sequence[np.ndarray], tags: Sequence[Sequence[str]]) -> list[Found]:
        """Give every object of DETR's classes; of the tags those alone that are among them."""
        results: dict[int, list[Detection]] = {}
        with enough_memory(self.batch):
            for indices in batches_of_one_size(images, self.batch):
                results |= zip(indices, self._detect([images[index] for index in indices]))
        return [
            Found([detection for detection in results[index] if detection.label in {*wanted}])
            for index, wanted in enumerate(tags)
        ]

    @torch.inference_mode()
    def _detect(self, images: Sequence[np.ndarray]) -> list[list[Detection]]:
        """The detections in each of some images of one size, best first."""
        size = images[0].shape[:2]
        output = self.model(
            **self.processor(images=[*map(Image.fromarray, images)], return_tensors="pt").to(self.device)
        )
        detections = []
        for result in self.processor.post_process_object_detection(
            output, threshold=self.threshold, target_sizes=[size] * len(images)
        ):
            result = {name: value.float().cpu() for name, value in result.items()}
            boxes = clip_boxes_to_image(result["boxes"], size)
            order = result["scores"].argsort(descending=True, stable=True).tolist()
            labels = [int(label) for label in result["labels"]]
            detections.append(
                [
                    _detection(
                        self.names[labels[row]], float(result["scores"][row]), boxes[row].tolist(), size
                    )
                    for row in order
                    if labels[row] in self.names
                ]
            )
        return detections


def classes(path: Path) -> list[str]:
    """Return what a checkpoint can tell apart, as COCO calls it, each once."""
    return list(dict.fromkeys(_names(path).values()))


def _names(path: Path) -> dict[int, str]:
    """The class of each number, of those that are one."""
    names = require_kind(path, ("detr",), FIELD).get("id2label")
    if not isinstance(names, dict) or not all(str(key).isdecimal() for key in names):
        raise UserError(f"{FIELD}: {path}: expected names by number (`id2label`), found none: add them")
    return {int(key): str(name).lower() for key, name in names.items() if name != _UNUSED}


def _detection(name: str, score: float, box: Sequence[float], size: tuple[int, int]) -> Detection:
    mask = np.zeros(size, dtype=bool)
    (left, top), (right, bottom) = np.floor(box[:2]).astype(int), np.ceil(box[2:]).astype(int)
    mask[top:bottom, left:right] = True
    return Detection(name, score, tuple(box), mask)
