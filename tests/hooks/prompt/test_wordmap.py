"""Masks, overlaps, pictures and slices of one word's map."""

import io

import numpy as np
import pytest
import torch
from PIL import Image

from hooks import HookError, Probe, WordMap
from hooks.attention.maps import resize
from tests.hooks.conftest import PROMPTS, draw
from tests.tiny import tiny_pipeline

CORNER = np.array([[0, 0], [0, 8]], np.float32)


def word_map(values, size=(4, 4)):
    return WordMap(np.asarray(values, np.float32), "hat", (2,), 0, "daam", "1", size)


@pytest.fixture(scope="module")
def probed(toy):
    with Probe(toy, sites="latent", word_maps=True, layer_maps=2) as probe:
        images = draw(toy, height=64, width=32, num_inference_steps=4)
    return probe, images


def test_iou_by_hand():
    ours = word_map(CORNER)  # the lower right quarter
    theirs = np.zeros((4, 4), bool)
    theirs[2:, :] = True
    assert ours.iou(theirs) == pytest.approx(4 / 8)
    assert ours.iou(ours) == 1.0
    assert ours.iou(word_map(CORNER[::-1, ::-1])) == 0.0
    assert np.isnan(word_map(np.ones((2, 2))).iou(np.zeros((4, 4), bool)))
    assert ours.iou(np.kron(theirs, np.ones((2, 2), bool))) == pytest.approx(0.5, abs=0.1), "at its size"
    with pytest.raises(HookError, match=r"a mask of bool.*but got float64, shape \(4, 4\)"):
        ours.iou(np.ones((4, 4)))


def test_of_a_probe(probed):
    probe, _images = probed
    found = probe.word_map("umbrella", row=1)
    np.testing.assert_array_equal(found.values, probe.maps.heat(1)[4])  # without the start of text
    assert found.values.dtype == np.float32
    assert found.size == (64, 32)
    assert found.mask().shape == (64, 32)
    assert repr(found) == (
        f"WordMap('umbrella', row 1, tokens [5], 16x8, peak {found.peak:.4g}, definition 'daam', version 1)"
    )
    phrase = probe.word_map("holding an umbrella", row=1)
    np.testing.assert_allclose(phrase.values, probe.maps.heat(1)[2:5].mean(0), rtol=1e-6)


def test_pictures(probed):
    probe, images = probed
    found = probe.word_map("umbrella")
    over = found.overlay(images[0])
    assert isinstance(over, Image.Image)
    assert over.size == (32, 64), "PIL counts width first"
    np.testing.assert_array_equal(np.asarray(found.overlay(images[0], alpha=0.0)), (images[0] * 255).round())
    np.testing.assert_array_equal(
        np.asarray(found.overlay(alpha=1.0)),
        np.asarray(found.picture()),
    )
    assert found.overlay() == over, "the block decoded it"
    shown = Image.open(io.BytesIO(found._repr_png_()))
    assert (shown.format, shown.size) == ("PNG", (128, 256))
    bright = np.asarray(found.picture()).sum(-1)
    assert bright[found.mask(0.7)].mean() > bright[~found.mask(0.3)].mean() + 100
    assert len(np.unique(np.asarray(word_map(np.ones((2, 2))).picture()))) <= 3, "a constant map is dark"


def test_a_map_is_laid_over_its_own_image_alone(probed, toy):
    probe, images = probed
    found = probe.word_map("umbrella", row=1)
    own = Image.fromarray((images[1] * 255).round().astype(np.uint8))
    larger = own.resize((64, 128), Image.Resampling.NEAREST)
    assert found.overlay(larger).size == (64, 128)
    other = r"the one that the map is of, row 1, 32x64 pixels, but got another of 32x64: pass images\[1\]"
    for image in (images[0], np.zeros_like(images[1]), own.transpose(Image.Transpose.FLIP_LEFT_RIGHT)):
        with pytest.raises(HookError, match=other):
            found.overlay(image)
    with Probe(toy, sites="latent", word_maps=True) as latent:
        draw(toy, PROMPTS[:1], num_inference_steps=1, output_type="latent")
    undecoded = latent.word_map("umbrella")
    with pytest.raises(HookError, match="got none: pass what the pipeline returned"):
        undecoded.overlay()
    with pytest.raises(HookError, match="64x64 pixels, but got another of 32x64"):
        undecoded.overlay(images[0])


@pytest.mark.usefixtures("bfloat16_attention")
def test_rounding_does_not_make_another_image():
    pipe = tiny_pipeline("toy").to(torch.bfloat16)
    with Probe(pipe, sites="latent", word_maps=True) as probe:
        images = draw(pipe, num_inference_steps=1, output_type="pil")
    for row, image in enumerate(images):
        assert probe.word_map("umbrella", row=row).overlay(image).size == image.size


def test_slices(probed):
    probe, _ = probed
    found = probe.word_map("umbrella", row=2)
    layer = found.layer("unet.up.1.attn.0.cross")
    kept = probe.layer_maps.values["unet.up.1.attn.0.cross"][2, :, 4]  # (bins, h, w)
    assert layer.values.shape == (8, 4)
    np.testing.assert_allclose(layer.values, kept.sum(0), rtol=1e-5)
    np.testing.assert_allclose(layer.step(1).values, kept[1], rtol=1e-5)
    np.testing.assert_array_equal(layer.step(1).values, found.step(1).layer(layer.definition).values)
    assert layer.step(1).definition == "unet.up.1.attn.0.cross, calls 2 to 3"
    steps = [found.step(i).values for i in range(2)]
    expected = [
        resize(values[2, :, 4].sum(0), (16, 8)).clip(0) for values in probe.layer_maps.values.values()
    ]
    np.testing.assert_allclose(sum(steps), np.mean(expected, axis=0), rtol=1e-3, atol=1e-5)
    assert "mean of layers, calls 0 to 1" in repr(found.step(0))
    with pytest.raises(HookError, match=r"layer: expected one of unet\.down\.0"):
        found.layer("unet.down.0")
    with pytest.raises(HookError, match="step: expected one of the 2 bins kept, but got 2"):
        found.step(2)


def test_slices_need_layers_apart(toy):
    with Probe(toy, sites="latent", word_maps=True) as probe:
        draw(toy, PROMPTS[:1], num_inference_steps=1)
    with pytest.raises(HookError, match=r"WordMap\.step: only the whole map was summed: pass layer_maps=1"):
        probe.word_map("umbrella").step(0)
