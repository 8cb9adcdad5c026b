"""Grounded-SAM: a detector finds tags as boxes, a segmenter cuts out what the boxes hold.

Source: Wu et al. 2025, section 5.1 (Grounded-SAM; Ren et al. 2024). The detector looks for an image's tags, in as
many captions as its text encoder needs; each candidate above the box threshold is matched to a tag by the tokens
above the text threshold; of candidates that overlap, whatever their tags, the best stays. An overlap across
captions counts like one within.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import torch
from torchvision.ops import box_convert, clip_boxes_to_image, nms

from analysis.observe.objects.detection import Detection, Found, batches_of_one_size, enough_memory
from analysis.observe.objects.models.grounding_dino import GroundingDino, GroundingDinoFolder
from analysis.observe.objects.models.segment_anything import SegmentAnything, SegmentAnythingFolder
from analysis.observe.objects.tags.tag_captions import Caption, captions, match


class GroundedEngine:
    """A detector and a segmenter as one :class:`~analysis.observe.objects.detection.DetectionEngine`.

    A candidate counts whose best token is above `box_threshold`; its label is the tokens above `text_threshold`.
    Candidates whose boxes overlap by more than `nms_iou` are one object. `batch` images, each with a caption, go into
    the detector in one go.
    """

    def __init__(
        self,
        detector: GroundingDino | GroundingDinoFolder,
        segmenter: SegmentAnything | SegmentAnythingFolder,
        *,
        box_threshold: float,
        text_threshold: float,
        nms_iou: float,
        batch: int,
    ):
        self.detector, self.segmenter = detector, segmenter
        self.box_threshold, self.text_threshold, self.nms_iou = box_threshold, text_threshold, nms_iou
        self.batch = batch

    def detect(self, images: Sequence[np.ndarray], tags: Sequence[Sequence[str]]) -> list[Found]:
        """Look for tags in images."""
        with enough_memory(self.batch):
            return self._detect(images, tags)

    def _detect(self, images: Sequence[np.ndarray], tags: Sequence[Sequence[str]]) -> list[Found]:
        candidates: list[list[tuple[torch.Tensor, float, str]]] = [[] for _ in images]
        dropped = [Counter[str]() for _ in images]
        for index, caption, boxes, probabilities in self._grounded(images, tags):
            height, width = images[index].shape[:2]
            scores = probabilities.max(-1).values
            above = scores > self.box_threshold
            labels = match(probabilities[above].numpy(), caption, self.text_threshold)
            scaled = box_convert(boxes[above], "cxcywh", "xyxy") * torch.tensor([width, height] * 2)
            scaled = clip_boxes_to_image(scaled, (height, width))
            for (tag, why), score, box in zip(labels, scores[above].tolist(), scaled):
                if why:
                    dropped[index][why] += 1
                else:
                    candidates[index].append((box, score, tag))
        kept = [self._best(own, counter) for own, counter in zip(candidates, dropped)]
        full = [index for index, own in enumerate(kept) if own]
        boxes = [torch.stack([box for box, _, _ in kept[index]]).numpy() for index in full]
        masks = dict(zip(full, self.segmenter.segment([images[index] for index in full], boxes)))
        return [
            Found(
                [
                    Detection(tag, score, tuple(box.tolist()), mask)
                    for (box, score, tag), mask in zip(own, masks.get(index, ()))
                ],
                dict(dropped[index]),
            )
            for index, own in enumerate(kept)
        ]

    def _grounded(
        self, images: Sequence[np.ndarray], tags: Sequence[Sequence[str]]
    ) -> list[tuple[int, Caption, torch.Tensor, torch.Tensor]]:
        """Each image with each of its captions, the boxes and the probabilities.

        Each pass takes the next caption of each image of a batch; an image that has no more stays with its last, so
        that the batch is the same in all passes.
        """
        tokenizer, limit = self.detector.tokenizer, self.detector.limit
        phrases = [captions(image_tags, tokenizer, limit) for image_tags in tags]
        full = [index for index, own in enumerate(phrases) if own]
        grounded = []
        for batch in batches_of_one_size([images[index] for index in full], self.batch):
            some = [full[place] for place in batch]
            with self.detector.same_images():
                for number in range(max(len(phrases[index]) for index in some)):
                    own = [phrases[index][min(number, len(phrases[index]) - 1)] for index in some]
                    boxes, probabilities = self.detector.ground(
                        [images[index] for index in some], [caption.text for caption in own]
                    )
                    grounded += [
                        result
                        for result in zip(some, own, boxes, probabilities)
                        if number < len(phrases[result[0]])
                    ]
        return grounded

    def _best(
        self, candidates: list[tuple[torch.Tensor, float, str]], dropped: Counter[str]
    ) -> list[tuple[torch.Tensor, float, str]]:
        """Class-agnostic non-maximum suppression, best first."""
        if not candidates:
            return []
        boxes = torch.stack([box for box, _, _ in candidates])
        scores = torch.tensor([score for _, score, _ in candidates])
        stays = nms(boxes, scores, self.nms_iou).tolist()
        dropped["overlap"] += len(candidates) - len(stays)
        return [candidates[index] for index in stays]
