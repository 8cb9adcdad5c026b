"""Toyworld's tagger: what it is trained on, its training, and the weights that are there."""

import json
from collections import Counter

import numpy as np
import pytest
import torch
from sklearn.metrics import f1_score, precision_score, recall_score
from statsmodels.stats.proportion import proportion_confint

from analysis.observe.objects.models.grounding_dino import GroundingDino
from analysis.observe.objects.models.toyworld_checker import PERSON, ToyworldChecker
from analysis.observe.objects.tags.ram import RamTagger, pixels, ram_files
from analysis.observe.stage import observe
from lab.train.base.loop import Budget, Log
from lab.train.detectors import measure
from lab.train.detectors.tagged_images import (
    HELD_BACK,
    TAG_NAMES,
    TaggedImages,
    checked,
    make_tagged_images,
    of_run,
    random_captions,
    renderings,
)
from lab.train.detectors.tagger import (
    SETTINGS,
    best_thresholds,
    clearness,
    covered,
    encoded,
    export_tagger,
    label_embeddings,
    new_tagger,
    sampling_weights,
    thresholds,
    train_tagger,
)
from lab.train.detectors.tagger_quality import BAR, agreement, says, tagger_quality
from probes.runs.store import Run
from probes.toyworld import WEIGHTS
from probes.toyworld.scene import parse
from probes.toyworld.world import load_world
from tests.analysis.observe.stored_images import image_run

CPU = torch.device("cpu")
IN_PLACE = WEIGHTS / "ram" / "model.safetensors"


@pytest.fixture(scope="module")
def images():
    return renderings(32, 77, through_vae=0.0)


@pytest.fixture(scope="module")
def pictures(images):
    return TaggedImages.of(images)


@pytest.fixture(scope="module")
def tagger():
    return RamTagger(ram_files(IN_PLACE), CPU)


def test_truth_is_the_checkers_word(images, pictures, tmp_path):
    for image, row in zip(images, pictures.truth):
        seen = {one.label for one in ToyworldChecker().detect([image], [()])[0].detections}
        assert {tag for tag, there in zip(TAG_NAMES, row) if there} - set(TAG_NAMES[39:]) == seen
    pictures.save(tmp_path / "tagged.npz")
    again = TaggedImages.load(tmp_path / "tagged.npz")
    np.testing.assert_array_equal(again.truth, pictures.truth)


def test_some_renderings_have_no_figure():
    truth = checked(renderings(60, 78, through_vae=0.0))
    there = truth[:, TAG_NAMES.index(PERSON)]
    assert 0 < (~there).sum() < 12  # 5 % at random


def test_captions_by_lot_name_everything_often_enough():
    world = load_world("toyworld")
    lot = random_captions(world, 5, 3)
    more = random_captions(world, 5, 3, each=2)
    assert more[:5] == lot and len(lot) == 5
    named = Counter(thing for caption in more for thing in parse(caption, world).things)
    assert all(named[thing] >= 2 for thing in TAG_NAMES[1:])
    assert len(more) < 60  # at random alone some thing lacks after 100


