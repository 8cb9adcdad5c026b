"""Networks and transforms are the libraries' own: what is read of an image equals what timm and open_clip give."""

import json
from dataclasses import replace

import numpy as np
import open_clip
import pytest
import timm
import torch
from PIL import Image
from safetensors.torch import save_file

from analysis.observe.features import weights
from analysis.observe.features.embedder import Embedder
from analysis.observe.features.registry import FEATURES
from probes.errors import UserError
from probes.toyworld import WEIGHTS

CPU = torch.device("cpu")
RESNET, DINO = WEIGHTS / "features" / "resnet50", WEIGHTS / "features" / "dino"


@pytest.fixture(scope="module")
def pictures():
    """Two that are not square and one of toyworld's size."""
    rng = np.random.default_rng(0)
    return [rng.integers(0, 256, (*size, 3), dtype=np.uint8) for size in ((80, 64), (64, 96), (64, 64))]


def library(folder, pictures):
    """A local timm model and its input, by timm alone."""
    model = timm.create_model(f"local-dir:{folder}", pretrained=True).eval()
    transform = timm.data.create_transform(**timm.data.resolve_model_data_config(model), is_training=False)
    return model, torch.stack([transform(Image.fromarray(image)) for image in pictures])


@pytest.mark.parametrize("name", ["resnet50", "resnet50_logits", "dino", "split_product"])
@torch.inference_mode()
def test_timm_features_are_timms(name, pictures):
    folder = RESNET if "resnet" in name else DINO
    model, pixels = library(folder, pictures)
    embedder = Embedder(FEATURES[name], folder, CPU)
    ours = torch.stack([embedder.transform(Image.fromarray(image)) for image in pictures])
    assert torch.equal(ours, pixels)
    maps = model.forward_features(pixels)
    expected = {
        "resnet50": lambda: maps.mean((2, 3)),
        "resnet50_logits": lambda: model(pixels),
        "dino": lambda: model(pixels),  # without classes: the class token after the last norm
        "split_product": lambda: maps[:, 1:],
    }[name]()
    torch.testing.assert_close(embedder(pictures), expected, rtol=0, atol=1e-5)


@torch.inference_mode()
def test_clip_features_are_open_clips(pictures):
    model, transform = open_clip.create_model_from_pretrained(f"local-dir:{WEIGHTS / 'clip'}")
    pixels = torch.stack([transform(Image.fromarray(image)) for image in pictures])
    embedder = Embedder(FEATURES["clip"], WEIGHTS / "clip", CPU)
    ours = torch.stack([embedder.transform(Image.fromarray(image)) for image in pictures])
    assert torch.equal(ours, pixels)
    torch.testing.assert_close(embedder(pictures), model.eval().encode_image(pixels), rtol=0, atol=1e-5)
    settings = weights.transform_settings(FEATURES["clip"], WEIGHTS / "clip")
    stored = model.visual.preprocess_cfg
    assert {name: list(np.ravel(settings[name])) for name in settings} == {
        name: list(np.ravel(64 if name == "size" else stored[name])) for name in settings
    }


@pytest.mark.parametrize("feature", FEATURES.values(), ids=lambda feature: feature.name)
def test_published_transforms(feature, tmp_path):
    """Of a bare file of weights it is the library's own for that network: 224 pixels, cut from the middle."""
    file = tmp_path / "weights.pth"
    file.touch()
    settings = weights.transform_settings(feature, file)
    if feature.library == "torch_fidelity":
        assert settings["size"] == 299  # by the network itself, however large the image
        return
    if feature.library == "open_clip":
        assert (settings["size"], settings["interpolation"]) == (224, "bicubic")
        assert settings["mean"] == open_clip.OPENAI_DATASET_MEAN
        return
    usual = timm.get_pretrained_cfg(feature.architecture)
    assert settings["input_size"] == (3, 224, 224) == usual.input_size
    assert (settings["mean"], settings["std"]) == (usual.mean, usual.std)
    assert (settings["crop_pct"], settings["interpolation"]) == (usual.crop_pct, usual.interpolation)
    assert usual.hf_hub_id == feature.weights  # what is fetched by name is that network's


def test_what_is_no_such_checkpoint_is_said_in_a_line(tmp_path):
    feature = FEATURES["dino"]
    with pytest.raises(
        UserError, match=r"^observe\.feature_weights\.dino: .*expected config\.json and model"
    ):
        weights.locate(feature, str(tmp_path))
    with pytest.raises(UserError, match=r"^observe\.feature_weights\.dino: .*no such file"):
        weights.locate(feature, str(tmp_path / "away.pth"))
    file = tmp_path / "dino.pth"
    torch.save({"cls_token": torch.zeros(1, 1, 4)}, file)
    with pytest.raises(
        UserError, match=r"expected the weights of vit_small_patch16_224\.dino, got 1\d\d missing"
    ):
        Embedder(feature, file, CPU)
    file.write_bytes(b"no checkpoint")
    with pytest.raises(UserError, match=r"expected a checkpoint of tensors"):
        Embedder(feature, file, CPU)
    clip = tmp_path / "clip"
    clip.mkdir()
    (clip / "open_clip_config.json").write_bytes((WEIGHTS / "clip" / "open_clip_config.json").read_bytes())
    (clip / "open_clip_model.safetensors").write_bytes(b"no checkpoint")
    with pytest.raises(UserError, match=r"^observe\.feature_weights\.clip: .*expected an open_clip model"):
        Embedder(FEATURES["clip"], clip, CPU)
    save_file({}, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps({"architecture": "vit_of_nobody"}))
    with pytest.raises(UserError, match=r"expected a network of timm .*vit_of_nobody"):
        Embedder(feature, tmp_path, CPU)


def test_the_identity_holds_checkpoint_network_and_transform(tmp_path):
    feature = FEATURES["dino"]
    before = weights.identity(feature, DINO)
    assert before["checkpoint"] != weights.identity(feature, RESNET)["checkpoint"]
    described = json.loads((DINO / "config.json").read_text())
    described["pretrained_cfg"]["mean"] = [0.4] * 3
    (tmp_path / "config.json").write_text(json.dumps(described))
    (tmp_path / "model.safetensors").write_bytes((DINO / "model.safetensors").read_bytes())
    after = weights.identity(feature, tmp_path)
    assert {name for name in before if before[name] != after[name]} == {"network", "transform"}
    other = weights.identity(replace(feature, readout="patch_tokens"), DINO)
    assert {name for name in before if before[name] != other[name]} == {"readout"}
