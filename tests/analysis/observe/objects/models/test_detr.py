"""DETR as an engine: a folder as published, with random weights, against transformers' own processing."""

import json

import numpy as np
import pytest
import torch

from analysis.observe.objects.engines.choice import object_observer
from analysis.observe.objects.models import detr_original
from analysis.observe.objects.models.detr import Detr, classes
from analysis.observe.objects.models.grounding_dino import pixels
from probes.config.schema import Config
from probes.errors import UserError
from tests.analysis.observe.original_detr import save_original
from tests.analysis.observe.random_detr import TINY, save_detr

COCO = {0: "N/A", 1: "person", 2: "bicycle", 3: "N/A", 4: "Stop Sign"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_detr(
        tmp_path_factory.mktemp("hub") / "models--facebook--detr" / "snapshots" / "0c1a2b", COCO, **TINY
    )


def test_detections_are_those_of_transformers(folder):
    from transformers import DetrForObjectDetection, DetrImageProcessor

    images = [np.random.default_rng(n).integers(0, 256, (48, 60, 3), dtype=np.uint8) for n in range(3)]
    engine = Detr(folder, torch.device("cpu"), threshold=0.2, batch=2)
    named = classes(folder)
    assert named == ["person", "bicycle", "stop sign"]
    found = engine.detect(images, [named] * 3)
    model = DetrForObjectDetection.from_pretrained(folder).eval()
    processor = DetrImageProcessor.from_pretrained(folder)
    with torch.inference_mode():
        output = model(**processor(images=images, return_tensors="pt"))
    told = processor.post_process_object_detection(output, threshold=0.2, target_sizes=[(48, 60)] * 3)
    assert sum(len(one.detections) for one in found) > 3
    for ours, theirs in zip(found, told):
        expected = [
            (COCO[int(label)].lower(), float(score), box.clamp(min=0).tolist())
            for score, label, box in zip(theirs["scores"], theirs["labels"], theirs["boxes"])
            if COCO[int(label)] != "N/A"
        ]
        expected.sort(key=lambda one: -one[1])
        assert [one.label for one in ours.detections] == [label for label, _, _ in expected]
        for one, (_, score, (x0, y0, x1, y1)) in zip(ours.detections, expected):
            # resized by PIL there and by torchvision here
            assert one.score == pytest.approx(score, abs=0.02)
            assert one.box == pytest.approx((x0, y0, min(x1, 60), min(y1, 48)), abs=1.5)
            left, top, right, bottom = one.box
            assert (
                (right - left) * (bottom - top) <= one.mask.sum() <= (right - left + 2) * (bottom - top + 2)
            )
    assert [one.label for one in engine.detect(images[:1], [["person"]])[0].detections] == [
        one.label for one in found[0].detections if one.label == "person"
    ]


def test_the_plan_records_what_looked(folder):
    config = Config(prompts=["a {person}"], observe={"engine": "detr", "detector": str(folder)})
    plan = object_observer(config)[0]
    assert plan.described()["revision"] == "0c1a2b"
    assert set(plan.tags()([None], [("a prompt",)])[0]) == {"person", "bicycle", "stop sign"}
    fields = plan.fields()
    other = object_observer(
        config.model_copy(update={"observe": config.observe.model_copy(update={"box_threshold": 0.9})})
    )[0]
    assert fields != other.fields() and fields["observe.detector"] == other.fields()["observe.detector"]


def test_what_is_none_is_one_line(folder, tmp_path):
    def refused(**observe):
        with pytest.raises(UserError) as caught:
            object_observer(Config(prompts=["a {person}"], observe={"engine": "detr", **observe}))[0].tags()
        assert "\n" not in str(caught.value)
        return str(caught.value)

    assert "expected a folder, hub id or .pth of DETR for the engine detr, found none" in refused()
    assert "no such file" in refused(detector=str(tmp_path / "none"))
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "sam"}))
    assert "expected a folder or hub id of detr, got sam" in refused(detector=str(tmp_path))
    (tmp_path / "config.json").write_text((folder / "config.json").read_text())
    with pytest.raises(UserError, match="expected whole weights"):
        Detr(tmp_path, torch.device("cpu"), threshold=0.5, batch=1)


