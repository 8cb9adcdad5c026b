"""Folders of transformers in its own classes, and the packages' classes with other captions in the batch."""

from pathlib import Path

import numpy as np
import pytest
import torch

from analysis.observe.objects.models.grounding_dino import GroundingDino, GroundingDinoFolder
from analysis.observe.objects.models.segment_anything import SegmentAnything, SegmentAnythingFolder
from tests.analysis.observe.tiny_folders import save_detector_folder, save_segmenter_folder

CPU = torch.device("cpu")
CAPTIONS = ["dog . bow tie .", "cat .", "skateboarder . red ball . person .", "dog . bow tie ."]


@pytest.fixture(scope="module", params=["checkpoint", "folder"])
def detector(request, checkpoints, tmp_path_factory):
    if request.param == "checkpoint":
        return GroundingDino(Path(checkpoints["detector"]), "", CPU)
    folder = tmp_path_factory.mktemp("dino")
    save_detector_folder(folder)
    return GroundingDinoFolder(folder, CPU)


def close(first, second):
    for one, other in zip(first, second):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-4)


def test_other_captions_in_the_batch_change_nothing(detector, noise):
    """groundingdino-py alone mixes up whose phrases are whose; see `grounding_dino._own_mask`."""
    together = detector.ground(noise[:4], CAPTIONS)
    assert together[0].shape == (4, 20, 4) and together[1].shape == (4, 20, 256)
    assert together[0].std() > 0.01 and together[1].std() > 0.01
    for row in range(4):
        alone = detector.ground([noise[row]], [CAPTIONS[row]])
        close([part[row] for part in together], [part[0] for part in alone])


def test_a_pass_with_others_gives_what_it_gives_alone(detector, noise):
    """What passes over the same images share is computed once, and captions that are known are not read again."""
    passes = [["dog . cat .", "dog . cat ."], ["red ball .", "umbrella ."]]
    alone = [detector.ground(noise[:2], captions) for captions in passes]
    calls = []
    folder = hasattr(detector, "processor")
    images = detector.model.model.backbone.conv_encoder if folder else detector.model.backbone[0]
    texts = detector.model.model.text_backbone.encoder if folder else detector.model.bert.encoder
    images.register_forward_hook(lambda *_: calls.append("images"))
    texts.register_forward_hook(lambda *_: calls.append("texts"))
    with detector.same_images():
        together = [detector.ground(noise[:2], captions) for captions in passes]
    for one, other in zip(alone, together):
        close(one, other)
    assert calls == ["images"]
    assert not torch.equal(detector.ground(noise[2:4], passes[0])[0], alone[0][0])


def test_masks_of_a_folder_are_those_of_transformers(tmp_path, noise):
    """Its pipeline of processor and model, with all boxes at once."""
    from transformers import SamModel, SamProcessor

    save_segmenter_folder(tmp_path)
    boxes = np.array([[3, 4, 30, 40], [0, 0, 64, 64]], np.float32)
    ours = SegmentAnythingFolder(tmp_path, CPU).segment([noise[7], noise[0]], [boxes, boxes[:1]])
    assert [one.shape for one in ours] == [(2, 80, 64), (1, 64, 64)] and 0.02 < ours[0].mean() < 0.98
    processor, model = SamProcessor.from_pretrained(tmp_path), SamModel.from_pretrained(tmp_path)
    inputs = processor(noise[7], input_boxes=[boxes.tolist()], return_tensors="pt")
    with torch.inference_mode():
        output = model(
            **{k: inputs[k].float() for k in ("pixel_values", "input_boxes")}, multimask_output=False
        )
    sizes = inputs["original_sizes"], inputs["reshaped_input_sizes"]
    (expected,) = processor.post_process_masks(output.pred_masks, *sizes)
    np.testing.assert_array_equal(ours[0], expected[:, 0].numpy())


def test_masks_of_a_checkpoint_are_those_of_the_package(checkpoints, noise):
    """segment-anything's own predictor, image by image."""
    from segment_anything import SamPredictor

    segmenter = SegmentAnything(Path(checkpoints["segmenter"]), CPU)
    boxes = np.array([[3, 4, 30, 40], [0, 0, 64, 64]], np.float32)
    (ours,) = segmenter.segment([noise[7]], [boxes])
    assert 0.02 < ours.mean() < 0.98
    predictor = SamPredictor(segmenter.model)
    predictor.set_image(noise[7])
    scaled = predictor.transform.apply_boxes_torch(torch.tensor(boxes), noise[7].shape[:2])
    theirs, _, _ = predictor.predict_torch(None, None, boxes=scaled, multimask_output=False)
    np.testing.assert_array_equal(ours, theirs[:, 0].numpy())
