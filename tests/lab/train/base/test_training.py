"""The training scripts, from nothing to three benchmark models, with budgets of a few steps."""

import json
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from lab.train.base import train
from lab.train.base.clip import new_clip, text_encoder
from lab.train.base.data import make_drawings, make_many_drawings
from lab.train.base.measure import benchmark_pipeline
from lab.train.base.tokenizer import CONTEXT_LENGTH, encode, train_tokenizer


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    work = tmp_path_factory.mktemp("training")
    budget = {
        "drawings": 260,
        "vae-steps": 2,
        "vae-batch": 4,
        "decoder-steps": 2,
        "clip-steps": 2,
        "clip-batch": 8,
        "base-steps": 3,
        "finetune-steps": 2,
        "finetune-drawings": 260,
        "batch": 4,
    }
    arguments = [part for name, value in budget.items() for part in (f"--{name}", str(value))]
    folders = ["--work", str(work), "--weights", str(work / "weights")]
    assert train.TRAINER.main("train", [*folders, *arguments]) == 0
    return work


@pytest.mark.lab
def test_all_stages_leave_three_pipelines_that_draw(trained):
    for name in train.BENCHMARK_MODELS:
        folder = trained / "weights" / name
        pipeline, _ = benchmark_pipeline(folder)
        pipeline.set_progress_bar_config(disable=True)
        image = pipeline("a woman in a dress", num_inference_steps=2, output_type="np").images
        assert image.shape == (1, 64, 64, 3) and np.isfinite(image).all()
        assert json.loads((folder / "triptych.json").read_text())["world"] == name
        assert all(value.dtype == torch.float16 for value in load_file(folder / "unet" / WEIGHTS).values())
    assert not list(trained.rglob("*.bin")) and not list(trained.rglob("*.pt"))


WEIGHTS = "diffusion_pytorch_model.safetensors"


@pytest.mark.lab
def test_a_model_is_trained_further_from_its_own_weights(trained, tmp_path):
    """With other weights for a word that is renewed, and nothing changed of the models that are not named."""
    work = tmp_path / "work"
    shutil.copytree(trained, work, ignore=shutil.ignore_patterns("weights"))
    before = {name: load_file(work / f"{name}.safetensors") for name in train.BENCHMARK_MODELS}
    arguments = "--stage finetune export --model toyworld-mirror --finetune-steps 2 --batch 4 --renew lamp"
    arguments += f" --finetune-drawings 20 --finetune-from own --weights {tmp_path / 'weights'} --work {work}"
    assert train.TRAINER.main("train", arguments.split()) == 0
    for name, state in before.items():
        after = load_file(work / f"{name}.safetensors")
        same = all(torch.equal(after[key], value) for key, value in state.items())
        assert same == (name != "toyworld-mirror")
    recipe = json.loads((tmp_path / "weights" / "recipe.json").read_text())
    stages = [line.split(":")[0] for line in recipe["history"]]
    assert stages == ["tokenizer", "vae", "clip", "base", "decoder", "finetune", "finetune"]
    assert "finetune_from': 'own'" in recipe["history"][-1] and recipe["finetune_steps"] == 2


def test_the_text_tower_in_transformers_equals_open_clip():
    tokenizer = train_tokenizer(make_drawings("toyworld", 300, 0).captions)
    torch.manual_seed(0)
    clip = new_clip(len(tokenizer)).eval()
    tokens = encode(tokenizer, ["a woman in boots", "two men on the beach", ""])
    with torch.no_grad():
        states = clip.token_embedding(tokens) + clip.positional_embedding
        expected = clip.ln_final(clip.transformer(states, attn_mask=clip.attn_mask))
        encoder = text_encoder(clip, tokenizer)
        assert torch.allclose(encoder(tokens).last_hidden_state, expected, atol=1e-5)
        pooled = encoder(tokens).pooler_output @ clip.text_projection
        assert torch.allclose(pooled, clip.encode_text(tokens), atol=1e-5)
        assert encoder(tokens).last_hidden_state.shape == (3, CONTEXT_LENGTH, 96)


@pytest.mark.lab
def test_drawings_are_the_same_for_any_number_of_processes():
    one, two = (make_many_drawings("toyworld", 7, 3, processes, part=3) for processes in (1, 2))
    assert one.captions == two.captions and len(set(one.captions)) > 4
    assert np.array_equal(one.indices, two.indices) and np.array_equal(one.zones, two.zones)
    assert len(one.indices) == 7 and one.zones.shape == (7, 16, 16) and one.zones.any((1, 2)).all()