@pytest.mark.parametrize(
    ("backbone", "dilation", "name"),
    [("resnet18", False, "detr-r18.pth"), ("resnet50", True, "detr_r50_dc5.pth")],
)
def test_a_checkpoint_of_detrs_authors_is_the_same_network(backbone, dilation, name, tmp_path):
    reference = save_original(tmp_path / name, backbone, dilation)
    model = detr_original.load(tmp_path / name).eval()
    images = torch.randn(2, 3, 64, 96, generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        logits, boxes = reference(images)
        ours = model(pixel_values=images)
    assert logits.std(dim=1).mean() > 0.01  # the queries differ, so that a place that is wrong would show
    torch.testing.assert_close(ours.logits, logits, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(ours.pred_boxes, boxes, atol=1e-5, rtol=1e-5)


def test_such_a_checkpoint_looks_for_cocos_classes(tmp_path):
    path = tmp_path / "paintskills_detr_r18.pth"
    reference = save_original(path)
    with torch.no_grad():  # numbers that are no class are never the likeliest
        unused = [number for number, name in detr_original.names(path).items() if name == "N/A"]
        reference.class_embed.bias[[int(number) for number in unused]] = -100.0
    torch.save(reference.state_dict(), path)
    config = Config(prompts=["a {person}"], observe={"engine": "detr", "detector": str(path)})
    plan = object_observer(config)[0]
    named = classes(path)
    assert len(named) == 80 and named[0] == "person" and named[-1] == "toothbrush"
    assert {"fire hydrant", "bicycle", "potted plant"} <= set(plan.tags()([None], [("a prompt",)])[0])
    before = plan.fields()
    image = np.random.default_rng(0).integers(0, 256, (40, 40, 3), dtype=np.uint8)
    path.with_suffix(".json").write_text(json.dumps({"short_side": 64, "long_side": 64}))
    assert object_observer(config)[0].fields() != before
    engine = Detr(path, torch.device("cpu"), threshold=0.05, batch=2)
    (found,) = engine.detect([image], [named])
    with torch.inference_mode():
        scores, labels = reference(pixels(image, 64, 64)[None])[0].softmax(-1)[0, :, :-1].max(-1)
    expected = [engine.names[int(label)] for score, label in zip(scores, labels) if score > 0.05]
    assert sorted(one.label for one in found.detections) == sorted(expected) != []


def test_a_checkpoint_that_is_none_of_detrs_is_one_line(tmp_path):
    path = tmp_path / "detr.pth"

    def refused(weights, **said):
        torch.save(weights, path)
        path.with_suffix(".json").write_text(json.dumps(said))
        with pytest.raises(UserError) as caught:
            Detr(path, torch.device("cpu"), threshold=0.5, batch=1)
        assert "\n" not in str(caught.value)
        return str(caught.value)

    weights = save_original(path, classes=4).state_dict()
    assert "expected 91 classes, got 4: name them (`id2label`) in detr.json beside it" in refused(weights)
    assert "got `backbone`: take it out" in refused(weights, backbone="resnet18")
    assert "heads: expected a whole number above 0, got 'x': correct it" in refused(weights, heads="x")
    assert "share, got query_embed.weight (7, 32): say `heads` in detr.json" in refused(weights, heads=5)
    assert "expected names by number (`id2label`)" in refused(weights, id2label=["a", "b", "c", "d"])
    named = {"id2label": {str(number): f"thing {number}" for number in range(4)}}
    assert "found no query_embed.weight" in refused({"a": torch.zeros(1)}, **named)
    fewer = {name: value for name, value in weights.items() if "decoder.norm" not in name}
    assert "expected the weights of DETR, got 2 missing (model.decoder.layernorm" in refused(fewer, **named)
    torch.save(weights, path)
    assert Detr(path, torch.device("cpu"), threshold=0.5, batch=1).names[3] == "thing 3"
