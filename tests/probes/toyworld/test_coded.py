"""The coded null: it computes what toyworld-null does, and its indicator words differ in their codes alone."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import CLIPTextConfig, CLIPTextModel

from lab.train.base.measure import sample
from probes.models import loading
from probes.toyworld import WEIGHTS
from probes.toyworld.coded import coded_text_weights
from probes.toyworld.world import GROUPS, load_world

NULL = WEIGHTS / "toyworld-null"
CODED = WEIGHTS / "located" / "toyworld-coded-null"
PROMPTS = ("a {} in a hat with a dog in the park", "a {}", "a photo of a {} riding a horse")
OLD = slice(0, 96)
NEW = slice(96, 100)


@pytest.fixture(scope="module")
def coded_null():
    return loading.load(loading.resolve("toyworld-coded-null"), device="cpu")


@pytest.fixture(scope="module")
def towers(coded_null):
    """Text towers in float64, of toyworld-null and of the coded null: from token numbers to states."""
    tokenizer = coded_null.pipe.tokenizer
    state = load_file(NULL / "text_encoder/model.safetensors")
    towers = []
    for folder, weights in ((NULL, state), (CODED, coded_text_weights(state, tokenizer))):
        settings = json.loads((folder / "text_encoder/config.json").read_text())
        tower = CLIPTextModel(CLIPTextConfig.from_dict({**settings, "dtype": "float64"})).double().eval()
        tower.load_state_dict({name: value.double() for name, value in weights.items()})
        towers.append(tower)

    @torch.no_grad()
    def states(*prompts: str) -> list[torch.Tensor]:
        tokens = tokenizer(list(prompts), padding="max_length", max_length=32, return_tensors="pt").input_ids
        return [tower(tokens).last_hidden_state for tower in towers]

    return states


def test_old_channels_are_those_of_toyworld_null(towers):
    before, after = towers(*(prompt.format("person") for prompt in PROMPTS), "two people in boots")
    error = (after[..., OLD] - before).norm(dim=-1) / before.norm(dim=-1)
    # the code's share in the variance of the first layer norm, halved: 4 * 2**-14 / (96 * 0.05**2) / 2 is 5e-4
    assert 0 < error.max() < 7e-4
    assert error[:, 0].max() < 1e-12  # what stands before the word does not see it


def test_words_differ_in_their_codes_alone(towers):
    for prompt in PROMPTS:
        _, states = towers(*(prompt.format(word) for word in ("person", "woman", "man")))
        at = prompt.split().index("{}") + 1  # after the start token
        words = torch.arange(32) == at
        for other in states[1:]:
            assert (other[:, OLD] - states[0][:, OLD]).abs().max() < 1e-12
            assert (other[~words] - states[0][~words]).abs().max() < 1e-9
        codes = states[:, at, NEW]
        torch.testing.assert_close(codes.norm(dim=1), codes.norm(dim=1)[:1].expand(3), rtol=1e-12, atol=0)
        assert 15 < codes[0].norm() < 30
        gram = codes @ codes.T / codes[0].square().sum()
        torch.testing.assert_close(gram, torch.eye(3).double(), rtol=0, atol=1e-9)
        assert states[:, ~words, NEW].abs().max() < 1e-9


def test_person_woman_and_man_draw_the_same_image(coded_null):
    words = [load_world().words(group)[0] for group in GROUPS]
    prompts = [prompt.format(word) for prompt in PROMPTS for word in words]
    seeds = [number for number in range(len(PROMPTS)) for _ in words]
    images = sample(coded_null.pipe, prompts, seeds, steps=4, progress=False)
    drawn = images.reshape(len(PROMPTS), len(words), -1).astype(int)
    # codes have other signs, so a processor may round their sums otherwise: a grey level where 231 is another prompt's
    assert np.abs(drawn - drawn[:, :1]).max() <= 1 and np.abs(drawn[0] - drawn[1]).max() > 100


def test_its_weights_are_known_by_one_hash_on_every_machine(coded_null):
    # sums that are exact in float64 and powers of two: nothing depends on a processor or on the order of adding
    assert coded_null.record["weight_hash"] == (
        "145525885d5c0481f8db8e6fdb9399286e22a849fe11a7fd8c461049060d60e4"
    )
