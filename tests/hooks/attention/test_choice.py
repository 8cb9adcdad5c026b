"""What is kept apart, what it takes, and heat maps made of it afterwards."""

import numpy as np
import pytest
import torch

from hooks import HookError, MapChoice, Probe
from hooks.attention import definitions
from hooks.attention.definitions import DAAM, Definition
from tests.hooks.conftest import PROMPTS, draw
from tests.hooks.oracle import recorded
from tests.tiny import tiny_pipeline

TWO = PROMPTS[:2]
STEPS = 4
UP = "unet.up.1.attn.0.cross"


def kept(pipe, choice, **more):
    with Probe(pipe, word_maps=choice, **more) as probe:
        draw(pipe, TWO, num_inference_steps=STEPS)
    return probe


@pytest.fixture(scope="module")
def truth(toy):
    """Probabilities of the prompts by layer, shape (rows, calls, heads, pixels, tokens)."""
    found = recorded(toy, lambda: draw(toy, TWO, num_inference_steps=STEPS))
    return {address: values[:, 2:].transpose(0, 1).numpy() for address, values in found.items()}


def as_pixels(values):
    """(rows, bins, heads, tokens, h, w) to (rows, bins, heads, pixels, tokens)."""
    return np.moveaxis(values.reshape(*values.shape[:4], -1), 3, 4)


@pytest.mark.parametrize(
    ("heads", "steps"), [("mean", "sum"), ("each", "each"), ((1, 0), 2), ("mean", 3), ("each", 9)]
)
def test_heads_and_steps(toy, truth, heads, steps):
    probe = kept(toy, MapChoice(layers=UP, heads=heads, steps=steps, definition=None))
    bins = {
        "sum": [[0, 1, 2, 3]],
        "each": [[0], [1], [2], [3]],
        2: [[0, 1], [2, 3]],
        3: [[0, 1], [2], [3]],
        9: [[0], [1], [2], [3]],
    }[steps]
    expected = np.stack([truth[UP][:, calls].sum(1) for calls in bins], axis=1)
    expected = {
        "mean": expected.mean(2, keepdims=True),
        "each": expected,
        (1, 0): expected[:, :, [1, 0]],
    }[heads]
    assert probe.layer_maps.calls == tuple(len(calls) for calls in bins)
    np.testing.assert_allclose(as_pixels(probe.layer_maps.values[UP]), expected, atol=1e-5)


def test_layers_resolutions_and_tokens(toy, truth):
    choice = MapChoice(layers=["unet.up.*", "unet.down.*"], resolutions=[2], tokens=[5, 0])
    found = kept(toy, choice).layer_maps
    assert set(found.layers) == {
        name for name in truth if name.split(".")[1:3] in (["down", "1"], ["up", "1"])
    }
    for address, values in found.values.items():
        assert values.shape == (2, 1, 1, 2, 8, 8)
        expected = truth[address].sum(1, keepdims=True).mean(2, keepdims=True)[..., [5, 0]]
        np.testing.assert_allclose(as_pixels(values), expected, atol=1e-5)
    assert found.choice == choice


def test_chunks_change_nothing(toy, truth, monkeypatch):
    monkeypatch.setattr("hooks.attention.attention.CHUNK_ON_CPU", 700)
    probe = kept(toy, MapChoice(heads=(1,), steps="each"))
    for address, values in probe.layer_maps.values.items():
        np.testing.assert_allclose(as_pixels(values)[:, :, 0], truth[address][:, :, 1], atol=1e-5)
    monkeypatch.undo()
    np.testing.assert_allclose(probe.maps.values, kept(toy, True).maps.values, rtol=1e-5)


def test_too_much_is_refused_before_the_first_step(toy):
    steps = []
    choice = MapChoice(heads="each", steps="each", limit=10_000)
    with (
        pytest.raises(HookError, match=r"at most 10,000 bytes \(limit\), but they would take"),
        Probe(toy, word_maps=choice),
    ):
        draw(toy, callback_on_step_end=lambda *args: steps.append(1) or {})
    assert not steps


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"layers": "unet.top.*"}, r"layers: 'unet\.top\.\*' matches no attention layer"),
        ({"resolutions": [3]}, r"resolutions: expected some of \[1, 2, 4\]"),
        ({"heads": [9]}, "heads: expected numbers below the"),
        ({"definition": "dam"}, "definition: expected one of daam.* but got 'dam'"),
    ],
)
def test_a_choice_that_fits_nothing_is_told_on_entering(toy, settings, message):
    with pytest.raises(HookError, match=message), Probe(toy, word_maps=MapChoice(**settings)):
        pass


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"heads": "all"}, "heads: expected 'mean', 'each' or numbers"),
        ({"steps": 0}, "steps: expected 'sum', 'each' or a number of bins"),
        ({"tokens": []}, "tokens: expected at least one"),
        ({"resolutions": [1.5]}, "resolutions: expected at least one whole number"),
    ],
)
def test_a_choice_that_makes_no_sense(settings, message):
    with pytest.raises(HookError, match=message):
        MapChoice(**settings)


