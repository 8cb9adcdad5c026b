"""From a detector's boxes and token probabilities to detections: thresholds, labels, suppression, clipping."""

import contextlib

import numpy as np
import pytest
import torch
from transformers import BertTokenizer

from analysis.observe.objects.models.grounded_sam import GroundedEngine
from tests.analysis.observe.tiny_models import save_text_encoder


class Scripted:
    """A detector that gives the boxes and tokens it was told to, by the caption, and notes what it was asked."""

    def __init__(self, tokenizer, script, limit=256):
        self.tokenizer, self.script, self.limit, self.asked = tokenizer, script, limit, []

    def same_images(self):
        return contextlib.nullcontext()

    def ground(self, images, captions):
        self.asked.append([(image.shape[:2], caption) for image, caption in zip(images, captions)])
        boxes = torch.zeros(len(images), 6, 4)
        probabilities = torch.zeros(len(images), 6, 256)
        for row, caption in enumerate(captions):
            for query, (box, tokens) in enumerate(self.script.get(caption, ())):
                boxes[row, query] = torch.tensor(box)
                for place, value in tokens.items():
                    probabilities[row, query, place] = value
        return boxes, probabilities


class Filled:
    """A segmenter whose masks are the boxes."""

    def segment(self, images, boxes):
        found = []
        for image, own in zip(images, boxes):
            masks = np.zeros((len(own), *image.shape[:2]), bool)
            for mask, (x0, y0, x1, y1) in zip(masks, np.round(own).astype(int)):
                mask[y0:y1, x0:x1] = True
            found.append(masks)
        return found


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return BertTokenizer.from_pretrained(save_text_encoder(tmp_path_factory.mktemp("bert")))


def engine(tokenizer, script, *, batch=4, **options):
    detector = Scripted(tokenizer, script, **options)
    return GroundedEngine(
        detector, Filled(), box_threshold=0.25, text_threshold=0.2, nms_iou=0.5, batch=batch
    )


IMAGE = np.zeros((50, 100, 3), np.uint8)
# [CLS] dog . bow tie . [SEP]
SCRIPT = {
    "dog . bow tie .": [
        ((0.25, 0.5, 0.3, 0.4), {1: 0.9}),
        ((0.27, 0.5, 0.3, 0.4), {3: 0.6, 4: 0.5}),  # overlaps the dog: class-agnostic, the better one stays
        ((0.95, 0.9, 0.2, 0.4), {3: 0.4}),  # beyond the image
        ((0.6, 0.2, 0.1, 0.1), {1: 0.3, 4: 0.24}),  # both tags
        ((0.8, 0.2, 0.1, 0.1), {2: 0.5}),  # the full stop
        ((0.8, 0.2, 0.1, 0.1), {1: 0.24}),  # below the box threshold
    ]
}


def test_what_is_kept_and_what_is_dropped(tokenizer):
    (found,) = engine(tokenizer, SCRIPT).detect([IMAGE], [["dog", "bow tie"]])
    dog, tie = found.detections
    assert (dog.label, tie.label) == ("dog", "bow tie")
    assert (dog.score, tie.score) == pytest.approx((0.9, 0.4))
    assert dog.box == pytest.approx((10, 15, 40, 35))
    assert tie.box == pytest.approx((85, 35, 100, 50))  # 105 and 55 without the image's edge
    assert dog.mask.shape == (50, 100) and dog.mask.sum() == 30 * 20
    assert found.dropped == {"merged": 1, "empty": 1, "overlap": 1}


def test_an_overlap_across_captions_counts_too(tokenizer):
    script = {
        "dog . cat .": [((0.5, 0.5, 0.4, 0.4), {1: 0.5})],
        "red ball .": [((0.5, 0.5, 0.4, 0.42), {1: 0.7, 2: 0.6}), ((0.1, 0.1, 0.1, 0.1), {1: 0.3})],
    }
    worker = engine(tokenizer, script, limit=7)
    (found,) = worker.detect([IMAGE], [["dog", "cat", "red ball"]])
    assert [caption for batch in worker.detector.asked for _, caption in batch] == list(script)
    assert [detection.label for detection in found.detections] == ["red ball", "red ball"]
    assert found.dropped["overlap"] == 1


def test_images_of_one_size_go_together(tokenizer):
    other = np.zeros((64, 64, 3), np.uint8)
    worker = engine(tokenizer, SCRIPT, batch=2)
    found = worker.detect([IMAGE, other, IMAGE, IMAGE], [["dog", "bow tie"], ["dog"], ["dog"], ["cat"]])
    assert [[size for size, _ in batch] for batch in worker.detector.asked] == [
        [(50, 100)] * 2,
        [(50, 100)],
        [(64, 64)],
    ]
    assert [len(one.detections) for one in found] == [2, 0, 0, 0]
