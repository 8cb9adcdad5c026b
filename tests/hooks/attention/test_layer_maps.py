"""Layers kept apart, and what definitions of heat maps take."""

import numpy as np
import pytest

from hooks import HookError, Probe
from hooks.attention import definitions
from hooks.attention.definitions import DAAM, Definition
from tests.hooks.conftest import PROMPTS, draw
from tests.hooks.oracle import recorded

TWO = PROMPTS[:2]
STEPS = 4


def probed(pipe, **read):
    with Probe(pipe, **{"word_maps": True, "map_tokens": "all", **read}) as probe:
        draw(pipe, TWO, num_inference_steps=STEPS)
    return probe


@pytest.fixture(scope="module")
def truth(toy):
    """Probabilities of the prompts by layer, mean over heads, shape (rows, calls, pixels, tokens)."""
    found = recorded(toy, lambda: draw(toy, TWO, num_inference_steps=STEPS))
    return {address: values[:, 2:].transpose(0, 1).mean(2).numpy() for address, values in found.items()}


@pytest.mark.parametrize(
    ("layer_maps", "bins"),
    [(1, [[0, 1, 2, 3]]), (2, [[0, 1], [2, 3]]), (3, [[0, 1], [2], [3]]), (9, [[0], [1], [2], [3]])],
)
def test_every_layer_in_bins_of_calls(toy, truth, layer_maps, bins):
    found = probed(toy, layer_maps=layer_maps).layer_maps
    assert found.calls == tuple(map(len, bins)) and set(found.layers) == set(truth)
    for address, values in found.values.items():
        expected = np.stack([truth[address][:, calls].sum(1) for calls in bins], axis=1)
        np.testing.assert_allclose(values.reshape(*values.shape[:3], -1).swapaxes(2, 3), expected, atol=1e-5)


def test_chunks_change_nothing(toy, monkeypatch):
    plain = probed(toy, layer_maps=9)
    monkeypatch.setattr("hooks.attention.attention.CHUNK_ON_CPU", 700)
    cut = probed(toy, layer_maps=9)
    for address, values in cut.layer_maps.values.items():
        np.testing.assert_allclose(values, plain.layer_maps.values[address], atol=1e-5)
    np.testing.assert_allclose(cut.maps.values, plain.maps.values, rtol=1e-5)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"word_maps": "dam"}, "definition: expected one of daam.* but got 'dam'"),
        ({"layer_maps": -1}, "layer_maps: expected a number of bins, 0 for none, but got -1"),
        ({"layer_maps": 2, "word_maps": False}, "layer_maps: expected word maps beside them"),
        ({"map_tokens": "some"}, "map_tokens: expected 'words' or 'all', but got 'some'"),
        (
            {"word_maps": Definition("nothing", layers=("unet.top.*",))},
            "no cross-attention that the definition 'nothing' takes",
        ),
    ],
)
def test_what_makes_no_sense_is_refused_on_entering(toy, settings, message):
    with pytest.raises(HookError, match=message):
        Probe(toy, **{"word_maps": True, **settings}).__enter__()


def test_at_full_resolution_a_pixel_sums_to_the_number_of_calls(pipelines):
    """No resizing, no clamping: probabilities sum to 1 over the tokens; PNDM makes five calls of four steps."""
    full = Definition("full", left_out=(2, 4, 8))
    np.testing.assert_allclose(probed(pipelines("sd1"), word_maps=full).maps.values.sum(1), 5, rtol=1e-5)


def test_the_registry():
    assert definitions.names("probability") == ["daam", "decoder-product", "self-refined"]
    assert definitions.get("daam") is DAAM
    with pytest.raises(HookError, match="combine: expected one of mean, product"):
        Definition("none", combine="sum")


def test_maps_that_were_not_asked_for(toy):
    with pytest.raises(HookError, match=r"Probe\.layer_maps: not asked for: pass word_maps=True, layer_maps"):
        _ = probed(toy).layer_maps
    with pytest.raises(HookError, match=r"Probe\.maps: not asked for"):
        _ = probed(toy, word_maps=False).maps


def test_heads_apart_are_those_of_the_model_and_their_mean_the_layers(toy):
    recordings = recorded(toy, lambda: draw(toy, TWO, num_inference_steps=STEPS))
    probe = probed(toy, head_maps=True)
    plain = probed(toy, layer_maps=1).layer_maps.values
    for address, maps in probe.layer_maps.by_head.items():
        expected = recordings[address][:, 2:].sum(0).mT.numpy()  # (rows, heads, tokens, pixels)
        np.testing.assert_allclose(maps[:, 0].reshape(expected.shape), expected, atol=1e-5)
        np.testing.assert_allclose(probe.layer_maps.values[address], plain[address], atol=1e-5)
        heads = probe.word_map("umbrella").head(address)
        assert len(heads) == probe.layer_maps.heads[address] and "head 1" in heads[1].definition
        layer = probe.word_map("umbrella").layer(address)
        np.testing.assert_allclose(np.mean([one.values for one in heads], axis=0), layer.values, atol=1e-6)


def test_heads_that_were_averaged_say_what_to_ask_for(toy):
    with pytest.raises(HookError, match="the heads were averaged: pass head_maps=True to Probe"):
        probed(toy, layer_maps=1).word_map("umbrella").head("unet.mid.attn.0.cross")
    with pytest.raises(HookError, match="layer: expected one of unet"):
        probed(toy, head_maps=True).word_map("umbrella").head("unet.mid")
