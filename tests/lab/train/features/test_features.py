"""Toyworld's networks for features: their data, losses, training and the weights that are there."""

import json

import numpy as np
import pytest
import timm

from lab.train import networks
from lab.train.detectors.pictures import Pictures, make_labelled
from lab.train.features import clip
from lab.train.features.measure import quality
from probes.toyworld import WEIGHTS
from probes.toyworld.checker import PLACES, THINGS, read_images
from probes.toyworld.scene import parse
from probes.toyworld.world import load_world

THERE = WEIGHTS / "features"
TRAINED = ("resnet50", "dino", "clip")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A few steps of everything, and what was exported."""
    folder = tmp_path_factory.mktemp("features")
    for name in TRAINED:
        few = f"--pictures 12 --steps 2 --batch 4 --work {folder / name} --weights {folder / 'weights'}"
        assert networks.TRAINERS[name].main(name, few.split()) == 0
    return folder


def test_labels_are_what_the_checker_sees(tmp_path):
    pictures = make_labelled(10, 3, through_vae=0)
    assert pictures.labels.shape == (10, len(THINGS))
    assert (pictures.labels[:, -len(PLACES) :].sum(1) == 1).all()
    assert (read_images(pictures.images)[list(THINGS)].to_numpy(bool) == pictures.labels).all()
    pictures.save(tmp_path / "pictures.npz")
    again = Pictures.load(tmp_path / "pictures.npz")
    assert (again.images == pictures.images).all() and (again.labels == pictures.labels).all()
    pixels = pictures.pixels(np.array([2, 5]))
    assert pixels.shape == (2, 3, 64, 64) and pixels.min() >= -1 and pixels.max() <= 1


def test_what_was_trained_is_there_and_learned(trained):
    for name in TRAINED:
        rows = [json.loads(line) for line in (trained / name / "train.log.jsonl").read_text().splitlines()]
        assert all(np.isfinite(list(row.values())).all() for row in rows)
        if name == "clip":
            recipe = json.loads((trained / "weights" / "clip" / "recipe.json").read_text())
            assert recipe["history"][0].startswith(
                "4,000 renderings"
            )  # what it started from was trained, too
            continue
        model = timm.create_model(f"local-dir:{trained / 'weights' / 'features' / name}", pretrained=True)
        kept = timm.create_model(f"local-dir:{THERE / name}", pretrained=True)
        assert [*model.state_dict()] == [*kept.state_dict()]  # the recipe makes what is shipped
        assert json.loads(
            (trained / "weights" / "features" / name / "config.json").read_text()
        ) == json.loads((THERE / name / "config.json").read_text())


def test_sentences_are_true_of_the_picture_they_are_drawn_for():
    sentences, rng = clip.TrueSentences(load_world()), np.random.default_rng(0)
    seen = make_labelled(30, 5, through_vae=0).labels
    texts, named = zip(*(sentences.draw(one, rng) for one in seen))
    assert clip.truths(np.stack(named), seen).diagonal().all()
    for text, one in zip(texts, named):
        things = {thing for thing, there in zip(THINGS, one) if there}
        whole = text if text.split()[0] in ("a", "an") and len(text.split()) > 2 else f"a person with {text}"
        assert parse(whole, load_world()).things == things, text
    nothing = np.zeros(len(THINGS), bool)
    nothing[len(THINGS) - len(PLACES)] = True  # the studio, which no caption names
    assert all(not sentences.draw(nothing, rng)[1].any() for _ in range(20))


def test_quality_tells_vectors_that_know_from_those_that_do_not():
    rng = np.random.default_rng(0)
    labels = np.zeros((600, len(THINGS)), bool)
    labels[:, : -len(PLACES)] = rng.random((600, len(THINGS) - len(PLACES))) < 0.3
    labels[np.arange(600), len(THINGS) - 1 - rng.integers(len(PLACES), size=600)] = True
    shown = labels * np.where(
        np.arange(len(THINGS)) < len(THINGS) - len(PLACES), 1.0, 3.0
    )  # the place most of all
    knows = quality(shown + 0.1 * rng.normal(size=labels.shape), labels, 200)
    guesses = quality(rng.normal(size=(600, 20)), labels, 200)
    assert knows["probe"] > 0.99 and knows["place"] > 0.9 and 0.45 < guesses["probe"] < 0.55
    assert {*knows["by_thing"]} == {*THINGS[: -len(PLACES)]}


def test_the_shipped_networks_are_small_and_their_quality_is_kept():
    files = [*THERE.rglob("*.safetensors")]
    assert {file.parent.name for file in files} == {*TRAINED} - {"clip"}
    assert sum(file.stat().st_size for file in files) <= 3_000_000
    kept = json.loads((THERE / "quality.json").read_text())
    page = (WEIGHTS.parents[2] / "docs" / "reference" / "features.md").read_text(encoding="utf-8")
    for name, shown in (("resnet50", "ResNet"), ("clip", "CLIP"), ("dino", "DINO")):
        scores = [kept[name][score] for score in ("neighbours", "probe", "place")]
        assert f"| {shown} | {' | '.join(f'{score:.3f}' for score in scores)} |" in page
        assert min(scores) > 0.6 and {*kept[name]["by_thing"]} == {*kept["pixels_8x8"]["by_thing"]}
