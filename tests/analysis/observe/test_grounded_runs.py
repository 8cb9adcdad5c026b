"""The observe stage with a detector and a segmenter, from checkpoints on disk to stored objects."""

import json
import shutil
from pathlib import Path

import pytest
import torch

from analysis.observe.checkpoints import sha256
from analysis.observe.objects.engines import grounded
from analysis.observe.objects.engines.choice import object_observer
from analysis.observe.stage import observe
from probes.config.schema import Config
from probes.errors import UserError
from probes.runs.images import decode_mask
from probes.runs.run import Run
from tests.analysis.observe.stored_images import image_run
from tests.analysis.observe.tiny_folders import save_detector_folder, save_segmenter_folder

# two triplets, of captions that name different things, and of some that name none
PROMPTS = [
    "a person with a dog",
    "a woman with a cat and a bow tie",
    "running",
    "running",
    "running",
    "running",
]


@pytest.fixture(scope="module")
def settings(checkpoints):
    # random weights score anything: thresholds at which some is found and some dropped
    return {
        "model": "a/b",
        **checkpoints,
        "tags": ["prompt"],
        "box_threshold": 0.6,
        "text_threshold": 0.5,
        "batch": 2,
        "device": "cpu",
    }


@pytest.fixture(scope="module")
def whole(settings, noise, tmp_path_factory):
    run = image_run(tmp_path_factory.mktemp("grounded") / "run", noise[:6], PROMPTS, **settings)
    observe(run, progress=False)
    return Run.open(run.path)


def test_what_is_stored(whole, settings):
    objects, observed = whole.read("objects"), whole.read("observed")
    assert observed["tags"].map(list).tolist() == [
        ["person", "dog", "cat", "bow", "tie"],
        ["woman", "cat", "bow", "tie", "dog"],
        ["dog", "cat", "bow", "tie"],
        *[[]] * 3,
    ]
    assert observed["reason"].tolist() == [""] * 3 + ["no tag to look for"] * 3  # no prompt with a noun
    assert (observed["status"] == "ok").all()
    dropped = observed.filter(like="dropped_").sum(axis=1)
    assert (observed["detected"] == observed["kept"] + dropped).all()
    assert len(objects) > 0 and dropped.sum() > 0
    assert set(objects["source"]) == {"prompt"} and objects["score"].min() > 0.6
    tags = dict(zip(observed["sample_id"], observed["tags"]))
    for row in objects.itertuples():
        assert row.label in tags[row.sample_id]
        assert 0 <= row.x0 < row.x1 <= 64 and 0 <= row.y0 < row.y1 <= 64
        assert decode_mask(row.mask, row.height, row.width).sum() == row.area
    observer = whole.meta["observer"]
    assert observer["engine"] == "groundingdino"  # auto, since checkpoints are named
    resolved = whole.config.observe
    assert (resolved.engine, resolved.tags, resolved.nms_iou) == ("groundingdino", ["prompt"], 0.5)
    checkpoint = Path(settings["detector"])
    assert observer["checkpoints"]["detector"] == {checkpoint.name: sha256(checkpoint)}
    assert observer["thresholds"] == {"box_threshold": 0.6, "text_threshold": 0.5, "nms_iou": 0.5}
    assert {"groundingdino-py", "segment-anything", "torch"} <= set(observer["versions"])


def test_folders_of_transformers(noise, tmp_path):
    """Models in transformers' layout look, too."""
    save_detector_folder(tmp_path / "dino")
    save_segmenter_folder(tmp_path / "sam")
    given = {
        **{"model": "a/b", "detector": str(tmp_path / "dino"), "segmenter": str(tmp_path / "sam")},
        **{"tags": ["prompt"], "box_threshold": 0.6, "text_threshold": 0.5, "device": "cpu"},
    }
    run = image_run(tmp_path / "run", noise[:3], PROMPTS, engine="groundingdino", **given)
    observe(run, progress=False)
    assert len(run.read("objects")) > 0
    assert len(Run.open(run.path).meta["observer"]["checkpoints"]["detector"]) == 1


# What is wrong is said before anything is loaded, in one line.


