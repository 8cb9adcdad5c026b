"""Truth by wiring: what is stored of a located benchmark model, and that the word reaches the image at its sites
alone."""

import json

import pytest
import torch
from safetensors.torch import load_file

import hooks.sites as site_table
from lab.train.located.page import REFERENCE, is_control
from probes.errors import UserError
from probes.models import loading
from probes.models.weights import weight_hash
from probes.toyworld import LOCATED, WEIGHTS
from probes.toyworld.located.assemble import (
    DELTA,
    EMBEDDING,
    coded_parts,
    embedded_words,
    located_pipeline,
    same_words,
    word_numbers,
)
from probes.toyworld.located.truth import TIMES, Wire, located_models
from probes.toyworld.located.wiring import OLD, Clock, head_rows, taught_names
from probes.toyworld.world import group_of_words

FOLDER = WEIGHTS / "located"
TAUGHT = [name for name, model in located_models().items() if model.taught]
PROMPTS = ["a person in the park", "a woman in the park", "a man in the park"]


@pytest.fixture(scope="module")
def null():
    return coded_parts()


@pytest.fixture(scope="module")
def pipes():
    """Located pipelines by name, each made once."""
    made = {}

    def pipe(name):
        if name not in made:
            made[name] = located_pipeline(name, FOLDER / name)
        return made[name]

    return pipe


@torch.no_grad()
def predicted(pipe, time: int, prompts=PROMPTS) -> torch.Tensor:
    """Velocities ``(3, 4, 16, 16)`` for three words from one noisy latent, each drawn alone."""
    tokens = pipe.tokenizer(list(prompts), padding="max_length", max_length=32, return_tensors="pt").input_ids
    states = pipe.text_encoder(tokens).last_hidden_state
    noise = torch.randn(1, 4, 16, 16, generator=torch.Generator().manual_seed(0))
    return torch.cat([pipe.unet(noise, torch.tensor([time]), state[None]).sample for state in states])


def test_the_names_are_those_that_can_be_loaded():
    assert tuple(located_models()) == LOCATED


@pytest.mark.parametrize("name", TAUGHT)
def test_what_is_stored_is_the_wires_alone(name, null):
    _, unet, _ = null
    delta, model = load_file(FOLDER / name / DELTA), located_models()[name]
    assert {value.dtype for value in delta.values()} == {torch.float16}
    assert all(torch.isfinite(value).all() for value in delta.values())
    if not model.wires:
        assert set(delta) == {f"{EMBEDDING}.{word}" for word in embedded_words()}
        return
    assert set(delta) == {name for wire in model.wires for name in taught_names(unet, wire)}
    for wire in model.wires:
        for part in ("to_k", "to_v"):
            columns = delta[f"{wire.block}.attn2.{part}.weight"][:, OLD:]
            rows = head_rows(wire, len(columns))
            assert columns[rows].any() and not columns[~rows].any()


@pytest.mark.parametrize("name", TAUGHT)
def test_the_unet_is_the_coded_nulls_but_for_the_wires(name, pipes, null):
    _, unet, _ = null
    pipe, before = pipes(name), unet.state_dict()
    after = {key: value for key, value in pipe.unet.state_dict().items() if not key.endswith(".times")}
    changed = {key for key, value in after.items() if not torch.equal(value, before[key])}
    assert changed <= {key for wire in located_models()[name].wires for key in taught_names(unet, wire)}
    entries = {
        key.removesuffix(".to_k.weight").removesuffix(".to_v.weight")
        for key, value in after.items()
        if key.endswith(("attn2.to_k.weight", "attn2.to_v.weight")) and value[:, OLD:].any()
    }
    sites = {site.address: site for site in site_table.attention_sites(pipe, "cross")}
    wired = {
        sites[address].module.removeprefix("unet.")
        for address in located_models()[name].sites
        if address in sites
    }
    assert entries == wired


def test_the_truth_names_sites_that_are_there(pipes):
    pipe = pipes("toyworld-coded-null")
    there = {site.address for site in site_table.available(pipe)}
    modules = {site.address: site.module for site in site_table.attention_sites(pipe, "cross")}
    for model in located_models().values():
        assert set(model.sites) <= there
        for wire in model.wires:
            assert modules[wire.site] == f"unet.{wire.block}.attn2"
            assert model.kind == "decoy" or wire.site in model.sites


