"""Loading: by name, folder, single file; nothing unsafe is run; every failure is one line."""

import json
import os
import pickle
import shutil
from functools import partial

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from probes.errors import UserError
from probes.models import loading
from tests.probes.models.model_faults import change
from triptych.cli.main import main

SHARD = "-00001-of-00001.safetensors"


def load(path, **options):
    return loading.load(loading.resolve(str(path)), device="cpu", **options)


def draw(pipe, prompt="a person with a dog"):
    noise = torch.Generator().manual_seed(3)
    return pipe(prompt, generator=noise, num_inference_steps=2, output_type="np").images


def test_a_folder(saved):
    loaded = load(saved())
    assert loaded.record["pipeline"] == "StableDiffusionPipeline"
    assert loaded.record["safety_checker"] == "off"
    assert (loaded.guidance_scale, loaded.device) == (7.5, "cpu")
    assert loaded.scheduler["class"] == "DDIMScheduler"
    assert next(loaded.pipe.unet.parameters()).dtype == torch.float32


def test_the_number_format_by_itself(saved):
    """Full precision on a CPU; on a GPU half, but for the bundled benchmark models."""
    loaded = load(saved())
    assert (loaded.dtype, loaded.record["decoder_dtype"]) == ("float32", "float32")
    assert load(saved(), dtype="auto").record["weight_hash"] == loaded.record["weight_hash"]
    for name, expected in ((str(saved()), "float16"), ("toyworld", "float32")):
        assert loading.pick_model_dtype(loading.resolve(name), "auto", torch.device("cuda", 0)) == expected


def note(seen, module, args):
    seen.append(args[0].dtype)


def test_xl_decodes_in_full_precision_where_its_description_says_so(saved, tmp_path):
    """Its decoder overflows in half precision; one that does not says so by `force_upcast: false`."""
    other = shutil.copytree(saved("sdxl"), tmp_path / "other")
    change(other, "vae/config.json", force_upcast=False)
    for folder, expected in ((saved("sdxl"), "float32"), (other, "float16")):
        loaded = load(folder, dtype="float16")
        seen: list[torch.dtype] = []
        hook = loaded.pipe.vae.decoder.conv_in.register_forward_pre_hook(partial(note, seen))
        image = draw(loaded.pipe)
        hook.remove()
        assert loaded.record["decoder_dtype"] == expected
        assert seen == [getattr(torch, expected)] and np.isfinite(image).all()
        assert next(loaded.pipe.unet.parameters()).dtype == torch.float16


def test_guidance_that_the_model_recommends(copy):
    (copy / "triptych.json").write_text('{"guidance_scale": 1.5, "trained_on": "rendered figures"}')
    loaded = load(copy)
    assert loaded.guidance_scale == 1.5
    assert loaded.record["card"] == {"trained_on": "rendered figures"}
    for text in ("{", "[]", '{"guidance_scale": "high"}'):
        (copy / "triptych.json").write_text(text)
        with pytest.raises(UserError):
            load(copy)


def test_the_safety_checker_is_left_off(copy, saved):
    index = json.loads((copy / "model_index.json").read_text())
    index |= {
        "safety_checker": ["stable_diffusion", "StableDiffusionSafetyChecker"],
        "requires_safety_checker": True,
    }
    (copy / "model_index.json").write_text(json.dumps(index))
    loaded = load(copy)
    assert loaded.pipe.safety_checker is None  # its weights are not even looked for
    assert (loaded.record["safety_checker"], loaded.record["ships_safety_checker"]) == ("off", True)
    assert load(saved()).record["ships_safety_checker"] is False


def as_pickle(folder, write):
    """Put pickled weights for the UNet's safetensors."""
    file = folder / "unet" / "diffusion_pytorch_model.safetensors"
    weights = load_file(file)
    file.unlink()
    write(weights, folder / "unet" / "diffusion_pytorch_model.bin")


def test_pickled_weights_load_without_running_code(saved, copy):
    as_pickle(copy, torch.save)
    assert load(copy).record["weight_hash"] == load(saved()).record["weight_hash"]