def test_images_of_a_run_are_split_by_triplet(images, tmp_path):
    run = image_run(
        tmp_path / "run", list(images), [f"a person {row // 3}" for row in range(32)], model="toyworld"
    )
    train, held_back = of_run(run.path, 1, 0)
    assert len(train.images) + len(held_back.images) == run.samples(["triplet"])["triplet"].nunique()
    assert len(held_back.images) == -(-11 // HELD_BACK)
    for some in (train, held_back):
        assert all((image == images).all((1, 2, 3)).any() for image in some.images)
        np.testing.assert_array_equal(some.truth, checked(some.images))
    both, back = make_tagged_images(2, 0, 0, runs=[run.path], words=1)
    assert len(both.images) == 2 + len(train.images) and len(back.images) == len(held_back.images)


def test_cells_show_what_the_picture_shows(images, pictures):
    cover = covered(images)
    assert cover.shape == (32, 64, len(TAG_NAMES))
    # a thing that no cell shows is not there; what is there may be too thin for any cell
    unseen = ~cover.any(1) & pictures.truth
    assert unseen.mean() < 0.01
    dog = TAG_NAMES.index("dog")
    for row in np.flatnonzero(pictures.truth[:, dog]):
        box = next(
            d.box for d in ToyworldChecker().detect([images[row]], [()])[0].detections if d.label == "dog"
        )
        rows, columns = np.divmod(np.flatnonzero(cover[row, :, dog]), 8)
        assert (rows >= box[1] // 8).all() and (rows <= box[3] // 8).all()
        assert (columns >= box[0] // 8).all() and (columns <= box[2] // 8).all()


def test_embeddings_are_as_far_apart_as_can_be():
    embeddings = label_embeddings()
    likeness = torch.nn.functional.normalize(embeddings) @ torch.nn.functional.normalize(embeddings).T
    apart = likeness - torch.eye(len(TAG_NAMES))
    # whitened about their mean: a regular simplex, whose corners lie at a cosine of -1 / (n - 1)
    torch.testing.assert_close(
        apart, (torch.eye(len(TAG_NAMES)) - 1) / (len(TAG_NAMES) - 1), atol=1e-3, rtol=0
    )


def test_the_image_encoder_is_the_detectors(images):
    """Our Swin, from timm's blocks, against the one in groundingdino-py, with the same trained weights."""
    path = WEIGHTS / "grounding-dino" / "model.safetensors"
    backbone = GroundingDino(path, "", CPU).model.backbone[0]
    batch = torch.stack([pixels(image, 64) for image in images[:4]])
    with torch.inference_mode():
        expected = backbone.forward_raw(batch)[-1].flatten(2).transpose(1, 2)
    tokens = encoded(new_tagger().eval(), images[:4])
    torch.testing.assert_close(tokens[:, 1:], expected, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(tokens[:, 0], expected.mean(1), atol=1e-4, rtol=1e-4)


@pytest.mark.lab
def test_a_few_steps_lower_the_loss(pictures, tmp_path):
    torch.manual_seed(0)
    model = new_tagger()
    before = {name: value.clone() for name, value in model.named_parameters()}
    log = tmp_path / "log.jsonl"
    train_tagger(model, pictures, Budget(30, warmup=5), Log(log, every=10), batch_size=16)
    losses = [json.loads(line)["loss"] for line in log.read_text().splitlines()]
    assert losses[-1] < 0.7 * losses[0]
    still = {name for name, value in model.named_parameters() if torch.equal(value, before[name])}
    assert still == {name for name in before if name.startswith("visual_encoder.") or name == "label_embed"}


def test_the_whole_is_trained_but_for_the_embeddings(pictures, tmp_path):
    torch.manual_seed(0)
    model = new_tagger()
    before = {name: value.clone() for name, value in model.named_parameters()}
    few = TaggedImages(pictures.images[:4], pictures.truth[:4])
    train_tagger(model, few, Budget(2, warmup=1), Log(tmp_path / "log.jsonl"), batch_size=4, whole=True)
    assert {name for name, value in model.named_parameters() if torch.equal(value, before[name])} == {
        "label_embed"
    }


def test_what_is_exported_is_read_by_the_observe_stage(images, tmp_path):
    model = new_tagger().eval()
    export_tagger(model, tmp_path, [0.25] * len(TAG_NAMES))
    files = ram_files(tmp_path / "model.safetensors")
    assert files.tags == TAG_NAMES and set(files.thresholds) == {0.25} and files.settings == SETTINGS
    assert files.weights.stat().st_size <= 2e6
    got = RamTagger(files, CPU).probabilities(images[:2])
    with torch.inference_mode():
        expected = model(torch.stack([pixels(image, 64) for image in images[:2]])).sigmoid().numpy()
    np.testing.assert_allclose(got, expected, atol=0.01)  # float16


def test_thresholds_are_where_the_lesser_of_precision_and_recall_is_highest():
    class Fixed(torch.nn.Module):
        def forward(self, batch):
            return torch.logit(torch.tensor([[0.12, 0.3], [0.32, 0.3], [0.62, 0.3]]))[: len(batch)]

    pictures = TaggedImages(np.zeros((3, 64, 64, 3), np.uint8), np.array([[0, 0], [1, 0], [1, 0]], bool))
    # of the first tag 15 % to 30 % part the images, and 30 % is nearest to one half; the second is in none
    assert thresholds(Fixed(), pictures) == [0.3, 0.5]


def test_a_threshold_gives_up_recall_where_precision_is_less():
    """F1 would be highest, 0.8, where all is said: precision 4 of 6, recall 1; halfway both are 3 of 4."""
    probabilities = np.array([[0.22], [0.22], [0.72], [0.72], [0.72], [0.77]])
    truth = np.array([[1], [0], [1], [1], [1], [0]], bool)
    assert best_thresholds(probabilities, truth) == [0.5]
    f1 = [f1_score(truth, probabilities > limit) for limit in (0.2, 0.5)]
    assert f1 == pytest.approx([0.8, 0.75])


def test_what_is_seen_clearly_is_there_for_the_checker(images):
    hidden = images.copy()
    hidden[:16, :, 34:], hidden[16:, :, 28:] = (
        images[:16, :1, :1],
        images[16:, :1, :1],
    )  # less of many things is left
    truth = checked(hidden)
    clear = clearness(hidden, truth)
    np.testing.assert_array_equal(clear >= 0.5, truth)
    assert ((clear > 0) & (clear < 0.5)).any() and ((clear >= 0.5) & (clear < 1)).any() and clear.max() == 1


def test_what_is_half_seen_or_rare_is_drawn_more_often():
    clear = np.zeros((101, 3), np.float32)
    clear[:, 0], clear[1:, 1], clear[0, 2] = 1, 1, 1  # one picture shows the third, and not the second
    clear[5, 2] = 0.3
    weights = sampling_weights(clear)
    assert weights.sum() == pytest.approx(1)
    assert weights[0] / weights[1] == pytest.approx(10)  # the root of 100 over 1
    assert weights[5] / weights[1] == pytest.approx(3)


def test_agreement_is_recall_and_precision():
    rng = np.random.default_rng(0)
    truth, said = rng.random((50, 4)) < 0.4, rng.random((50, 4)) < 0.5
    truth[:, 2], said[:, 3] = False, False
    table = agreement(said, truth, ("a", "b", "c", "d"))
    for number, tag in enumerate("ab"):
        row = table["by_tag"][tag]
        assert row["recall"] == pytest.approx(recall_score(truth[:, number], said[:, number]), abs=1e-4)
        assert row["precision"] == pytest.approx(precision_score(truth[:, number], said[:, number]), abs=1e-4)
    assert table["by_tag"]["c"]["recall"] is None and table["by_tag"]["d"]["precision"] is None
    assert table["lowest_precision"] == 0.0 and table["images"] == 50


def test_quality_holds_the_tagger_and_the_checker_against_the_checker(tagger, images, pictures):
    quality = tagger_quality(tagger, images, images[:8])
    assert quality["drawn"]["images"] == quality["checker"]["images"] == 8
    assert quality["renderings"] == agreement(says(tagger, images), pictures.truth, TAG_NAMES)
    assert quality["checker"]["recall"] > 0.9  # renderings are clear
    row = quality["renderings"]["by_tag"]["hat"]
    ends = proportion_confint(round(row["recall"] * row["seen"]), row["seen"], method="wilson")
    np.testing.assert_allclose(row["recall_interval"], ends, atol=1e-4)


def test_nothing_drawn_is_nothing_to_measure(capsys):
    assert measure.main(["ram", "--drawn", "0"]) == 2
    assert "--drawn: expected images" in capsys.readouterr().err


# The weights that come with the package.


@pytest.mark.lab
def test_the_tagger_in_place_reaches_its_bar_on_fresh_renderings(tagger):
    images = renderings(120, 79, through_vae=0.0)
    table = agreement(says(tagger, images), checked(images), tagger.files.tags)
    assert table["recall"] >= BAR and table["precision"] >= BAR


def test_its_quality_is_stated_for_a_thousand_pictures_that_it_was_not_trained_on():
    quality = json.loads((IN_PLACE.parent / "quality.json").read_text())
    assert quality["renderings"]["images"] >= 1000
    for name in ("renderings", "drawn"):
        assert set(quality[name]["by_tag"]) == set(TAG_NAMES)
        assert quality[name]["recall"] >= BAR and quality[name]["precision"] >= BAR
    # of drawn images some tags are below it, as docs/validation/detectors.md says tag by tag
    assert min(quality["renderings"][f"lowest_{kind}"] for kind in ("recall", "precision")) >= BAR


def test_a_run_of_toyworld_looks_for_what_the_tagger_says(images, pictures, tmp_path):
    run = image_run(
        tmp_path / "run", list(images[:6]), ["a person"] * 6, model="toyworld", tags=["ram"], ram="toyworld"
    )
    observe(run, progress=False)
    run = Run.open(run.path)
    said = [set(tags) for tags in run.observed()["tags"]]
    truth = [{tag for tag, there in zip(TAG_NAMES, row) if there} for row in pictures.truth[:6]]
    assert sum(map(len, (a & b for a, b in zip(said, truth)))) >= 0.8 * sum(map(len, truth))
    objects = run.objects()
    assert len(objects) and set(objects["source"]) == {"ram"}
    assert run.meta["observer"]["ram"] == "toyworld" and "ram" in run.meta["observer"]["checkpoints"]
