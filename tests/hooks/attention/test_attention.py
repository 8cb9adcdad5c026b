"""Word maps against DAAM computed again, from every probability of every step as diffusers computes it."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from hooks import HookError, Probe
from hooks.attention import attention
from tests.hooks.conftest import draw
from tests.hooks.oracle import recorded
from tests.tiny import KINDS, tiny_pipeline


def daam_by_hand(pipe, latent_size, branches, **call):
    return daam_of(recorded(pipe, lambda: draw(pipe, **call)), latent_size, branches)


def daam_of(kept, latent_size, branches):
    """Maps (rows, tokens, h, w) from kept probabilities; a layer's size follows from its number of pixels."""
    h, w = latent_size
    maps = []
    for address, probabilities in kept.items():
        factor = round((h * w / probabilities.shape[-2]) ** 0.5)
        if address.startswith("unet.mid") or factor == 8:
            continue
        summed = probabilities.sum(0)
        summed = summed[len(summed) // 2 :] if branches == 2 else summed
        for head in range(summed.shape[1]):
            small = summed[:, head].transpose(1, 2).reshape(len(summed), -1, h // factor, w // factor)
            maps.append(F.interpolate(small, size=(h, w), mode="bicubic").clamp(min=0))
    return torch.stack(maps).mean(0).numpy()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("guidance_scale", [4.0, 1.0])
@pytest.mark.parametrize("devices", [("cpu",), ()], ids=["chunks", "indicators"])
def test_maps_are_daams(pipelines, kind, guidance_scale, devices, monkeypatch):
    """By both ways of taking the softmax; all tokens are more than a head is wide."""
    monkeypatch.setattr(attention, "IN_CHUNKS", devices)
    pipe = pipelines(kind)
    with Probe(pipe, word_maps=True) as words, Probe(pipe, word_maps=True, map_tokens="all") as probe:
        draw(pipe, guidance_scale=guidance_scale)
    branches = 2 if guidance_scale > 1 and kind != "lcm" else 1
    expected = daam_by_hand(pipe, (16, 16), branches, guidance_scale=guidance_scale)
    for row in range(3):
        heat = probe.maps.heat(row)
        assert heat.dtype == np.float32
        assert heat.shape == (32 if kind == "toy" else 77, 16, 16)
        np.testing.assert_allclose(heat, expected[row], rtol=1e-4, atol=1e-6)
        np.testing.assert_array_equal(words.maps.heat(row), heat[list(words.maps.columns[row])])
    assert np.abs(expected[0] - expected[1]).max() > 1e-3, (
        "the rows must differ for this test to tell them apart"
    )
    assert (probe.maps.definition, probe.maps.version) == ("daam", "1")


@pytest.mark.parametrize("definition", ["daam", "decoder-product", "self-refined"])
def test_layers_of_one_shape_wait_for_each_other(pipelines, definition, monkeypatch):
    """Until their queries fill some room, or the call ends; rows have different words, and one none."""
    pipe = pipelines("sdxl")
    call = {"prompt": ["a dog", "", "a woman, holding an umbrella!"], "num_inference_steps": 2}
    bare = draw(pipe, **call)
    with Probe(pipe, word_maps=definition) as chunks:
        draw(pipe, **call)
    monkeypatch.setattr(attention, "IN_CHUNKS", ())
    for room in (attention.WAITING, 1):
        monkeypatch.setattr(attention, "WAITING", room)
        with Probe(pipe, word_maps=definition) as probe:
            images = draw(pipe, **call)
        assert np.array_equal(images, bare)
        assert probe.maps.columns == chunks.maps.columns == ((1, 2), (), (1, 2, 3, 4, 5, 6, 7))
        limit = 16 * np.finfo(np.float32).eps * chunks.maps.values.max()  # a product's powers and logarithms
        np.testing.assert_allclose(probe.maps.values, chunks.maps.values, rtol=0, atol=limit)


def test_layers_at_an_eighth_are_left_out():
    """Four levels, all with cross-attention: the deepest is at 1/8 of the latent and must not enter."""
    pipe = tiny_pipeline(
        "sd1",
        unet={
            "down_block_types": ("CrossAttnDownBlock2D",) * 4,
            "up_block_types": ("CrossAttnUpBlock2D",) * 4,
            "layers_per_block": 1,
        },
    )
    with Probe(pipe, word_maps=True, map_tokens="all") as probe:
        draw(pipe)
    assert not any(layer.startswith(("unet.down.3", "unet.mid", "unet.up.0")) for layer in probe.maps.layers)
    assert {"unet.down.2.attn.0.cross", "unet.up.1.attn.0.cross"} <= set(probe.maps.layers)
    np.testing.assert_allclose(probe.maps.values, daam_by_hand(pipe, (16, 16), 2), rtol=1e-4, atol=1e-6)


def test_a_unet_without_cross_attention_is_refused():
    pipe = tiny_pipeline(
        "toy", unet={"down_block_types": ("DownBlock2D",) * 3, "up_block_types": ("UpBlock2D",) * 3}
    )
    with pytest.raises(HookError, match="no cross-attention"), Probe(pipe, word_maps=True):
        pass