@pytest.mark.parametrize(
    ("name", "rest"),
    [
        ("model.pt", ".pt: give the whole checkpoint as one of these, or the folder of the pipeline"),
        (
            "Q4.GGUF",
            ".GGUF, a quantized denoiser alone: name its pipeline as `model`, and this file as quantization.file with"
            " quant_backend: gguf",
        ),
    ],
)
def test_other_files_are_refused_by_name(name, rest, tmp_path):
    (tmp_path / name).write_bytes(pickle.dumps({}))
    with pytest.raises(UserError) as caught:
        loading.resolve(str(tmp_path / name))
    assert str(caught.value).endswith(f"expected .safetensors or .ckpt, got {rest}")


@pytest.mark.parametrize(
    ("name", "end"),
    [("unet", ".bin"), ("unet", ".fp16.safetensors"), ("unet", SHARD), ("text_encoder", SHARD)],
)
def test_a_plan_names_weights_that_are_not_read(name, end, copy, capsys):
    """A pickle, a variant, shards, a LoRA: of two sets the named one is that which the libraries leave."""
    (whole,) = (copy / name).glob("*.safetensors")
    second = whole.with_name(whole.stem + end)
    new = {key: value + 1 for key, value in load_file(whole).items()}
    torch.save(new, second) if end == ".bin" else save_file(new, second, {"format": "pt"})
    if end == SHARD:
        index = {"metadata": {"total_size": 1}, "weight_map": dict.fromkeys(new, second.name)}
        (copy / name / f"{whole.name}.index.json").write_text(json.dumps(index))
    os.utime(whole, (0, 0))
    (copy / "style.safetensors").write_bytes(b"")
    key = next(iter(new))
    read_second = torch.equal(getattr(load(copy).pipe, name).state_dict()[key], new[key])
    assert read_second == (name == "unet" and end == SHARD)
    left = f"{name}/{whole.name}" if read_second else f"{name}/{second.name} (newer than what is read)"
    file = copy.with_name("a.yaml")
    file.write_text(json.dumps({"model": str(copy), "prompts": ["a {person}"]}))
    assert main(["plan", str(file)]) == 0
    assert f"\nnot read: style.safetensors, {left}\n" in capsys.readouterr().out


@pytest.mark.parametrize("cut", [0, 100, -1000])
def test_damaged_weights(copy, cut):
    file = copy / "unet" / "diffusion_pytorch_model.safetensors"
    file.write_bytes(file.read_bytes()[:cut])
    with pytest.raises(UserError) as caught:
        load(copy)
    expected = "unet: expected the whole weights of a UNet2DConditionModel, got "
    assert str(caught.value).startswith(f"model {copy}: {expected}")


@pytest.mark.parametrize("missing", ["unet", "tokenizer", "scheduler", "vae/config.json"])
def test_missing_files(copy, missing):
    path = copy / missing
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    with pytest.raises(UserError, match=r"model .*copy"):
        load(copy)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("toywrld", "did you mean toyworld"),
        ("no such model", "check the spelling or the path"),
        ("CompVis/stable-diffusion-v1-4", "give a local folder"),
        ("nobody/nothing@main", "give a local folder"),
    ],
)
@pytest.mark.parametrize("weights", [True, False])
def test_unknown_models(name, found, weights):
    with pytest.raises(UserError) as caught:
        loading.resolve(name, weights)
    assert str(caught.value).startswith(f"model {name}: ")
    assert found in str(caught.value)


def test_a_folder_that_holds_no_model(tmp_path):
    with pytest.raises(UserError, match=r"found no model_index\.json"):
        loading.resolve(str(tmp_path))


@pytest.mark.parametrize("name", ["dpm", "DDIMScheduler", "EULER"])
def test_schedulers_by_name_keep_the_model_settings(saved, name):
    loaded = load(saved(), scheduler=name)
    assert loaded.scheduler["class"] == loading.SCHEDULERS.get(name.lower(), name)
    assert loaded.scheduler["set"]["prediction_type"] == "v_prediction"
    assert np.isfinite(draw(loaded.pipe)).all()
