"""RAM's adapter against its equations in NumPy, the published layout, and what is said where something is missing."""

import json
import shutil

import numpy as np
import pytest
import torch

from analysis.observe.objects.engines.choice import object_observer
from analysis.observe.objects.tags.ram import PUBLISHED, Ram, RamTagger, ram_files, tagger_weights
from analysis.observe.stage import observe
from probes.config.schema import Config
from probes.errors import UserError
from probes.runs.run import Run
from tests.analysis.observe.objects.tags.ram_equations import logits, other_layout, tagger_layout
from tests.analysis.observe.stored_images import image_run

CPU = torch.device("cpu")
SMALL = {
    "image_size": 48,
    "patch_size": 2,
    "embed_dim": 8,
    "depths": [2, 3, 1],  # shifted windows, merging twice, and a stage that is one window
    "num_heads": [2, 4, 4],
    "window_size": 6,
    "label_width": 12,
    "hidden_size": 16,
    "intermediate_size": 20,
    "attention_heads": 4,
    "layers": 2,
    "tags": 9,
}
TAGS = ["Kite", "bow tie", "person", "St. Bernard", "sea", "CD player", "cat", "dog", "sit"]


def drawn(shapes, rng):
    """Random weights that let through as much as comes in, so that logits depend on every tag and every image."""
    weights = {}
    for name, shape in shapes.items():
        value = rng.normal(size=shape).astype(np.float32)
        if len(shape) == 1:
            value = 0.3 * value + (1 if "norm" in name.lower() and name.endswith("weight") else 0)
        elif name != "label_embed":
            value *= np.prod(shape[1:]) ** -0.5
        weights[name] = value.astype(np.float32)
    return weights


def checkpoint(path, weights, others):
    """A file as the published one: the model, the state of its optimiser, its configuration, its epoch."""
    empty = {name: torch.zeros(1).expand(shape) for name, shape in others.items()}
    model = {name: torch.from_numpy(value) for name, value in weights.items()} | empty
    state = {0: {"step": 1, "exp_avg": torch.zeros(3), "exp_avg_sq": torch.zeros(3)}}
    optimizer = {"state": state, "param_groups": [{"lr": 1e-5, "betas": (0.9, 0.999), "params": [0]}]}
    torch.save({"model": model, "optimizer": optimizer, "config": {"vit": "swin_l"}, "epoch": 4}, path)
    return path


@pytest.fixture(scope="module")
def weights():
    return drawn(tagger_layout(SMALL), np.random.default_rng(0))


@pytest.fixture(scope="module")
def small(weights, tmp_path_factory):
    """A small checkpoint in the published layout, described, with its tags and thresholds beside it."""
    folder = tmp_path_factory.mktemp("ram")
    others = {name: (1,) for name in other_layout(SMALL)}
    path = checkpoint(folder / "ram_small.pth", weights, others)
    path.with_suffix(".json").write_text(json.dumps(SMALL))
    (folder / "ram_tag_list.txt").write_text("\n".join(TAGS))  # as published: no new line at the end
    return path


@pytest.fixture
def copied(small, tmp_path):
    return shutil.copytree(small.parent, tmp_path / "copy") / small.name


def test_logits_are_those_of_the_equations(small, weights):
    rng = np.random.default_rng(1)
    images = rng.normal(size=(3, 3, 48, 48)).astype(np.float32)
    tagger = RamTagger(ram_files(small), CPU)
    with torch.inference_mode():
        got = tagger.model(torch.from_numpy(images)).numpy()
    exact = {name: value.astype(np.float64) for name, value in weights.items()}
    expected = np.stack([logits(image.astype(np.float64), exact, SMALL) for image in images])
    # they differ by tag and by image, far more than by what is allowed
    assert expected.std(1).min() > 0.1 and expected.std(0).max() > 0.01
    np.testing.assert_allclose(got, expected, atol=1e-4, rtol=0)


def test_the_published_layout():
    with torch.device("meta"):
        model = Ram(PUBLISHED)
    shapes = {name: tuple(value.shape) for name, value in model.state_dict().items()}
    assert shapes == tagger_layout(PUBLISHED)


def test_a_file_as_published_is_used_up(tmp_path):
    """Every weight of the full layout is either the tagger's, in its shape, or known not to be needed."""
    tagger, others = tagger_layout(PUBLISHED), other_layout(PUBLISHED)
    path = checkpoint(tmp_path / "ram_swin_large_14m.pth", {}, tagger | others)
    (tmp_path / "ram_tag_list.txt").write_text("\n".join(f"tag {number}" for number in range(4585)))
    assert {name: tuple(value.shape) for name, value in tagger_weights(path).items()} == tagger
    files = ram_files(path)
    assert files.settings == PUBLISHED and files.thresholds == (0.68,) * 4585


def publish_ram(folder, weights):
    """ram_swin_large_14m.pth with these weights, and the list of its tags beside it."""
    path = checkpoint(folder / "ram_swin_large_14m.pth", weights, other_layout(PUBLISHED))
    (folder / "ram_tag_list.txt").write_text("\n".join(f"tag {number}" for number in range(4585)))
    return path


