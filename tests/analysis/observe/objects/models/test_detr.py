"""DETR as an engine: a folder as published, with random weights, against transformers' own processing."""

import json

import numpy as np
import pytest
import torch

from analysis.observe.objects.engines.choice import object_observer
from analysis.observe.objects.models.detr import Detr, classes
from probes.config.schema import Config
from probes.errors import UserError
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
            assert one.score == pytest.approx(score, abs=1e-5)
            assert one.box == pytest.approx((x0, y0, min(x1, 60), min(y1, 48)), abs=1e-3)
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

    assert "expected a folder or hub id of DETR for the engine detr, found none" in refused()
    assert "no such file" in refused(detector=str(tmp_path / "none"))
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "sam"}))
    assert "expected a folder or hub id of detr, got 'sam'" in refused(detector=str(tmp_path))
    (tmp_path / "detr.pth").touch()
    assert "expected a folder or hub id of transformers, got a file" in refused(
        detector=str(tmp_path / "detr.pth")
    )
    (tmp_path / "preprocessor_config.json").write_text((folder / "preprocessor_config.json").read_text())
    (tmp_path / "config.json").write_text((folder / "config.json").read_text())
    with pytest.raises(UserError, match="expected whole weights"):
        Detr(tmp_path, torch.device("cpu"), threshold=0.5, batch=1)
