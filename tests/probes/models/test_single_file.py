"""Checkpoints in the original layout: with a description beside them, and with the one that the package ships."""

import json
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from probes.errors import UserError
from probes.models import hub, loading, single_file
from probes.models.loading import usable_scheduler
from probes.models.source import Source
from tests.probes.models.original_layout import original_layout
from tests.probes.models.test_loading import draw, load

CONTEXT = "model.diffusion_model.input_blocks.{}.transformer_blocks.0.attn2.to_k.weight"


class ModelCheckpoint:
    """Stands for the class of pytorch_lightning that the published .ckpt files name."""

    __module__ = "pytorch_lightning.callbacks.model_checkpoint"


def with_description(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "model", ignore=shutil.ignore_patterns("*.safetensors"))
    return tmp_path / "model"


@pytest.mark.parametrize(
    ("kind", "ending"),
    [
        ("sd1", "ckpt"),
        *(pytest.param(kind, "safetensors", marks=pytest.mark.slow) for kind in ("sd2", "sdxl")),
    ],
)
def test_a_file_in_the_layout_it_is_published_in_draws_as_its_folder(kind, ending, saved, tmp_path):
    """SD 1.x as a .ckpt of pytorch_lightning, SD 2.x with OpenCLIP's names, XL with both text encoders."""
    folder = saved(kind)
    file = with_description(folder, tmp_path).with_suffix(f".{ending}")
    weights = original_layout(folder, open_clip=kind == "sd2")
    if ending == "ckpt":
        torch.save({"state_dict": weights, "epoch": 3, "global_step": 7, "optimizer_states": [{}]}, file)
    else:
        save_file(weights, file)
    source = loading.resolve(str(file))
    assert (source.kind, source.config) == ("file", tmp_path / "model")
    single, whole = load(file), load(folder)
    assert single.record["weight_hash"] == whole.record["weight_hash"]
    assert single.record["pipeline"] == whole.record["pipeline"]
    np.testing.assert_array_equal(draw(single.pipe), draw(whole.pipe))


def test_what_training_left_in_a_pickle_is_not_made(saved, tmp_path, monkeypatch):
    """The callbacks of sd-v1-4.ckpt are named by their class, which need not be installed and is never called."""
    import sys
    from types import ModuleType

    package = {name: ModuleType(name) for name in ("pytorch_lightning", "pytorch_lightning.callbacks")}
    module = ModuleType(ModelCheckpoint.__module__)
    module.ModelCheckpoint = ModelCheckpoint
    for name, value in {**package, ModelCheckpoint.__module__: module}.items():
        monkeypatch.setitem(sys.modules, name, value)
    file = with_description(saved("sd1"), tmp_path).with_suffix(".ckpt")
    torch.save(
        {"state_dict": original_layout(saved("sd1")), "callbacks": {ModelCheckpoint: {"best": 1}}}, file
    )
    for name in (*package, ModelCheckpoint.__module__):
        monkeypatch.delitem(sys.modules, name)
    assert load(file).record["weight_hash"] == load(saved("sd1")).record["weight_hash"]


def test_weights_that_are_missing_are_named(saved, tmp_path):
    file = with_description(saved("sd1"), tmp_path).with_suffix(".safetensors")
    weights = original_layout(saved("sd1"))
    del weights["model.diffusion_model.time_embed.0.weight"]
    save_file(weights, file)
    with pytest.raises(UserError, match=r"model\.safetensors: expected .* whole"):
        load(file)


def outline(path, width, *, channels=4, xl=False):
    """A file with the names by which an architecture is known, and next to no weights."""
    names = {
        "model.diffusion_model.input_blocks.0.0.weight": (8, channels, 3, 3),
        CONTEXT.format("4.1" if xl else "1.1"): (8, width),
        "first_stage_model.decoder.conv_in.weight": (1,),
        "conditioner.embedders.1.model.ln_final.weight" if xl else "cond_stage_model.model.ln_final.weight": (
            1,
        ),
    }
    save_file({name: torch.zeros(shape) for name, shape in names.items()}, path)
    return path


@pytest.mark.parametrize(
    ("file", "width", "folder", "scheduler", "prediction"),
    [
        ("v1-5-pruned-emaonly", 768, "sd1", "PNDMScheduler", "epsilon"),
        ("v2-1_512-ema-pruned", 1024, "sd2-epsilon", "PNDMScheduler", "epsilon"),
        ("v2-1_768-ema-pruned", 1024, "sd2-v", "DDIMScheduler", "v_prediction"),
        ("sd_xl_base_1.0", 2048, "sdxl", "EulerDiscreteScheduler", "epsilon"),
    ],
)
def test_the_description_of_a_published_architecture(file, width, folder, scheduler, prediction, tmp_path):
    """Without a network: parameters by the count of the published models, tokens as CLIP's own tokenizer has them."""
    path = outline(tmp_path / f"{file}.safetensors", width, xl=width == 2048)
    source = loading.resolve(str(path))
    assert source.config.name == folder
    assert source.token_limit == 77
    built = source.networks
    identifier = {"sd1": "CompVis/stable-diffusion-v1-4", "sdxl": "stabilityai/stable-diffusion-xl-base-1.0"}
    known = hub.known_models()[identifier.get(folder, "stabilityai/stable-diffusion-2-base")]["parameters"]
    assert sum(parameter.numel() for module in built.values() for parameter in module.parameters()) == known
    chosen = usable_scheduler(source, steps=20)
    assert (type(chosen).__name__, chosen.config.prediction_type) == (scheduler, prediction)
    assert built["unet"].config.sample_size == {"sd2-v": 96, "sdxl": 128}.get(folder, 64)
    assert [tokenizer.pad_token for tokenizer in source.tokenizers] == {
        "sd1": ["<|endoftext|>"],
        "sdxl": ["<|endoftext|>", "!"],
    }.get(folder, ["!"])


def test_clips_vocabulary_gives_the_tokens_of_open_clip():
    """Compared with open_clip's own byte-pair encoding, on words, digits, accents and emoji."""
    import open_clip

    source = Source("x", "file", single_file.DESCRIPTIONS, single_file.DESCRIPTIONS / "sd1")
    (tokenizer,) = source.tokenizers
    theirs = open_clip.get_tokenizer("ViT-L-14")
    texts = [
        "a woman with an umbrella",
        "A  Person's 12 skateboards, at 3:30!",
        "naïve café ☕ 👩‍🚒",
        "photo-realistic",
    ]
    for text in texts:
        ours = tokenizer(text, padding="max_length", max_length=77)["input_ids"]
        wanted = theirs([text])[0].tolist()
        wanted = wanted[: wanted.index(49407) + 1]
        assert ours == wanted + [49407] * (77 - len(wanted))
    assert len(tokenizer) == 49408


def test_a_file_of_sd_2_must_say_what_it_predicts(tmp_path):
    path = outline(tmp_path / "mine.safetensors", 1024)
    with pytest.raises(UserError, match=r"expected 512 .* or 768 .* in the name of a file of SD 2\.x"):
        loading.resolve(str(path))
    for prediction, folder in (("epsilon", "sd2-epsilon"), ("v_prediction", "sd2-v")):
        (tmp_path / "triptych.json").write_text(json.dumps({"prediction_type": prediction}))
        assert loading.resolve(str(path)).config.name == folder
    # the card goes before the name
    assert loading.resolve(str(outline(tmp_path / "512-base-ema.safetensors", 1024))).config.name == "sd2-v"
    (tmp_path / "triptych.json").unlink()
    assert loading.resolve(str(tmp_path / "512-base-ema.safetensors")).config.name == "sd2-epsilon"
