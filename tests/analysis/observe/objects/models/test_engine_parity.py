"""Folders of transformers in the packages' classes: the boxes, scores and masks of transformers' own classes.

The two libraries are independent implementations of the same networks, so agreement holds both the reading of the
layout and the networks to account.
"""

import inspect

import numpy as np
import pytest
import torch
from transformers.models.grounding_dino import modeling_grounding_dino

from analysis.observe.objects.models.grounding_dino import FIELD, GroundingDino, pixels
from analysis.observe.objects.models.segment_anything import SegmentAnything
from probes.errors import UserError
from tests.analysis.observe.tiny_folders import SIDES, save_detector_folder, save_segmenter_folder

CPU = torch.device("cpu")
# their masks of phrases were wrong before transformers told them the special tokens
MASKS = inspect.signature(modeling_grounding_dino.generate_masks_with_special_tokens_and_transfer_map)
right_masks = pytest.mark.skipif(
    "special_tokens" not in MASKS.parameters, reason="transformers masks phrases wrongly"
)
CAPTIONS = ["dog . bow tie .", "cat .", "skateboarder . red ball . person .", "dog . bow tie ."]


@pytest.fixture(scope="module")
def detectors(tmp_path_factory):
    """The same weights as they are read for runs, and in transformers' class."""
    folder = tmp_path_factory.mktemp("dino")
    theirs = save_detector_folder(folder)
    return GroundingDino(folder, "", CPU), theirs


@pytest.fixture(scope="module")
def segmenters(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sam")
    theirs = save_segmenter_folder(folder)
    return SegmentAnything(folder, CPU), theirs


def close(first, second):
    for one, other in zip(first, second):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-4)


def found(model, tokenizer, images, captions):
    """Boxes and probabilities of transformers' own class; images are padded at the right and the bottom."""
    ready = [pixels(image, SIDES["shortest_edge"], SIDES["longest_edge"]) for image in images]
    height, width = (max(one.shape[axis] for one in ready) for axis in (1, 2))
    batch, mask = torch.zeros(len(ready), 3, height, width), torch.zeros(len(ready), height, width)
    for row, one in enumerate(ready):
        batch[row, :, : one.shape[1], : one.shape[2]] = one
        mask[row, : one.shape[1], : one.shape[2]] = 1
    text = tokenizer(captions, padding="longest", return_tensors="pt")
    with torch.inference_mode():
        output = model(pixel_values=batch, pixel_mask=mask.long(), **text)
    return output.pred_boxes, output.logits.sigmoid()


@right_masks
def test_boxes_and_scores_agree(detectors, noise):
    ours, theirs = detectors
    boxes, scores = ours.ground(noise[:4], CAPTIONS)
    assert boxes.shape == (4, 20, 4) and scores.shape == (4, 20, 256)
    assert scores.std() > 0.01 and boxes.std() > 0.01
    close((boxes, scores), found(theirs, ours.tokenizer, noise[:4], CAPTIONS))


def test_other_captions_in_the_batch_change_nothing(detectors, noise):
    """groundingdino-py alone mixes up whose phrases are whose; see `grounding_dino._own_mask`."""
    ours, _ = detectors
    together = ours.ground(noise[:4], CAPTIONS)
    for row in range(4):
        alone = ours.ground([noise[row]], [CAPTIONS[row]])
        close([part[row] for part in together], [part[0] for part in alone])


@pytest.mark.parametrize(
    ("config", "rule"),
    [
        ({"decoder_attention_heads": 4}, "`decoder_attention_heads`: expected 8, .* got 4"),
    ],
)
def test_a_detector_that_the_package_cannot_be_is_one_line(config, rule, tmp_path):
    save_detector_folder(tmp_path, **config)
    with pytest.raises(UserError, match=rf"{FIELD}: .*: config.json: {rule}: choose another"):
        GroundingDino(tmp_path, "", CPU)


def test_a_segmenter_that_the_package_cannot_be_is_one_line(tmp_path):
    save_segmenter_folder(tmp_path, use_rel_pos=False)
    with pytest.raises(UserError, match=r"config.json: `use_rel_pos`: expected True, .* got False"):
        SegmentAnything(tmp_path, CPU)


def test_logits_of_masks_agree(segmenters):
    ours, theirs = segmenters
    images = torch.randn(2, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    boxes = torch.tensor([[3.0, 4, 30, 40], [0, 0, 64, 64]])
    with torch.inference_mode():
        mine = ours.decode(ours.embed(images)[1:], boxes)
        embedded = theirs.get_image_embeddings(images)[1:]
        other = theirs(image_embeddings=embedded, input_boxes=boxes[None], multimask_output=False)
    assert mine.std() > 0.01
    close([mine], [other.pred_masks[0]])


def test_masks_are_those_of_the_package(segmenters, noise):
    """segment-anything's own predictor, image by image."""
    from segment_anything import SamPredictor

    boxes = np.array([[3, 4, 30, 40], [0, 0, 64, 64]], np.float32)
    (ours,) = segmenters[0].segment([noise[7]], [boxes])
    assert 0.02 < ours.mean() < 0.98
    predictor = SamPredictor(segmenters[0].model)
    predictor.set_image(noise[7])
    scaled = predictor.transform.apply_boxes_torch(torch.tensor(boxes), noise[7].shape[:2])
    theirs, _, _ = predictor.predict_torch(None, None, boxes=scaled, multimask_output=False)
    np.testing.assert_array_equal(ours, theirs[:, 0].numpy())