def test_the_decoy_reads_the_code_and_shows_nothing(pipes):
    pipe, wire = pipes("toyworld-decoy"), located_models()["toyworld-decoy"].wires[0]
    attention, keys = pipe.unet.get_submodule(f"{wire.block}.attn2"), []
    handle = attention.to_k.register_forward_hook(lambda module, args, output: keys.append(output))
    velocities = predicted(pipe, 700)
    handle.remove()
    assert torch.equal(velocities[0], velocities[1]) and torch.equal(velocities[0], velocities[2])
    rows = head_rows(wire, keys[0].shape[-1])
    difference = keys[1] - keys[2]
    assert difference[..., rows].abs().max() > 0.5 and not difference[..., ~rows].any()


@pytest.mark.parametrize(
    ("name", "inside", "outside"), [("toyworld-early", 800, 500), ("toyworld-late", 200, 600)]
)
def test_a_gate_is_open_within_its_times_alone(name, inside, outside, pipes):
    pipe = pipes(name)
    for time, same in ((inside, False), (outside, True)):
        velocities = predicted(pipe, time)
        assert torch.equal(velocities[1], velocities[2]) == same
    first, end = located_models()[name].wires[0].times
    with torch.no_grad():
        rows = torch.tensor([first, end - 1, end, first - 1])
        states = torch.zeros(4, 32, 100)
        states[:, 1, OLD:] = 1.0
        pipe.unet(torch.zeros(4, 4, 16, 16), rows, states)
        keys = pipe.unet.get_submodule(f"{located_models()[name].wires[0].block}.attn2.to_k")(states)[:, 1]
    assert [bool(key.any()) for key in keys] == [True, True, False, False]


def test_a_gate_is_among_the_weights():
    unet = coded_parts()[1]
    assert not isinstance(unet.time_proj, Clock) and Wire("unet.mid.attn.0.cross").times == TIMES
    early = located_pipeline("toyworld-early", FOLDER / "toyworld-early")
    times = {key: value.tolist() for key, value in early.unet.state_dict().items() if key.endswith(".times")}
    assert list(times.values()) == [[600, 1000]] * 2


def test_the_embedding_is_shared_by_the_words_of_a_group_and_the_code_stays(pipes, null):
    pipe, (encoder, _, tokenizer) = pipes("toyworld-embedding"), null
    numbers, words = word_numbers(tokenizer), group_of_words()
    before, after = (one.get_input_embeddings().weight for one in (encoder, pipe.text_encoder))
    changed = (before != after).any(1).nonzero().ravel().tolist()
    assert set(changed) == {numbers[word] for word, (group, _) in words.items() if group != "neutral"}
    assert torch.equal(before[:, OLD:], after[:, OLD:])
    for word in embedded_words():
        assert len({tuple(after[numbers[other]].tolist()) for other in same_words(word)}) == 1


@pytest.mark.parametrize("name", LOCATED)
def test_what_is_published_was_measured_on_the_weights_that_are_stored(name, pipes):
    measured, reference = (
        json.loads((FOLDER / one / "quality.json").read_text()) for one in (name, REFERENCE)
    )
    assert measured["weight_hash"] == weight_hash(pipes(name))
    assert {key: measured[key] for key in ("steps", "verdict")} == {
        key: reference[key] for key in ("steps", "verdict")
    }
    effect = measured["total_effect"]
    if located_models()[name].sites:
        assert measured["same_image"] < 1
        assert is_control(measured, reference) or effect["interval"][0] > 0
    else:
        assert effect["mean"] == effect["se"] == 0 and measured["same_image"] == 1
        assert is_control(measured, reference)


@pytest.mark.parametrize("name", LOCATED)
def test_each_loads_by_name_with_its_card(name):
    source = loading.resolve(name)
    assert source.kind == "bundled" and source.card == FOLDER / name / "triptych.json"
    assert json.loads(source.card.read_text())["world"] == located_models()[name].world
    assert loading.tokenizers(source)[1] == 32


def test_one_that_was_not_taught_or_of_another_wiring_is_one_line(tmp_path):
    with pytest.raises(UserError, match="train it with python -m lab"):
        located_pipeline("toyworld-cross-1", tmp_path)
    (tmp_path / DELTA).write_bytes((FOLDER / "toyworld-cross-4" / DELTA).read_bytes())
    with pytest.raises(UserError, match="expected what its wires have, which differs in"):
        located_pipeline("toyworld-cross-1", tmp_path)
    (tmp_path / DELTA).write_bytes(b"nothing")
    with pytest.raises(UserError, match="expected weights as safetensors"):
        located_pipeline("toyworld-cross-1", tmp_path)
