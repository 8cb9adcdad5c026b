"""Models that are not whole, of another kind or hostile: each one true line before anything is written."""

import json
import pickle
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from probes.errors import UserError
from probes.models import loading
from tests.evil_models import Payload
from tests.probes.conftest import generated, settings
from tests.probes.models.model_faults import INDEX, YAML, change, mutate, refused
from tests.probes.models.original_layout import original_layout
from tests.probes.models.test_hub import keep
from triptych.cli.main import main

TOKENIZER = "tokenizer/tokenizer_config.json"
NOT_WHOLE = {
    "index a list": (INDEX, "[]", f"{INDEX}: expected a description `{{...}}`, got a list"),
    "heads": ("text_encoder/config.json", {"num_attention_heads": 5}, "text_encoder/config.json: expected"),
    "another width": (
        "unet/config.json",
        {"cross_attention_dim": 40},
        "unet/config.json: expected a U-Net that runs with the text encoder's width of 32",
    ),
    "no sample size": ("unet/config.json", {"sample_size": ...}, "unet/config.json: expected `sample_size`"),
    "tokens beyond": (
        "text_encoder/config.json",
        {"vocab_size": 700},
        "tokenizer: expected tokens below 700, as text_encoder/config.json says, got 768",
    ),
    "no length": (TOKENIZER, {"model_max_length": ...}, "expected `model_max_length` of 3 to 32"),
    "layers that are not stored": (
        "text_encoder/config.json",
        {"num_hidden_layers": 5},
        "text_encoder: expected the whole weights of a CLIPTextModel, got ",
    ),
    "decoder": (
        "vae/config.json",
        {"out_channels": 1},
        "vae/config.json: expected images of shape (3, 64, 64)",
    ),
    "shift": (
        "vae/config.json",
        {"shift_factor": [[]]},
        "expected `shift_factor`, a number or null, got [[]]",
    ),
    "scheduler": (
        "scheduler/scheduler_config.json",
        {"beta_schedule": "x"},
        "scheduler/scheduler_config.json: ",
    ),
    "code": (INDEX, {"unet": ["os", "system"]}, "code of a model's author is not run"),
    "another class": (
        INDEX,
        {"vae": ["diffusers", "AutoencoderTiny"]},
        "expected `vae: [diffusers, AutoencoderKL]`",
    ),
}


@pytest.mark.parametrize("case", NOT_WHOLE)
def test_a_folder_that_is_not_whole(case, copy, tmp_path, capsys):
    file, fault, message = NOT_WHOLE[case]
    (copy / file).write_text(fault) if isinstance(fault, str) else change(copy, file, **fault)
    line = refused(copy, tmp_path, capsys)
    assert line.startswith(f"model {copy}: ") and message in line
    if "not stored" not in case:  # found without weights, in a plan as well
        assert refused(copy, tmp_path, capsys, "plan") == line


@pytest.mark.parametrize("value", [float("nan"), 1e6])
def test_weights_that_are_no_numbers(value, copy):
    """Not after the first batch: the remedy depends on whether the number is too large or none at all."""
    file = copy / "unet" / "diffusion_pytorch_model.safetensors"
    weights = load_file(file)
    weights["conv_in.weight"][0, 0, 0, 0] = value
    save_file(weights, file)
    remedy = (
        "in float16, got .* use --dtype bfloat16" if value == 1e6 else "in float32, got .* download it again"
    )
    with pytest.raises(UserError, match=f"unet: expected finite weights {remedy}"):
        loading.load(loading.resolve(str(copy)), device="cpu", dtype="float16")


@pytest.mark.parametrize("arguments", [(), ("plan",)])
def test_a_hub_model_is_refused_before_its_weights_are_fetched(arguments, cache, tmp_path, capsys):
    """Nothing but its index is there: had anything else been asked for, the hub's silence would be the message."""
    for name, pipeline in (("flux", "Flux2Pipeline"), ("half", "StableDiffusionPipeline")):
        (tmp_path / name).mkdir()
        (tmp_path / name / INDEX).write_text(json.dumps({"_class_name": pipeline}))
        keep(cache, tmp_path / name, f"owner/{name}")
    line = refused("owner/flux", tmp_path, capsys, *arguments)
    assert (
        line.startswith(f"model owner/flux: {INDEX}: expected a pipeline that can be read")
        and "Flux2Pipeline" in line
    )
    assert "owner/half: model_index.json: expected `tokenizer" in refused(
        "owner/half", tmp_path, capsys, *arguments
    )
    assert "the hub can't be reached" in refused("owner/nothing", tmp_path, capsys, *arguments)


def test_a_single_file_without_its_description(saved, tmp_path, capsys):
    """Of widths that no published model has: what is missing is named, and where to put it."""
    save_file(original_layout(saved("sd1")), tmp_path / "model.safetensors")
    line = refused(tmp_path / "model.safetensors", tmp_path, capsys)
    assert "expected the width of SD 1.x (768), 2.x (1024) or XL (2048) in cross-attention, got 24" in line
    assert f"put its description ({INDEX}" in line and f"into {tmp_path / 'model'}" in line