def test_tags_are_those_above_their_thresholds(copied):
    rng = np.random.default_rng(4)
    images = list(rng.integers(0, 256, (4, 64, 64, 3), dtype=np.uint8))
    chances = RamTagger(ram_files(copied), CPU).probabilities(images)
    assert chances.shape == (4, 9) and ((chances > 0) & (chances < 1)).all()
    limits = np.median(chances, axis=0)
    copied.with_name("ram_tag_list_threshold.txt").write_text("\n".join(f"{limit:.9f}" for limit in limits))
    tagger = RamTagger(ram_files(copied), CPU)
    names = ["kite", "bow tie", "person", "st bernard", "sea", "cd player", "cat", "dog", "sit"]
    expected = [
        {name: "ram" for name, chance, limit in zip(names, row, limits) if chance > float(f"{limit:.9f}")}
        for row in chances
    ]
    assert tagger(images, [""] * 4) == expected and any(expected)
    assert tagger([], []) == []


# What cannot run is said before anything is drawn, in one line: at plan, so by `triptych plan` too.


def plan(checkpoints, **given):
    return object_observer(
        Config(prompts=["a {person}"], model="a/b", observe={**checkpoints, "tags": ["ram"], **given})
    )[0]


def test_a_plan_with_ram(checkpoints, small):
    made = plan(checkpoints, ram=str(small))
    assert "tags from ram" in str(made) and "timm" in made.versions
    assert list(made.checkpoints["ram"]) == [small.name]
    fields = made.fields()
    assert fields["observe.ram"] and fields["observe.tags"] == ["ram"]
    assert made.described()["ram"] == small.name  # where it lies is recorded with the configuration


def test_what_is_not_there_is_said_at_plan(checkpoints, copied):
    cases = [
        ({}, r"^observe.ram: expected RAM's checkpoint \(ram_swin_large_14m.pth\) .* found none: name it$"),
        ({"ram": "none.pth"}, r"^observe.ram: none.pth: no such file"),
        ({"tags": ["prompt"], "ram_tags": "no.txt"}, r"^observe.tags: expected `ram`, since"),
        (
            {"ram": "a/b/ram_swin_large_14m.pth"},
            r"^observe.ram_tags: .* since the hub has the checkpoint alone",
        ),
    ]
    for given, message in cases:
        with pytest.raises(UserError, match=message):
            plan(checkpoints, **given)


def written(path, text):
    path.write_text(text)


def replaced(path, name, value):
    data = torch.load(path, weights_only=True)
    torch.save({"model": data["model"] | {name: value}}, path)


TABLE = "visual_encoder.layers.0.blocks.0.attn.relative_position_bias_table"
FAULTS = [
    (
        lambda path: path.with_name("ram_tag_list.txt").unlink(),
        r"observe.ram_tags: .*expected the list of RAM's tags",
    ),
    (
        lambda path: written(path.with_name("ram_tag_list.txt"), "a\nb"),
        r"expected 9 lines, one for each tag of the checkpoint, got 2",
    ),
    (
        lambda path: written(path.with_name("ram_tag_list_threshold.txt"), "0.5\n" * 8 + "high"),
        r"line 9: expected a threshold from 0 to 1, got 'high'",
    ),
    (
        lambda path: replaced(path, TABLE, torch.zeros(49, 2)),
        r"relative_position_bias_table: \(49, 2\) for \(121, 2\)",
    ),
    (lambda path: path.write_bytes(b"PK no checkpoint"), r"observe.ram: .*expected a checkpoint of tensors"),
]


@pytest.mark.parametrize(("spoil", "message"), FAULTS)
def test_what_does_not_fit_is_said_at_plan(checkpoints, copied, spoil, message):
    spoil(copied)
    with pytest.raises(UserError, match=message) as raised:
        plan(checkpoints, ram=str(copied))
    assert "\n" not in str(raised.value)


def test_a_run_looks_for_what_ram_says(checkpoints, copied, noise, tmp_path):
    lines = ["0"] * 9  # every tag of every image
    copied.with_name("ram_tag_list_threshold.txt").write_text("\n".join(lines))
    given = {**checkpoints, "tags": ["ram", "prompt"], "ram": str(copied), "box_threshold": 0.6, "batch": 2}
    run = image_run(
        tmp_path / "run", noise[:3], ["a person with a dog"] * 3, model="a/b", device="cpu", **given
    )
    observe(run, progress=False)
    observed = Run.open(run.path).read("observed")
    assert (observed["tags"].map(len) == 9).all()  # the prompt's nouns are among them
    objects = Run.open(run.path).read("objects")
    assert set(objects["source"]) <= {"ram"}
    changed = Config(prompts=["a {person}"], model="a/b", observe=given)
    before = object_observer(changed)[0].fields()
    copied.with_name("ram_tag_list_threshold.txt").write_text("\n".join(["0.5"] * 9))
    assert object_observer(changed)[0].fields()["observe.ram_tags"] != before["observe.ram_tags"]
