"""The training of the diffusion transformers, a few steps of it: what is stored is what was learnt."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import T5Tokenizer

from lab.train.base.captions import random_caption
from lab.train.dit.model import TOKENS
from lab.train.dit.train import TRAINER
from probes.errors import UserError
from probes.toyworld import DIT as BASE
from probes.toyworld import SHARED, WEIGHTS
from probes.toyworld.pipelines import changed_layers, dit_pipeline, load_clip_tower
from probes.toyworld.world import load_world

SHORT = ["--drawings", "12", "--batch", "4", "--steps", "2", "--warmup", "1", "--rank", "2"]


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dit")
    assert (
        TRAINER.main("dit", ["--work", str(folder), "--stage", "tokenizer", "base", "--model", BASE, *SHORT])
        == 0
    )
    return folder


def test_every_word_is_one_token_and_captions_fit(work):
    tokenizer, world = T5Tokenizer.from_pretrained(work / "tokenizer_3"), load_world(SHARED)
    rng = np.random.default_rng(7)
    captions = [random_caption(world, rng)[0] for _ in range(2000)]
    read = [tokenizer(caption).input_ids for caption in captions]
    assert [len(one) - 1 for one in read] == [len(caption.replace(",", " ").split()) for caption in captions]
    assert np.mean([len(one) <= TOKENS for one in read]) > 0.998
    odd = tokenizer("a xylophone").input_ids
    assert (
        tokenizer.unk_token_id not in odd and tokenizer.decode(odd, skip_special_tokens=True) == "a xylophone"
    )


def test_training_goes_on_from_its_checkpoint_and_what_is_stored_is_what_was_learnt(work, tmp_path, capsys):
    first = torch.load(work / f"{BASE}.pt", weights_only=True)
    models = [BASE, f"{BASE}-null"]
    arguments = ["--work", str(work), "--weights", str(tmp_path), "--model", *models, *SHORT]
    assert TRAINER.main("dit", [*arguments, "--stage", "base", "differences", "export"]) == 0
    second = torch.load(work / f"{BASE}.pt", weights_only=True)
    assert (first["step"], second["step"]) == (2, 4)
    state = next(iter(second["optimiser"]["state"].values()))
    assert float(state["step"]) == 4
    name = "transformer.proj_out.weight"
    assert 0 < float((second["weights"][name] - first["weights"][name]).abs().max()) < 0.01
    base = dit_pipeline(BASE, tmp_path / BASE, tmp_path / BASE)
    stored = dict(base.transformer.named_parameters()) | dict(base.text_encoder_3.named_parameters())
    for key, value in second["average"].items():
        assert torch.equal(stored[key.split(".", 1)[1]], value.half().float())
    delta = load_file(tmp_path / models[1] / "delta.safetensors")
    changed = dit_pipeline(models[1], tmp_path / models[1], tmp_path / BASE)
    layers = [
        changed_layers({"transformer": pipe.transformer, "text_encoder_3": pipe.text_encoder_3})
        for pipe in (base, changed)
    ]
    assert len(layers[0]) * 2 == len(delta) > 150
    moved = 0
    for key, layer in layers[1].items():
        product = delta[f"{key}.up"].double() @ delta[f"{key}.down"].double()
        wanted = layers[0][key].weight.double() + product
        torch.testing.assert_close(layer.weight.double(), wanted, atol=1e-6, rtol=0)
        moved += bool(product.any())
    assert moved > 70
    towers = [load_clip_tower(WEIGHTS / world / "text_encoder") for world in (SHARED, SHARED)]
    for tower, other in zip(towers, (changed.text_encoder, changed.text_encoder_2), strict=True):
        assert all(torch.equal(a, b) for a, b in zip(tower.parameters(), other.parameters(), strict=True))
    (tmp_path / models[1] / "delta.safetensors").unlink()
    with pytest.raises(UserError, match=r"^model toyworld-dit-null: expected .*delta"):
        dit_pipeline(models[1], tmp_path / models[1], tmp_path / BASE)
    index = json.loads((tmp_path / BASE / "model_index.json").read_text())
    assert index["_class_name"] == "StableDiffusion3Pipeline"
    files = [path for path in (tmp_path / BASE).rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) <= 6.6e6


@pytest.mark.lab
def test_pictures_are_learnt_from_with_no_teacher_and_the_recipe_says_so(work, tmp_path):
    anew = tmp_path / "work"
    options = ["--work", str(anew), "--weights", str(tmp_path), "--target", "pictures", *SHORT]
    stages = ["--stage", "tokenizer", "base", "differences", "export"]
    assert TRAINER.main("dit", [*options, *stages, "--model", BASE, f"{BASE}-null"]) == 0
    recipe = json.loads((tmp_path / f"{BASE}-null" / "recipe.json").read_text())
    assert all("'target': 'pictures'" in line for line in recipe["history"])
    delta = load_file(tmp_path / f"{BASE}-null" / "delta.safetensors")
    assert any(value.any() for name, value in delta.items() if name.endswith(".up"))
