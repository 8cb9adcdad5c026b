"""Logits of networks as outcomes of a trace, against open_clip and timm; and through the command line."""

import json
import shutil

import numpy as np
import open_clip
import pytest
import timm
import torch
import yaml
from open_clip.tokenizer import HFTokenizer
from PIL import Image
from safetensors.torch import save_file
from timm.data import create_transform, resolve_data_config

from analysis.methods.tracing.findings import explained
from analysis.methods.tracing.logits import class_numbers, logits
from probes.config.schema import Config
from probes.errors import UserError
from probes.runs.images import read_image
from probes.runs.run import Run
from probes.toyworld import WEIGHTS
from tests.tiny import tiny_pipeline
from triptych.cli.main import main

TEXTS = ("a photo of a man", "a photo of a woman")
NAMES = ["somebody", "a man", "a woman"]


def random_clip(folder):
    """A CLIP of open_clip with random weights, in a folder of the published layout."""
    shutil.copytree(WEIGHTS / "clip", folder)
    described = json.loads((folder / "open_clip_config.json").read_text())
    torch.manual_seed(3)
    model = open_clip.create_model(f"local-dir:{folder}", load_weights=False)
    save_file(model.state_dict(), folder / "open_clip_model.safetensors")
    assert described["model_cfg"]["embed_dim"] == 96
    return folder


def random_classifier(folder, **described):
    """A classifier of timm with three classes and random weights, in a folder of the hub's layout."""
    folder.mkdir()
    torch.manual_seed(4)
    model = timm.create_model("resnet10t", num_classes=3)
    save_file(model.state_dict(), folder / "model.safetensors")
    settings = {**timm.get_pretrained_cfg("resnet10t").to_dict(), "input_size": [3, 64, 64], "num_classes": 3}
    about = {"architecture": "resnet10t", "num_classes": 3, "label_names": NAMES, "pretrained_cfg": settings}
    (folder / "config.json").write_text(json.dumps({**about, **described}))
    return folder, model.eval()


@pytest.fixture(scope="module")
def networks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("networks")
    classifier, model = random_classifier(folder / "classifier")
    return random_clip(folder / "clip"), classifier, model


@pytest.fixture(scope="module")
def images():
    rng = np.random.default_rng(0)
    return [Image.fromarray(rng.integers(0, 256, (64, 64, 3), np.uint8)) for _ in range(3)]


def settings(networks, classes=(1, 2)):
    clip, classifier, _ = networks
    chosen = {"texts": [*TEXTS], "classifier": str(classifier), "classes": [*classes]}
    observe = {"device": "cpu", "feature_weights": {"clip": str(clip)}}
    return Config(prompts=["a {person}"], observe=observe, measure={"logits": chosen})


def test_clips_logit_is_the_log_odds_of_its_softmax_over_the_pair(networks, images):
    found, version = logits("clip", images, settings(networks))
    model, transform = open_clip.create_model_from_pretrained(f"local-dir:{networks[0]}")
    tokens = HFTokenizer(str(networks[0]), context_length=model.context_length)(list(TEXTS))
    with torch.no_grad():
        per_image, _ = model.eval().get_logits(torch.stack([transform(one) for one in images]), tokens)
    chance = per_image.double().softmax(-1).numpy()
    expected = np.log(chance[:, 0] / chance[:, 1])
    np.testing.assert_allclose(found, expected, atol=2e-4)
    assert np.ptp(expected) > 1e-3 and "a photo of a man | " in version


def test_a_classifiers_logit_is_the_log_odds_of_two_of_its_classes(networks, images):
    found, version = logits("classifier", images, settings(networks))
    options = resolve_data_config(
        {}, pretrained_cfg=json.loads((networks[1] / "config.json").read_text())["pretrained_cfg"]
    )
    transform = create_transform(**options, is_training=False)
    with torch.no_grad():
        chance = networks[2](torch.stack([transform(one) for one in images])).double().softmax(-1).numpy()
    np.testing.assert_allclose(found, np.log(chance[:, 1] / chance[:, 2]), atol=1e-5)
    named, _ = logits("classifier", images, settings(networks, ("a woman", "a man")))
    np.testing.assert_allclose(named, -found, atol=1e-12)
    assert (
        version.endswith("1 | 2") and version != logits("classifier", images, settings(networks, (2, 1)))[1]
    )


