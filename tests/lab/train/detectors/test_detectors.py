"""Toyworld's own detectors: their data, losses, training and the weights that are there."""

import json

import numpy as np
import pandas as pd
import pytest
import torch

from analysis.observe.objects.models.grounding_dino import GroundingDino
from analysis.observe.objects.models.segment_anything import SegmentAnything
from analysis.observe.objects.tags.tag_captions import BERT_LIMIT, captions
from lab.train.detectors import __main__ as command
from lab.train.detectors import dino, sam
from lab.train.detectors.average_precision import average_precision, matched
from lab.train.detectors.dino_training import (
    as_targets,
)
from lab.train.detectors.matching import Target, match, set_loss
from lab.train.detectors.measure import (
    ap_by_label,
    detections,
    dino_quality,
    mask_agreement,
    rates,
    sam_quality,
    unseen,
)
from lab.train.detectors.pictures import LABELS, PictureSet, boxes_of, make_pictures
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
    few = "--pictures 12 --drawn 0 --calibration 4 --steps 2 --batch 2"
    arguments = f"{few} --work {folder / 'work'} --weights {folder / 'weights'}"
    assert command.main(arguments.split()) == 0
    return folder


def test_pictures_have_exact_masks_and_tight_boxes(pictures, tmp_path):
    pictures.save(tmp_path / "pictures.npz")
    again = PictureSet.load(tmp_path / "pictures.npz")
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


def test_mask_losses_against_hand_worked_values():
    masks = torch.zeros(1, 2, 2, dtype=torch.bool)
    masks[0, 0] = True
    logits = torch.tensor(
        [[[[30.0, 30.0], [-30.0, -30.0]], [[30.0, 30.0], [30.0, -30.0]], [[0.0, 0.0], [0.0, 0.0]]]]
    )
    loss, iou = sam.mask_losses(logits, masks)
    # one of four pixels wrong: 20 × 30 / 4 + 1 − (2 · 2 + 1) / (3 + 2 + 1)
    # all at a half: 20 × ¼ ln 2 + 1 − (2 · 1 + 1) / (2 + 2 + 1)
    expected = torch.tensor([[0.0, 150 + 1 / 6, 5 * np.log(2) + 2 / 5]])
    assert torch.allclose(loss, expected.float(), atol=1e-4)
    assert torch.allclose(iou, torch.tensor([[1.0, 2 / 3, 0.0]]))


def test_targets_name_the_tokens_of_their_tags(pictures, tmp_path):
    dino.save_text_encoder(tmp_path)
    from analysis.observe.objects.models.grounding_dino import text_encoder

    tokenizer, _ = text_encoder(str(tmp_path))
    labels, masks = pictures.seen(0)
    tags = ["kitchen", "gentleman", *(LABELS[label] for label in labels[1:])]
    (text,) = captions(tags, tokenizer, BERT_LIMIT)
    (target,), (covers,) = as_targets(pictures, [0], text)
    assert len(target.boxes) == len(labels) and (np.diff(covers.sum((1, 2))) >= 0).all()
    ids = tokenizer(text.text)["input_ids"]
    assert target.tokens.shape[1] == len(ids)
    words = {tokenizer.convert_ids_to_tokens(ids[int(row.argmax())]) for row in target.tokens}
    assert words == set(tags) - {"kitchen"} and (target.tokens.sum(1) == 1).all()
    corners = torch.cat(
        [target.boxes[:, :2] - target.boxes[:, 2:] / 2, target.boxes[:, :2] + target.boxes[:, 2:] / 2], 1
    )
    order = np.argsort(masks.sum((1, 2)), kind="stable")
    assert np.allclose(corners * 64, boxes_of(masks[order]), atol=1e-4)


def test_matching_pairs_each_object_with_its_query_and_a_perfect_answer_costs_nothing():
    boxes = torch.tensor([[0.2, 0.2, 0.1, 0.1], [0.7, 0.6, 0.3, 0.2]])
    target = Target(boxes, torch.tensor([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]))
    logits = torch.full((4, 3), -20.0)
    logits[3, 1] = logits[1, 2] = 20.0
    guesses = torch.tensor([[0.5, 0.5, 0.9, 0.9]]).repeat(4, 1)
    guesses[3], guesses[1] = boxes
    queries, objects = match(logits, guesses, target)
    assert dict(zip(queries.tolist(), objects.tolist())) == {3: 0, 1: 1}
    valid = torch.ones(1, 3, dtype=torch.bool)
    assert float(set_loss(logits[None], guesses[None], valid, [target])) == pytest.approx(0, abs=1e-4)
    worse = set_loss(-logits[None], guesses[None], valid, [target])
    moved = set_loss(logits[None], guesses[None] * 0.9, valid, [target])
    assert worse > 1 and moved > 0.1


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
def test_quality_says_every_class_and_indicator(trained):
    pictures = unseen(6)
    images = pd.DataFrame({"prompt": [0, 0, 0], "indicator": ["neutral", "feminine", "masculine"]})
    images["image"] = list(pictures.images[:3])
    segmenter = SegmentAnything(trained / "weights" / "sam" / "model.safetensors", CPU)
    made = sam_quality(segmenter, pictures, images)
    assert made["renderings"]["by_label"]["person"]["n"] == 6
    assert made["generated"]["by_label_and_indicator"]["person"]["feminine"]["n"] == 1
    detector = GroundingDino(trained / "weights" / "grounding-dino" / "model.safetensors", "", CPU)
    found = dino_quality(detector, segmenter, pictures, images)
    assert 0 <= found["renderings"]["ap50_over_labels"] <= 1
    assert {row["indicator"] for row in found["generated_presence"]["rates"]} >= {"all", "feminine"}
    json.dumps([made, found], allow_nan=False)


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


def test_all_weights_together_are_within_52_mb():
    assert sum(path.stat().st_size for path in WEIGHTS.rglob("*") if path.is_file()) <= 62e6