@pytest.mark.parametrize(
    ("observe", "message"),
    [
        ({"detector": "x.pth"}, r"observe: expected `observe.detector` .* got detector alone: name both"),
        ({"tags": ["prompt", "prompt"]}, r"observe.tags: `prompt` stands twice"),
        ({"tags": ["vocabulary"], "vocabulary": "everyda"}, r"observe.vocabulary: everyda: no such file"),
        (
            {"tags": ["prompt"], "vocabulary": "everyday"},
            r"observe.tags: expected `vocabulary`, since one is named, got prompt",
        ),
        ({"device": "cuda:9"}, r"observe.device: expected a device of this machine, got cuda:9"),
    ],
)
def test_what_is_wrong_is_said_beforehand(observe, message, checkpoints):
    given = observe if {"detector", "engine"} & set(observe) else {**checkpoints, **observe}
    with pytest.raises(UserError, match=message):
        object_observer(Config(prompts=["a {person}"], model="a/b", observe=given))[0]


@pytest.mark.parametrize(
    ("said", "tags", "vocabulary"),
    [
        ({}, ["vocabulary", "prompt"], "everyday"),
        ({"vocabulary": __file__}, ["vocabulary", "prompt"], __file__),
        ({"tags": ["prompt"]}, ["prompt"], None),
        ({"detector": "toyworld", "segmenter": "toyworld"}, ["vocabulary"], "toyworld"),
    ],
)
def test_what_is_looked_for_unless_it_is_said(said, tags, vocabulary, checkpoints, monkeypatch):
    """A vocabulary and the prompt's nouns; toyworld's own for what they know."""
    if vocabulary == __file__:  # any file: what is in it is not the question
        monkeypatch.setattr(grounded, "read_vocabulary", lambda path: ["dog"])
    plan = object_observer(Config(prompts=["a {person}"], model="a/b", observe={**checkpoints, **said}))[0]
    assert (plan.resolved["tags"], plan.resolved["vocabulary"]) == (tags, vocabulary)


def broken(settings, tmp_path, **files):
    """Copies of the checkpoints with some files written over."""
    folder = shutil.copytree(Path(settings["detector"]).parent, tmp_path / "broken")
    for name, content in files.items():
        (folder / name.replace("__", ".")).write_bytes(content)
    return folder


def test_a_checkpoint_that_does_not_fit(settings, noise, tmp_path):
    folder = broken(settings, tmp_path)
    beside = folder / "small_dino.json"
    beside.write_text(json.dumps({**json.loads(beside.read_text()), "dim_feedforward": 32, "dec_layers": 3}))
    given = {**settings, "detector": str(folder / "small_dino.pth")}
    run = image_run(tmp_path / "run", noise[:1], PROMPTS, **given)
    with pytest.raises(
        UserError, match=r"small_dino.pth: expected the weights of .* missing .* of another shape"
    ):
        observe(run, progress=False)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"small_dino__json": b'{"swim": {}}'}, r"expected a setting of Grounding DINO, got `swim`"),
        ({"small_sam__json": b"{}"}, r"expected vit_h, vit_l or vit_b in its name, or embed_dim, depth"),
    ],
)
def test_a_damaged_checkpoint(files, message, settings, noise, tmp_path):
    folder = broken(settings, tmp_path, **files)
    given = {
        **settings,
        "detector": str(folder / "small_dino.pth"),
        "segmenter": str(folder / "small_sam.pth"),
    }
    run = image_run(tmp_path / "run", noise[:1], PROMPTS, **given)
    with pytest.raises(UserError, match=message):
        observe(run, progress=False)


def test_a_pickle_that_runs_code_is_refused(settings, noise, tmp_path):
    folder = broken(settings, tmp_path)
    torch.save({"model": Config}, folder / "small_sam.pth")
    run = image_run(
        tmp_path / "run", noise[:1], PROMPTS, **{**settings, "segmenter": str(folder / "small_sam.pth")}
    )
    with pytest.raises(UserError, match=r"small_sam.pth: expected a checkpoint of tensors"):
        observe(run, progress=False)


def test_a_text_encoder_that_is_not_there(settings, noise, tmp_path):
    folder = broken(settings, tmp_path)
    shutil.rmtree(folder / "bert")
    run = image_run(
        tmp_path / "run", noise[:1], PROMPTS, **{**settings, "detector": str(folder / "small_dino.pth")}
    )
    with pytest.raises(UserError, match=r"observe.text_encoder: .*bert: expected a folder with a tokenizer"):
        observe(run, progress=False)