@pytest.mark.parametrize(
    ("described", "classes", "message"),
    [
        ({"num_classes": 1}, (0, 1), "expected `num_classes` of at least 2"),
        (
            {},
            (0, 3),
            r"measure\.logits\.classes: expected classes of .*, 0 to 2, or somebody, a man, a woman, got 3",
        ),
        ({}, ("a man", "men"), "got 'men': name one of them"),
        ({}, (1, "a man"), "expected two classes, got 1 twice"),
    ],
)
def test_classes_that_a_classifier_has_not_are_refused(described, classes, message, tmp_path):
    folder, _ = random_classifier(tmp_path / "classifier", **described)
    with pytest.raises(UserError, match=message):
        class_numbers(folder, classes)


def written(folder, model, networks, **measure):
    words = {"neutral": "person", "feminine": "woman", "masculine": "man"}
    fields = {
        "model": str(model),
        "indicators": words,
        "prompts": ["a {person} with a dog", "a {person} in a car", "a {person} in the snow"],
        "sampler": {"steps": 2},
        "capture": {"sites": ["latent.final"], "words": False},
        "generate": {"workers": 1, "device": "cpu"},
        "observe": {"objects": False, "features": [], "feature_weights": {"clip": str(networks[0])}},
        "measure": {"bootstrap": 20, "permutations": 20, **measure},
        "trace": {"sites": ["unet.mid.*.cross"], "cuts": False, "necessity": False},
    }
    file = folder / "triplets.yaml"
    file.write_text(yaml.safe_dump(fields, sort_keys=False))
    return file


def test_the_command_line_traces_logits_and_refuses_what_is_not_there(networks, tmp_path, capsys):
    model = tmp_path / "model"
    tiny_pipeline("toy").save_pretrained(model)
    asked = {"outcomes": ["clip", "classifier", "ssim"]}
    chosen = {"classifier": str(networks[1]), "classes": ["a man", "a woman"], "texts": list(TEXTS)}
    options = ["--out", str(tmp_path / "run"), "--quiet"]
    file = str(written(tmp_path, model, networks, **asked, logits=chosen))
    assert all(main([file, *options, "--stage", name]) == 0 for name in ("generate", "trace", "measure"))
    run = Run.open(tmp_path / "run")
    table = run.table("trace_outcomes")
    assert set(table["outcome"]) == {"clip", "classifier", "ssim"} and table["value"].notna().all()
    traced = run.read("traced", ["triplet", "seed", "variant", "image"])
    merged = table[table["outcome"] == "classifier"].merge(traced, on=["triplet", "seed", "variant"])
    pictures = [read_image(image["bytes"]) for image in merged["image"]]
    np.testing.assert_allclose(
        logits("classifier", pictures, settings(networks))[0], merged["value"], atol=1e-5
    )
    first, second = run.config.contrasts[0]
    totals = run.table("trace_total").query("outcome == 'clip'").set_index("donor")["total"]
    wide = table[table["outcome"] == "clip"].pivot(index="triplet", columns="variant", values="value")
    apart = (wide[f"none:{first}"] - wide[f"none:{second}"]).mean()
    assert totals[f"{first}-{second}"] == pytest.approx(apart) and apart != 0
    said = explained("clip", first, second, run.config)
    assert said.startswith("the log-odds by CLIP that an image goes with “a photo of a man” and not with")
    capsys.readouterr()
    for wrong, message in (
        (
            {**asked, "logits": {}},
            "measure.logits.classifier: expected the classifier whose logit is asked for",
        ),
        ({**asked, "logits": {**chosen, "classes": [0, 7]}}, "measure.logits.classes: expected classes of"),
        ({"outcomes": ["clips"]}, "measure.outcomes: expected ssim"),
    ):
        file = written(tmp_path, model, networks, **wrong)
        assert main([str(file), *options, "--stage", "measure"]) == 2
        said = capsys.readouterr().err.strip()
        assert message in said and "\n" not in said
