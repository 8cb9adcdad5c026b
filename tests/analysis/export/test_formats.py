"""A run in other programs' formats, read by these programs: pycocotools, `datasets`, pandas."""

import contextlib
import io
import json
import sys

import numpy as np
import pandas as pd
import pytest
from datasets import load_dataset
from PIL import Image
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from analysis.export.exporting import FORMATS, export_run
from probes.errors import UserError
from probes.runs.images import decode_mask
from probes.runs.run import Run
from tests.analysis.synthetic_objects import add_objects
from tests.analysis.synthetic_run import write_run


def quiet(function, *arguments):
    """Call what prints."""
    with contextlib.redirect_stdout(io.StringIO()):
        return function(*arguments)


def seen_in(run: Run) -> dict[str, pd.DataFrame]:
    """The detections of a run by sample, as stored."""
    return dict(list(run.read("objects").groupby("sample_id")))


@pytest.fixture(scope="module")
def exported(finished, tmp_path_factory):
    """The folder of each format."""
    made = {}
    for name in FORMATS:
        made[name] = tmp_path_factory.mktemp("formats") / name
        done = export_run(finished.path, name, made[name])
        assert done.place == str(made[name]) and str(made[name]) in done.opens and done.note == ""
        assert not list(made[name].parent.glob(".tmp-*"))
    return made


def test_coco_holds_every_detection_and_prompt(finished, exported):
    coco = quiet(COCO, exported["coco"] / "annotations" / "instances.json")
    samples, seen = finished.samples().set_index("sample_id"), seen_in(finished)
    assert len(coco.imgs) == len(samples) and len(coco.anns) == len(finished.read("objects"))
    for number, image in coco.imgs.items():
        own, stored = coco.imgToAnns[number], seen[image["sample_id"]]
        assert [coco.cats[one["category_id"]]["name"] for one in own] == list(stored["label"])
        for one, row in zip(own, stored.itertuples()):
            assert np.array_equal(
                coco.annToMask(one).astype(bool), decode_mask(row.mask, row.height, row.width)
            )
            assert one["bbox"] == [row.x0, row.y0, row.x1 - row.x0, row.y1 - row.y0]
            assert one["area"] == coco.annToMask(one).sum() and one["score"] == pytest.approx(
                row.score, abs=1e-6
            )
        with Image.open(exported["coco"] / "images" / image["file_name"]) as picture:
            assert picture.size == (image["width"], image["height"])
            assert np.array_equal(np.asarray(picture), np.asarray(finished.image(image["sample_id"])))
    captions = quiet(COCO, exported["coco"] / "annotations" / "captions.json")
    for number, image in captions.imgs.items():
        (caption,) = captions.imgToAnns[number]
        assert caption["caption"] == samples.loc[image["sample_id"], "prompt"]


@pytest.mark.parametrize("kind", ["bbox", "segm"])
def test_coco_evaluates_as_its_own_truth(exported, kind):
    """Average precision of the detections against themselves is 1: COCO's evaluation takes boxes, masks and scores."""
    coco = quiet(COCO, exported["coco"] / "annotations" / "instances.json")
    found = quiet(coco.loadRes, [dict(one) for one in coco.dataset["annotations"]])
    evaluation = COCOeval(coco, found, kind)
    for step in (evaluation.evaluate, evaluation.accumulate, evaluation.summarize):
        quiet(step)
    assert evaluation.stats[0] == pytest.approx(1)


def test_coco_names_no_licence(exported):
    data = json.loads((exported["coco"] / "annotations" / "instances.json").read_text())
    assert data["licenses"] == [] and not any("license" in image for image in data["images"])


def test_imagefolder_loads_with_datasets(finished, exported, tmp_path):
    found = load_dataset("imagefolder", data_dir=str(exported["imagefolder"]), cache_dir=str(tmp_path))[
        "train"
    ]
    samples, seen = finished.samples().set_index("sample_id"), seen_in(finished)
    assert len(found) == len(samples)
    for row in found.select(range(0, len(found), 7)):
        stored, sample = seen[row["sample_id"]], samples.loc[row["sample_id"]]
        assert row["prompt"] == sample["prompt"] and row["indicator"] == sample["indicator"]
        assert np.array_equal(np.asarray(row["image"]), np.asarray(finished.image(row["sample_id"])))
        assert row["objects"]["categories"] == list(stored["label"])
        corners = stored[["x0", "y0", "x1", "y1"]].to_numpy()
        boxes = np.hstack([corners[:, :2], corners[:, 2:] - corners[:, :2]])
        assert np.array(row["objects"]["bbox"]) == pytest.approx(boxes)


def test_csv_holds_every_table(finished, exported):
    folder = exported["csv"]
    assert {path.stem for path in folder.iterdir()} == {"images", "detections", *finished.tables()}
    assert pd.read_csv(folder / "images.csv")["prompt"].tolist() == finished.samples()["prompt"].tolist()
    assert len(pd.read_csv(folder / "detections.csv")) == len(finished.read("objects"))
    gap = pd.read_csv(folder / "gap.csv")
    assert gap["gap"].to_numpy() == pytest.approx(finished.table("gap")["gap"].to_numpy(), nan_ok=True)


def test_images_that_enter_no_mean_are_left_out_and_said(tmp_path):
    path = write_run(tmp_path / "run", prompts=2, seeds=1, steps=2)
    add_objects(path, unreadable={"t00000-s0-feminine"})
    done = export_run(path, "coco", tmp_path / "coco")
    names = {file.stem for file in (tmp_path / "coco" / "images").iterdir()}
    assert names == {*Run.open(path).samples()["sample_id"]} - {"t00000-s0-feminine"}
    assert done.note == "1 left out (image cannot be read: 1)"


def test_a_run_without_objects_is_exported(tmp_path):
    path = write_run(tmp_path / "run", prompts=2, seeds=1, steps=2)
    export_run(path, "datasets", tmp_path / "folder")
    found = load_dataset(str(tmp_path / "folder"), cache_dir=str(tmp_path / "cache"))["train"]
    assert len(found) == 10 and "objects" not in found.features and found[0]["image"].size == (64, 64)


def test_what_cannot_be_done_is_one_line_and_leaves_nothing(finished, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    faults = {
        "expected one of datasets, coco": {"to": "yolo"},
        "expected a new or empty folder": {"to": "csv", "out": "mine"},
    }
    for message, arguments in faults.items():
        with pytest.raises(UserError, match=message):
            export_run(finished.path, **arguments)
    with pytest.raises(UserError, match="expected a run directory"):
        export_run(tmp_path / "none", "csv")
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "years of work"


def test_the_folder_has_the_name_of_run_and_format(finished, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert export_run(finished.path, "csv").place == "first-light-csv"
    assert (tmp_path / "first-light-csv" / "images.csv").exists()


def test_without_the_package_datasets(finished, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(UserError, match=r"--to datasets: .* found none: pip install .*\[data\]"):
        export_run(finished.path, "datasets", tmp_path / "out")
    assert not (tmp_path / "out").exists()
