"""Toyworld's own detectors: their data, losses, training and the weights that are there."""

import numpy as np
import pandas as pd
import pytest
import torch

from analysis.observe.objects.models.grounding_dino import GroundingDino
from analysis.observe.objects.models.segment_anything import SegmentAnything
from analysis.observe.objects.tags.tag_captions import BERT_LIMIT
from lab.train import networks
from lab.train.detectors import dino
from lab.train.detectors.measure import (
    ap_by_label,
    average_precision,
    detections,
    mask_agreement,
    matched,
    rates,
)
from lab.train.detectors.pictures import LABELS, Pictures, boxes_of, make_pictures
from probes.toyworld import WEIGHTS
from probes.toyworld.palette import INDEX

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def pictures():
    return make_pictures(24, 5, through_vae=0.25)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A few steps of everything, and what was exported."""
    folder = tmp_path_factory.mktemp("detectors")
    for name in ("sam", "grounding-dino"):
        few = f"--pictures 12 --steps 2 --batch 2 --work {folder / name} --weights {folder / 'weights'}"
        assert networks.TRAINERS[name].main(name, few.split()) == 0
    return folder


def test_pictures_have_exact_masks_and_tight_boxes(pictures, tmp_path):
    pictures.save(tmp_path / "pictures.npz")
    again = Pictures.load(tmp_path / "pictures.npz")
    for row in range(len(pictures)):
        labels, masks = again.seen(row)
        assert LABELS[labels[0]] == "person" and len(set(labels)) == len(labels)
        assert (masks[0] == pictures.figures[row]).all()
        for label, mask, box in zip(labels[1:], masks[1:], boxes_of(masks)[1:]):
            assert (mask == (pictures.indices[row] == INDEX[LABELS[label]])).all()
            x0, y0, x1, y1 = box.astype(int)
            inside = mask[y0:y1, x0:x1]
            assert inside.sum() == mask.sum()
            assert all(edge.any() for edge in (inside[0], inside[-1], inside[:, 0], inside[:, -1]))
    worn = np.isin(pictures.indices, [INDEX[name] for name in ("skin_1", "plain_shoe", "boots", "dress")])
    assert pictures.figures[worn].all()  # nothing of what is worn is outside the figure


def test_average_precision_takes_each_object_once():
    overlaps = [[0.9, 0.1], [0.8, 0.2], [0.1, 0.4]]
    assert matched([0.5, 0.9, 0.7], overlaps).tolist() == [False, True, False]
    assert matched([0.5], np.zeros((1, 0))).tolist() == [False]
    assert average_precision([0.9, 0.1], [False, True], 1) == 0.5
    assert average_precision([], [], 2) == 0.0
    assert np.isnan(average_precision([0.3], [False], 0))


def test_rates_count_a_box_elsewhere_as_missed_and_made_up():
    images = pd.DataFrame({"prompt": [0, 0], "indicator": ["feminine", "masculine"]})
    columns = ["image", "label", "x0", "y0", "x1", "y1"]
    truth = pd.DataFrame([(0, "hat", 0, 0, 10, 10), (1, "hat", 0, 0, 10, 10)], columns=columns)
    found = truth.assign(score=0.9, x0=[0, 30], x1=[10, 40])
    for least, recall, precision in ((0.0, 1.0, 1.0), (0.5, 0.5, 0.5)):
        table = rates(found, truth, images, least).set_index(["quantity", "object", "indicator"])["value"]
        assert (table["recall", "all", "all"], table["precision", "all", "all"]) == (recall, precision)
    assert table["recall", "hat", "feminine"] == 1.0 and table["recall", "hat", "masculine"] == 0.0


@pytest.mark.lab
def test_what_was_trained_loads_in_the_observe_engines(trained):
    images = make_pictures(2, 9, through_vae=0.0)
    segmenter = SegmentAnything(trained / "weights" / "sam" / "model.safetensors", CPU)
    (first, second) = segmenter.segment(
        list(images.images), [boxes_of(images.seen(row)[1]) for row in range(2)]
    )
    assert first.shape == (len(images.seen(0)[0]), 64, 64) and second.dtype == bool
    detector = GroundingDino(trained / "weights" / "grounding-dino" / "model.safetensors", "", CPU)
    boxes, chances = detector.ground(list(images.images), ["person . hat ."] * 2)
    assert boxes.shape == (2, dino.SETTINGS["num_queries"], 4) and chances.shape[-1] == BERT_LIMIT
    assert float(chances[..., 1].max()) < 0.5  # hardly trained: near the low chance it starts from


@pytest.mark.lab
def test_the_sam_in_place_reaches_its_bar_on_fresh_renderings():
    pictures = make_pictures(60, 31_337, through_vae=0.0)
    seen = [pictures.seen(row) for row in range(len(pictures))]
    segmenter = SegmentAnything(WEIGHTS / "sam" / "model.safetensors", CPU)
    table = mask_agreement(
        segmenter, list(pictures.images), [masks for _, masks in seen], [labels for labels, _ in seen]
    )
    assert table["iou"].mean() >= 0.80


@pytest.mark.lab
def test_the_grounding_dino_in_place_reaches_its_bar_on_fresh_renderings():
    pictures = make_pictures(40, 31_338, through_vae=0.0)
    detector = GroundingDino(WEIGHTS / "grounding-dino" / "model.safetensors", "", CPU)
    truth = []
    for row in range(len(pictures)):
        labels, masks = pictures.seen(row)
        truth += [(row, LABELS[label], *box) for label, box in zip(labels, boxes_of(masks))]
    truth = pd.DataFrame(truth, columns=["image", "label", "x0", "y0", "x1", "y1"])
    assert ap_by_label(detections(detector, list(pictures.images)), truth).mean() >= 0.85
