"""Toyworld's networks for features: their data, losses, training and the weights that are there."""

import json
import shutil

import numpy as np
import pytest
import timm
import torch
from safetensors.torch import load_file
from torch.nn import functional as F

from lab.train.detectors.pictures import LabelledPictures, make_labelled
from lab.train.features import __main__ as command
from lab.train.features import clip, dino, resnet
from lab.train.features.measure import quality
from probes.toyworld import WEIGHTS
from probes.toyworld.checker import PLACES, THINGS, read_images
from probes.toyworld.scene import parse
from probes.toyworld.world import load_world

THERE = WEIGHTS / "features"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A few steps of everything, and what was exported."""
    folder = tmp_path_factory.mktemp("features")
    shutil.copytree(WEIGHTS / "clip", folder / "clip")
    places = f"--work {folder / 'work'} --weights {folder / 'weights'} --clip {folder / 'clip'}"
    arguments, stages = (
        f"--pictures 12 --steps 2 --batch 4 {places}",
        "--stage pictures resnet50 dino clip export",
    )
    assert command.main([*arguments.split(), *stages.split()]) == 0
    return folder


def test_labels_are_what_the_checker_sees(tmp_path):
    pictures = make_labelled(10, 3, through_vae=0)
    assert pictures.labels.shape == (10, len(THINGS))
    assert (pictures.labels[:, -len(PLACES) :].sum(1) == 1).all()
    assert (read_images(pictures.images)[list(THINGS)].to_numpy(bool) == pictures.labels).all()
    pictures.save(tmp_path / "pictures.npz")
    again = LabelledPictures.load(tmp_path / "pictures.npz")
    assert (again.images == pictures.images).all() and (again.labels == pictures.labels).all()
    pixels = pictures.pixels(np.array([2, 5]))
    assert pixels.shape == (2, 3, 64, 64) and pixels.min() >= -1 and pixels.max() <= 1


def test_what_was_trained_is_there_and_learned(trained):
    for name in command.TRAINED:
        rows = [
            json.loads(line) for line in (trained / "work" / f"{name}.log.jsonl").read_text().splitlines()
        ]
        assert all(np.isfinite(list(row.values())).all() for row in rows)
        if name == "clip":
            continue
        model = timm.create_model(f"local-dir:{trained / 'weights' / name}", pretrained=True)
        kept = timm.create_model(f"local-dir:{THERE / name}", pretrained=True)
        assert [*model.state_dict()] == [*kept.state_dict()]  # the recipe makes what is shipped
        assert json.loads((trained / "weights" / name / "config.json").read_text()) == json.loads(
            (THERE / name / "config.json").read_text()
        )


def test_a_clip_trained_further_is_another_of_the_same_layout(trained):
    before, after = (
        load_file(folder / "clip" / "open_clip_model.safetensors") for folder in (WEIGHTS, trained)
    )
    assert {name: value.shape for name, value in before.items()} == {
        name: value.shape for name, value in after.items()
    }
    assert any((before[name] != after[name]).any() for name in before)
    for name in ("open_clip_config.json", "tokenizer.json"):
        assert (trained / "clip" / name).read_bytes() == (WEIGHTS / "clip" / name).read_bytes()
    told = json.loads((trained / "clip" / "recipe.json").read_text())["history"]
    assert told[-1].startswith("12 renderings") and "batches of 4" in told[-1]


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


def test_with_one_right_answer_the_loss_is_clips_own():
    logits = torch.randn(7, 7, generator=torch.Generator().manual_seed(3))
    place = torch.arange(7)
    wanted = (F.cross_entropy(logits, place) + F.cross_entropy(logits.T, place)) / 2
    torch.testing.assert_close(clip.several_right(logits, torch.eye(7, dtype=torch.bool)), wanted)
    true = torch.rand(7, 7, generator=torch.Generator().manual_seed(4)) < 0.3
    true |= torch.eye(7, dtype=torch.bool)
    soft = [
        F.cross_entropy(one, right / right.sum(1, keepdim=True))
        for one, right in ((logits, true.float()), (logits.T, true.T.float()))
    ]
    torch.testing.assert_close(clip.several_right(logits, true), sum(soft) / 2)


def test_what_a_stage_lacks_is_said_first(tmp_path, capsys):
    assert command.main(["--work", str(tmp_path), "--stage", "dino"]) == 2
    assert "run --stage pictures before it" in capsys.readouterr().err
    assert command.main(["--work", str(tmp_path), "--stage", "export"]) == 2
    assert "run --stage resnet50 or dino or clip before it" in capsys.readouterr().err


def test_balanced_distributions_use_all_prototypes_alike():
    cosines = torch.rand(256, 16, generator=torch.Generator().manual_seed(0)) * 0.4
    cosines[:, 3] += 0.5  # one that all would choose
    alone = F.softmax(cosines / dino.TEACHER, -1).mean(0)
    weights = dino.balanced(cosines)
    torch.testing.assert_close(weights.sum(1), torch.ones(256))
    assert alone[3] > 0.9 and weights.mean(0).max() < 2 / 16 and weights.mean(0).min() > 0.5 / 16


def test_dino_loss_is_the_cross_entropy_of_other_crops():
    generator = torch.Generator().manual_seed(1)
    student = [torch.rand(6, 8, generator=generator) for _ in range(3)]
    targets = [F.softmax(torch.rand(6, 8, generator=generator), -1) for _ in range(2)]
    wanted = []
    for i, target in enumerate(targets):
        for j, one in enumerate(student):
            if i != j:
                wanted.append(F.cross_entropy(one / dino.STUDENT, target))
    torch.testing.assert_close(dino.dino_loss(student, targets), torch.stack(wanted).mean())


def test_crops_are_of_the_picture():
    pixels = torch.linspace(-1, 1, 64).expand(5, 3, 64, 64).clone()
    generator = torch.Generator().manual_seed(2)
    small, whole = (dino.crops(pixels, 16, area, generator) for area in ((0.1, 0.2), (1.0, 1.0)))
    assert small.shape == whole.shape == (5, 3, 16, 16) and small.abs().max() <= 1
    reach = [(crop[:, 1].amax(-1) - crop[:, 1].amin(-1)).mean() for crop in (small, whole)]
    assert reach[0] < 0.7 * reach[1]  # a part of the ramp


def test_the_teacher_follows_the_student():
    teacher, student = dino.new_dino(), dino.new_dino()
    before = [value.clone() for value in teacher.parameters()]
    dino.follow(teacher, student, 0.9)
    for old, new, goal in zip(before, teacher.parameters(), student.parameters()):
        torch.testing.assert_close(new, 0.9 * old + 0.1 * goal)


def test_the_resnets_loss_is_least_where_it_says_what_is_there():
    labels = torch.from_numpy(make_labelled(6, 4, through_vae=0).labels.copy())
    right = resnet.resnet_loss(20.0 * (2 * labels.float() - 1), labels)
    assert right < 1e-3 < resnet.resnet_loss(torch.zeros(6, len(THINGS)), labels)


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
    assert {file.parent.name for file in files} == {*command.TRAINED} - {"clip"}
    assert sum(file.stat().st_size for file in files) <= 3_000_000
    kept = json.loads((THERE / "quality.json").read_text())
    page = (WEIGHTS.parents[2] / "docs" / "reference" / "features.md").read_text(encoding="utf-8")
    for name, shown in (("resnet50", "ResNet"), ("clip", "CLIP"), ("dino", "DINO")):
        scores = [kept[name][score] for score in ("neighbours", "probe", "place")]
        assert f"| {shown} | {' | '.join(f'{score:.3f}' for score in scores)} |" in page
        assert min(scores) > 0.6 and {*kept[name]["by_thing"]} == {*kept["pixels_8x8"]["by_thing"]}