def test_tokens_beyond_the_prompt(toy):
    with pytest.raises(HookError, match="positions below 32, but got 40"):
        kept(toy, MapChoice(tokens=[40]))


# Definitions


def test_at_full_resolution_a_pixel_sums_to_the_number_of_calls(pipelines):
    """No resizing, no clamping: probabilities sum to 1 over the tokens; PNDM makes five calls of four steps."""
    pipe, full = pipelines("sd1"), Definition("full", "1", left_out=(2, 4, 8))
    with Probe(pipe, sites="latent", word_maps=full) as probe:
        draw(pipe, TWO, num_inference_steps=STEPS)
    np.testing.assert_allclose(probe.maps.values.sum(1), 5, rtol=1e-5)


def test_a_definition_by_hand(toy, truth):
    """The "middle" one, with its weights, from the recorded probabilities."""
    layers = (("unet.up.1.*", 3.0), ("unet.*", 1.0))
    found = kept(toy, Definition("middle", "1", layers=layers, left_out=(1,), heads="mean")).maps.values
    total = np.zeros((2, 32, 16, 16))
    for address, weight in {
        "unet.down.1.attn.0.cross": 1,
        "unet.up.1.attn.0.cross": 3,
        "unet.up.1.attn.1.cross": 3,
        "unet.mid.attn.0.cross": 1,
    }.items():
        side = round(truth[address].shape[3] ** 0.5)
        small = torch.from_numpy(truth[address].sum(1).mean(1)).transpose(1, 2).unflatten(2, (side, side))
        large = torch.nn.functional.interpolate(small, size=(16, 16), mode="bicubic").clamp(min=0)
        total += weight * large.numpy() / 8
    np.testing.assert_allclose(found, total, rtol=1e-4, atol=1e-5)


def test_the_registry():
    assert definitions.names("probability") == ["daam", "decoder-product", "self-refined"]
    assert definitions.get("daam") is DAAM
    with pytest.raises(
        HookError,
        match=r"expected one of daam, decoder-product, self-refined, joint-mass, .*, but got 'daan'",
    ):
        definitions.get("daan")
    with pytest.raises(HookError, match="combine: expected one of mean, product"):
        Definition("none", "1", combine="sum")


def test_a_definition_that_takes_no_layer_is_refused(toy):
    nothing = Definition("nothing", "1", layers=(("unet.top.*", 1.0),))
    with (
        pytest.raises(HookError, match="no cross-attention that the definition 'nothing' takes"),
        Probe(toy, word_maps=nothing),
    ):
        pass


def test_maps_that_were_not_asked_for(toy):
    probe = kept(toy, MapChoice(definition=None))
    with pytest.raises(HookError, match=r"Probe\.maps: not asked for"):
        _ = probe.maps
    with pytest.raises(HookError, match=r"Probe\.self_attention: not asked for: pass self_attention"):
        _ = probe.self_attention
    with pytest.raises(HookError, match=r"Probe\.layer_maps: not asked for"):
        _ = kept(toy, True).layer_maps


# Self-attention


def test_self_attention(toy):
    layer = "unet.down.1.attn.0.self"
    choice = MapChoice(layers="unet.*.self", resolutions=[2], heads="each", steps="each")
    without = draw(toy, TWO, num_inference_steps=STEPS)
    with Probe(toy, self_attention=choice) as probe:
        images = draw(toy, TWO, num_inference_steps=STEPS)
    assert np.array_equal(images, without)
    expected = recorded(toy, lambda: draw(toy, TWO, num_inference_steps=STEPS), "self")[layer]
    found = as_pixels(probe.self_attention.values[layer])
    assert found.shape == (2, STEPS, 2, 64, 64)
    np.testing.assert_allclose(found, expected[:, 2:].transpose(0, 1).numpy(), atol=1e-5)
    np.testing.assert_allclose(found.sum(-1), 1, atol=1e-5)


def test_self_attention_fused_and_too_large():
    pipe = tiny_pipeline("toy")
    choice = MapChoice(layers="unet.*.self")
    with Probe(pipe, self_attention=choice) as plain:
        draw(pipe, TWO, num_inference_steps=1)
    pipe.fuse_qkv_projections()
    with Probe(pipe, self_attention=choice) as fused:
        draw(pipe, TWO, num_inference_steps=1)
    for address, values in plain.self_attention.values.items():
        np.testing.assert_allclose(fused.self_attention.values[address], values, atol=1e-4)
    small = MapChoice(layers="unet.*.self", limit=1000)
    with (
        pytest.raises(HookError, match="self-attention: expected sums of at most 1,000 bytes"),
        Probe(pipe, self_attention=small),
    ):
        draw(pipe, TWO)
    with (
        pytest.raises(HookError, match=r"self_attention: expected a hooks\.MapChoice"),
        Probe(pipe, self_attention=True),
    ):
        pass
