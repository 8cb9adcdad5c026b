"""Features through the observe stage: what is stored, what is made anew, what is not run and why."""

import copy

import numpy as np
import pytest
import torch

from analysis.observe.features.embedder import Embedder
from analysis.observe.features.observer import split_product
from analysis.observe.features.registry import FEATURES
from analysis.observe.registry import observers, why_not
from analysis.observe.stage import observe
from probes.config.schema import Config
from probes.errors import UserError
from probes.runs.parts import read_identity, read_part
from probes.runs.run import Run
from probes.toyworld import WEIGHTS
from tests.analysis.observe.stored_images import INDICATORS, image_run

USUAL = [feature.name for feature in FEATURES.values() if feature.usual]
CPU = torch.device("cpu")


def configured(model="toyworld", **settings):
    return Config(prompts=["a {person}"], model=model, observe={"objects": False, **settings})


@pytest.fixture
def nine(noise):
    return [*noise[:6], *noise[:3]]


def rows(run, name):
    return [row for part in run.parts(f"features/{name}") for row in read_part(part).to_pylist()]


def test_vectors_and_pairs_are_stored(tmp_path, nine):
    nine[4] = b"no image"
    run = image_run(
        tmp_path / "run", nine, ["a person"], part=6, objects=False, features="auto", feature_batch=4
    )
    assert observe(run, progress=False) == ""
    for name in ("resnet50", "clip", "dino"):
        stored, embedder = rows(run, name), Embedder(FEATURES[name], WEIGHTS / FEATURES[name].toyworld, CPU)
        assert [row["sample_id"] for row in stored] == run.samples()["sample_id"].tolist()
        assert stored[4]["vector"] is None and stored[4]["reason"]
        expected = embedder([image for image in nine if isinstance(image, np.ndarray)]).numpy()
        there = np.array([row["vector"] for row in stored if row["vector"]], np.float32)
        np.testing.assert_allclose(there, expected, rtol=0, atol=1e-5)
    tokens = Embedder(FEATURES["split_product"], WEIGHTS / FEATURES["split_product"].toyworld, CPU)
    stored = {(row["triplet"], row["pair"]): row["value"] for row in rows(run, "split_product")}
    assert len(stored) == 3 + 1 + 3  # without those of the image that cannot be read
    for (triplet, pair), value in stored.items():
        first, second = (tokens([nine[3 * triplet + INDICATORS.index(one)]])[0] for one in pair.split("-"))
        assert value == pytest.approx(float(split_product(first, second)), abs=1e-5)
    record = Run.open(run.path).meta
    assert (
        record["features/dino"]["checkpoint"]
        == read_identity(run.part_path("features/dino", 0))["fields"]["features/dino.checkpoint"]
    )
    assert record["not_observed"] == {"objects": "`observe.objects` is false"}


def test_a_part_that_is_gone_is_made_again_and_one_more_feature_added(tmp_path, nine):
    run = image_run(tmp_path / "run", nine, ["a person"], part=3, objects=False, features=["dino"])
    observe(run, progress=False)
    before = {part.name: part.read_bytes() for part in run.parts("features/dino")}
    times = {part.name: part.stat().st_mtime_ns for part in run.parts("features/dino")}
    run.part_path("features/dino", 1).unlink()
    config = copy.deepcopy(run.meta["config"])
    config["resolved"]["observe"]["features"] = ["dino", "split_product"]
    run.write_meta(config=config)
    run = Run.open(run.path)
    observe(run, progress=False)
    assert {part.name: part.read_bytes() for part in run.parts("features/dino")} == before
    again = {part.name: part.stat().st_mtime_ns for part in run.parts("features/dino")}
    assert [name for name in times if times[name] != again[name]] == ["part-00001.parquet"]
    assert len(run.parts("features/split_product")) == 3


def test_images_of_a_triplet_are_seen_together(tmp_path, noise):
    """A batch of two would part a triplet: split-product is given whole ones, and nothing is lost at the end."""
    only = {"objects": False, "features": ["split_product"]}
    run = image_run(tmp_path / "run", noise[:6] * 2, ["a person"], part=9, feature_batch=2, **only)
    observe(run, progress=False)
    assert [row["triplet"] for row in rows(run, "split_product")] == [0] * 3 + [1] * 3 + [2] * 3 + [3] * 3


@pytest.mark.parametrize(
    ("config", "asked"),
    [
        (configured(), USUAL),
        (configured(features=[]), []),
        (configured(features=["resnet50_logits", "clip"]), ["resnet50_logits", "clip"]),
        (configured("toyworld-null"), USUAL),
        (configured("some/model", feature_weights={"clip": str(WEIGHTS / "clip")}), ["clip"]),
    ],
)
def test_which_are_run(config, asked, tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    chosen, missing = observers(config)
    assert [observer.model.feature.name for observer in chosen] == asked
    absent = {*USUAL} - {*asked} if config.model == "some/model" else set()
    assert {*missing} - {"objects"} == absent


def test_absent_weights_stop_nothing_unless_asked_for_by_name(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    chosen, missing = observers(configured("some/model"))
    line = "resnet50, clip, dino, split_product skipped: no weights on this machine: name a file, a folder or a hub id"
    assert chosen == [] and why_not(missing)[1].startswith(line)
    by_name = configured("some/model", features=["dino"], feature_weights={"dino": "/away/dino.pth"})
    with pytest.raises(UserError, match=r"^observe\.feature_weights\.dino: /away/dino\.pth: no such file"):
        observers(by_name)
    with pytest.raises(UserError, match=r"^observe\.features: expected resnet50, .*, got 'lpips'"):
        observers(configured(features=["lpips"]))
    with pytest.raises(UserError, match=r"^observe\.feature_weights: expected resnet50, .*, got 'vgg'"):
        observers(configured(feature_weights={"vgg": "x"}))


def test_weights_in_the_hubs_folder_are_taken_without_a_network(tmp_path, monkeypatch):
    """As `huggingface_hub` lays them out: a snapshot of a commit that `refs/main` names."""
    home = tmp_path / "models--timm--vit_small_patch16_224.dino"
    snapshot = home / "snapshots" / ("0" * 40)
    snapshot.mkdir(parents=True)
    (home / "refs").mkdir()
    (home / "refs" / "main").write_text("0" * 40)
    for name in ("config.json", "model.safetensors"):
        (snapshot / name).write_bytes((WEIGHTS / "features" / "dino" / name).read_bytes())
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    chosen, missing = observers(configured("some/model"))
    assert [(one.model.feature.name, one.model.path) for one in chosen] == [("dino", snapshot)]
    assert {*missing} == {"objects", "resnet50", "clip", "split_product"}