@pytest.mark.parametrize(
    ("file", "key"),
    [
        ("pytorch_lora_weights.safetensors", "unet.attn1.to_q.lora_A.weight"),
        ("style.safetensors", "lora_unet_attn1_to_q.alpha"),
        ("adapter_config.json", None),
    ],
)
def test_a_lora_is_no_model(file, key, tmp_path, capsys):
    folder = tmp_path / "lora"
    folder.mkdir()
    save_file({key: torch.ones(2)}, folder / file) if key else (folder / file).write_text("{}")
    for model in [folder] * (file != "style.safetensors") + [folder / file] * bool(key):
        line = refused(model, tmp_path, capsys)
        assert line == refused(model, tmp_path, capsys, "plan")
        assert line.startswith(
            f"model {model}: expected a whole model, got a LoRA, which changes one: name its model"
        )


def test_a_single_file_that_is_not_a_whole_model(saved, tmp_path, capsys):
    file = tmp_path / "unet.safetensors"
    original = original_layout(saved("sd1"))
    save_file({key: value for key, value in original.items() if key.startswith("model.")}, file)
    assert "expected U-Net, VAE and text encoder of Stable Diffusion in one file, got only U-Net" in refused(
        file, tmp_path, capsys
    )
    shutil.copy(saved("sd1") / "unet" / "diffusion_pytorch_model.safetensors", file)
    assert "got only U-Net: give the whole checkpoint" in refused(file, tmp_path, capsys)
    save_file({"spare.up": torch.ones(2)}, file)
    assert "1 tensors such as" in refused(file, tmp_path, capsys)
    file.write_bytes(b"\0" * 20)
    assert "expected weights as safetensors" in refused(file, tmp_path, capsys)
    line = refused(saved("sd1") / "unet", tmp_path, capsys)
    assert "found no model_index.json but a single component" in line


# Pickles: refused, and nothing in them runs.


LAYOUTS = {
    "torch": lambda value, path: torch.save({"x": value}, path),
    "legacy": lambda value, path: torch.save({"x": value}, path, _use_new_zipfile_serialization=False),
    "pickle": lambda value, path: path.write_bytes(pickle.dumps({"x": value})),
}


@pytest.mark.parametrize(
    ("layout", "place"),
    [
        ("torch", "unet/diffusion_pytorch_model"),
        ("legacy", "text_encoder/pytorch_model"),
        ("pickle", "vae/diffusion_pytorch_model"),
    ],
)
def test_hostile_pickles_run_nothing(layout, place, saved, tmp_path):
    marker = tmp_path / "marker"
    value = Payload(marker)
    folder = shutil.copytree(saved(), tmp_path / "folder")
    for file in (folder / place).parent.glob("*.safetensors"):
        file.unlink()
    LAYOUTS[layout](value, (folder / place).with_suffix(".bin"))
    with pytest.raises(UserError, match=f"{place.split('/')[0]}: expected the whole weights"):
        loading.load(loading.resolve(str(folder)), device="cpu")
    for name in ("model.ckpt", "model.pt", "model.safetensors"):
        LAYOUTS[layout](value, tmp_path / name)
        with pytest.raises(UserError, match=f"model {tmp_path / name}"):
            loading.resolve(str(tmp_path / name))
    assert not marker.exists()
    # the trap is live: unpickled by Python it springs
    pickle.loads(pickle.dumps(value))
    assert marker.exists()


def test_an_image_that_is_not_finite_names_a_remedy_that_is_one(saved, tmp_path):
    """float32 is not told to use float32."""
    config = settings(saved(), sampler={"guidance_scale": 1e38, "steps": 2})
    said = r"got NaN with float32 in all \d+ images of the first batch: lower --guidance-scale"
    with pytest.raises(UserError, match=said):
        generated(tmp_path / "run", config)


# Fuzz: an image, or one line


@pytest.mark.slow
def test_500_mutated_folders(saved, tmp_path, capsys):
    outcomes, out = {0: 0, 2: 0}, tmp_path / "out"
    for number in range(1000, 1500):
        folder = shutil.copytree(saved("sdxl" if number % 8 == 0 else "toy"), tmp_path / f"m{number}")
        what = mutate(folder, number)
        (tmp_path / "fuzz.yaml").write_text(YAML.format(model=folder))
        capsys.readouterr()
        status = main([str(tmp_path / "fuzz.yaml"), "--out", str(out), "--quiet", "--stage", "generate"])
        line = capsys.readouterr().err
        outcomes[status] += 1
        if status:
            assert line.count("\n") == 1 and len(line) <= 401, what
            # finite weights may still give an infinite image; that is known when it is drawn
            assert not out.exists() or "expected a finite image" in line, what
        for path in (folder, out):
            shutil.rmtree(path, ignore_errors=True)  # a fault may have taken the folder itself
    assert min(outcomes.values()) > 0
