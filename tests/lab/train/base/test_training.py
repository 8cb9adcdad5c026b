"""The training scripts, from nothing to three benchmark models, with budgets of a few steps."""

import json
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import CLIPTokenizer

from lab.train.base import train
from lab.train.base.clip import new_clip, text_encoder
from lab.train.base.data import make_drawings, make_many_drawings
from lab.train.base.measure import benchmark_pipeline
from lab.train.base.tokenizer import CONTEXT_LENGTH, encode, train_tokenizer
from lab.train.base.words import peers, unknown_words
from probes.toyworld.world import group_of_words, token_id


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
    assert train.main(["--work", str(work), "--weights", str(work / "weights"), *arguments]) == 0
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
def test_training_goes_on_from_exported_weights(trained, tmp_path):
    weights = tmp_path / "weights"
    shutil.copytree(trained / "weights", weights)
    arguments = "--stage resume finetune export --model toyworld-mirror --finetune-steps 2 --batch 4"
    arguments += f" --finetune-drawings 20 --finetune-from own --weights {weights} --work {tmp_path / 'work'}"
    before = load_file(weights / "toyworld-null" / "unet" / WEIGHTS)
    assert train.main(arguments.split()) == 0
    after = load_file(weights / "toyworld-null" / "unet" / WEIGHTS)  # not trained again
    assert all(torch.equal(after[name], value) for name, value in before.items())
    base = load_file(tmp_path / "work" / "base.safetensors")
    assert all(torch.equal(base[f"unet.{name}"], value.float()) for name, value in before.items())
    history = json.loads((weights / "recipe.json").read_text())["history"]
    assert [line.split(":")[0] for line in history] == [
        "tokenizer",
        "vae",
        "clip",
        "base",
        "decoder",
        "finetune",
        "resume",
        "finetune",
    ]


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
def test_a_further_word_is_taught_and_nothing_else_changes(trained, tmp_path):
    """Words of the world that the weights do not know get a row each, and only these rows are trained."""
    words = group_of_words()
    weights = tmp_path / "weights"
    shutil.copytree(trained / "weights", weights)
    before = CLIPTokenizer.from_pretrained(weights / "toyworld" / "tokenizer")
    unknown = unknown_words(before)  # so few captions leave some words in pieces
    assert unknown and set(unknown) <= set(words)
    arguments = (
        f"--stage resume words export --words-steps 3 --words-drawings 60 --batch 4 --weights {weights}"
    )
    assert train.main([*arguments.split(), "--work", str(tmp_path / "work")]) == 0
    after = CLIPTokenizer.from_pretrained(weights / "toyworld" / "tokenizer")
    assert after.eos_token_id == len(after) - 1 and not unknown_words(after)
    caption = "a photo of " + next(w for w in words if w not in unknown)
    assert after.tokenize(caption) == before.tokenize(caption)
    for name in train.BENCHMARK_MODELS:
        old, new = (
            {
                k: v
                for part in ("unet", "text_encoder", *(["vae"] if name == "toyworld-null" else []))
                for k, v in weights_of(folder / name / part).items()
            }
            for folder in (trained / "weights", weights)
        )
        table = next(key for key in old if key.endswith("token_embedding.weight"))
        assert all(torch.equal(new[key], value) for key, value in old.items() if key != table)
        kept = after.convert_tokens_to_ids(before.convert_ids_to_tokens(range(len(before))))
        assert torch.equal(new[table][kept], old[table])
        taught = new[table][[token_id(after, word) for word in unknown]]
        start = torch.stack([old[table][before(peers(w, unknown)[0]).input_ids[1]] for w in unknown])
        assert torch.isfinite(taught).all() and not torch.equal(taught, start)


def weights_of(folder):
    return load_file(next(folder.glob("*.safetensors")))


@pytest.mark.lab
def test_drawings_are_the_same_for_any_number_of_processes():
    one, two = (make_many_drawings("toyworld", 7, 3, processes, part=3) for processes in (1, 2))
    assert one.captions == two.captions and len(set(one.captions)) > 4
    assert np.array_equal(one.indices, two.indices) and np.array_equal(one.zones, two.zones)
    assert len(one.indices) == 7 and one.zones.shape == (7, 16, 16) and one.zones.any((1, 2)).all()
