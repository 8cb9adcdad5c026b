"""groundingdino-py and transformers on the same weights: the same boxes, scores and masks."""

from pathlib import Path

import numpy as np
import pytest
import torch

from analysis.observe.checkpoints import read_weights
from analysis.observe.objects.models import hf_keys
from analysis.observe.objects.models.grounding_dino import GroundingDino
from analysis.observe.objects.models.hf_models import TransformersGroundingDino, TransformersSegmentAnything
from analysis.observe.objects.models.segment_anything import SegmentAnything
from tests.analysis.observe.tiny_models import save_detector

CPU = torch.device("cpu")
CAPTIONS = ["dog . bow tie .", "cat .", "skateboarder . red ball . person .", "dog . bow tie ."]


@pytest.fixture(scope="module")
def detectors(checkpoints):
    path = Path(checkpoints["detector"])
    return GroundingDino(path, "", CPU), TransformersGroundingDino(path, "", CPU)


@pytest.fixture(scope="module")
def segmenters(checkpoints):
    path = Path(checkpoints["segmenter"])
    return SegmentAnything(path, CPU), TransformersSegmentAnything(path, CPU)


def close(first, second):
    for one, other in zip(first, second):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-4)


def test_boxes_and_scores_agree(detectors, noise):
    ours, theirs = (detector.ground(noise[:4], CAPTIONS) for detector in detectors)
    assert ours[0].shape == (4, 20, 4) and ours[1].shape == (4, 20, 256)
    assert ours[1].std() > 0.01 and ours[0].std() > 0.01
    close(ours, theirs)


def test_images_of_two_sizes_agree(detectors, noise):
    close(*(detector.ground(noise[4:8], CAPTIONS) for detector in detectors))


def test_other_captions_in_the_batch_change_nothing(detectors, noise):
    """groundingdino-py alone mixes up whose phrases are whose; see `grounding_dino._own_mask`."""
    for detector in detectors:
        together = detector.ground(noise[:4], CAPTIONS)
        for row in range(4):
            alone = detector.ground([noise[row]], [CAPTIONS[row]])
            close([part[row] for part in together], [part[0] for part in alone])


def test_where_they_differ(checkpoints, noise, tmp_path):
    """A box side within 1e-3 of 0 or 1: groundingdino-py cuts it off at 1e-3, transformers at 1e-5."""
    path = save_detector(tmp_path)
    weights = torch.load(path, weights_only=True)
    for name, value in weights["model"].items():
        if "bbox_embed" in name and name.endswith("layers.2.bias"):
            value[2] -= 8.0  # widths of about e^-8 of the image
    torch.save(weights, path)
    ours, theirs = (
        cls(path, "", CPU).ground(noise[:1], CAPTIONS[:1])
        for cls in (GroundingDino, TransformersGroundingDino)
    )
    assert ours[0][..., 2].max() < 1e-3
    ratio = ours[0][..., 2] / theirs[0][..., 2]
    assert (ratio > 1.5).any()


def test_every_weight_has_its_place(checkpoints):
    """Each weight goes to one name or to three that share it, and no two go to the same."""
    weights = read_weights(Path(checkpoints["detector"]), "")
    named = hf_keys.grounding_dino(weights)
    unused = [name for name in weights if "pooler" in name or "relative_position_index" in name]
    assert sum(value.numel() for value in named.values()) == sum(
        value.numel() for name, value in weights.items() if name not in unused
    )


def test_masks_agree(segmenters, noise):
    boxes = [np.array([[3, 4, 30, 40], [0, 0, 64, 64], [20, 20, 21, 60]], np.float32)] * 2
    ours, theirs = (segmenter.segment([noise[0], noise[7]], boxes) for segmenter in segmenters)
    for mine, other, image in zip(ours, theirs, (noise[0], noise[7])):
        assert mine.shape == (3, *image.shape[:2])
        assert 0.02 < mine.mean() < 0.98
        assert (mine != other).mean() < 1e-3


def test_logits_of_masks_agree(segmenters):
    pixels = torch.randn(2, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    boxes = torch.tensor([[3.0, 4, 30, 40], [0, 0, 64, 64]])
    with torch.inference_mode():
        ours, theirs = (s.decode(s.embed(pixels)[1:], boxes) for s in segmenters)
    close([ours], [theirs])


def test_masks_are_those_of_the_package(segmenters, noise):
    """segment-anything's own predictor, image by image."""
    from segment_anything import SamPredictor

    boxes = np.array([[3, 4, 30, 40], [0, 0, 64, 64]], np.float32)
    (ours,) = segmenters[0].segment([noise[7]], [boxes])
    predictor = SamPredictor(segmenters[0].model)
    predictor.set_image(noise[7])
    scaled = predictor.transform.apply_boxes_torch(torch.tensor(boxes), noise[7].shape[:2])
    theirs, _, _ = predictor.predict_torch(None, None, boxes=scaled, multimask_output=False)
    np.testing.assert_array_equal(ours, theirs[:, 0].numpy())
