"""Sparse autoencoders at sites: what is read of them, and patches of latents, by NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from hooks import HookError, Intervention, Patch, Probe, SparseAutoencoder
from tests.hooks.conftest import PROMPTS, draw

CROSS = "unet.up.1.attn.0.cross"
UPDATE = "unet.up.1.attn.0.update"
ROWS = [PROMPTS[0], PROMPTS[1], PROMPTS[0]]


def coder(width, latents=24, seed=0, **more):
    """One with random weights."""
    random = torch.Generator().manual_seed(seed)
    shapes = ((width, latents), (latents,), (latents, width), (width,))
    weights = [torch.randn(shape, generator=random) for shape in shapes]
    more.setdefault("k", 4)
    return SparseAutoencoder(*weights, **more)


def width_at(pipe, site):
    with Probe(pipe, keep=[site]) as probe:
        draw(pipe, PROMPTS[:1], num_inference_steps=1)
    shape = probe.kept[site].values.shape
    return shape[2] if len(shape) == 5 else shape[-1]


def after(pipe, patches, site, steps=2):
    """What a site holds, shape (calls, rows, ...), and the images."""
    with Intervention(pipe, patches), Probe(pipe, keep=[site]) as probe:
        images = draw(pipe, ROWS, num_inference_steps=steps)
    return probe.kept[site].values.numpy(), images


def by_numpy(one, x):
    """The latents of vectors."""
    encoder, bias, shared = (
        tensor.numpy().astype(np.float64) for tensor in (one.encoder, one.encoder_bias, one.bias)
    )
    before = (x - shared) @ encoder + bias
    latents = np.maximum(before, 0)
    for row, values in zip(latents, before):
        row[np.argsort(values)[: -one.k]] = 0
    return latents


@pytest.mark.parametrize("kind", ["toy", pytest.param("sdxl", marks=pytest.mark.slow)])
def test_latents_that_stay_leave_the_images_bit_identical(pipelines, kind):
    pipe = pipelines(kind)
    without = draw(pipe, ROWS, num_inference_steps=2)
    addresses = [CROSS, UPDATE, "unet.mid", "unet.down.0", "text.layers.0", "unet.mid.resnet.0"]
    if kind == "sdxl":
        addresses[0] = f"{CROSS}.0"
    patches = []
    for site in addresses:
        one = coder(width_at(pipe, site))
        patches += [
            Patch(site, into=(0, 2), mode="scale", factor=1.0, autoencoder=one, latents=[0, 5]),
            Patch(site, into=1, mode="add", factor=0.0, autoencoder=one, latents=3),
            Patch(site, source=2, into=2, autoencoder=one, latents=range(24)),
        ]
    with Intervention(pipe, patches) as intervention:
        images = draw(pipe, ROWS, num_inference_steps=2)
    assert np.array_equal(images, without)
    assert {one.largest_change for one in intervention.written} == {0.0}


@pytest.mark.parametrize("site", [CROSS, UPDATE])
def test_writes_in_latents_by_numpy(toy, site):
    one = coder(width_at(toy, site))
    before, _ = after(toy, [Patch("unet.conv_in", mode="scale", into=0)], site)
    flat = [values if values.ndim == 2 else np.moveaxis(values, 0, -1) for values in before[0]]
    latents = [by_numpy(one, values.reshape(-1, one.width)) for values in flat]
    chosen = list(np.argsort(-latents[2].sum(0))[:2])  # that are active
    assert latents[2][:, chosen].max() > 0.1
    own, donor, other = (latents[row][:, chosen] for row in (2, 1, 0))
    expected = {
        "add": own + 1.5,
        "scale": 1.5 * own,
        "zero": 0 * own,
        "swap": donor,
        "mean": (donor + other) / 2,
    }
    for mode, new in expected.items():
        source = {"swap": 1, "mean": (0, 1)}.get(mode, ())
        patch = Patch(site, source=source, into=2, mode=mode, factor=1.5, autoencoder=one, latents=chosen)
        values, _ = after(toy, [patch], site)
        found = values[0, 2] if values[0, 2].ndim == 2 else np.moveaxis(values[0, 2], 0, -1)
        change = ((new - own) @ one.decoder.numpy()[chosen]).reshape(found.shape)
        np.testing.assert_allclose(found, flat[2] + change, atol=3e-4)
        assert np.array_equal(values[0, :2], before[0, :2])


def test_latents_are_read_as_means_of_what_is_kept(toy):
    names = ["unet.mid", CROSS, "text.final", "vae.decoder.mid"]
    coders = {site: coder(width_at(toy, site)) for site in names}
    with Probe(toy, keep=names, autoencoders=coders) as probe:
        images = draw(toy, num_inference_steps=2)
    assert np.array_equal(images, draw(toy, num_inference_steps=2))
    assert set(probe.latents) == set(names) and "latents at 4 sites" in repr(probe)
    for site in names:
        values = probe.kept[site].values
        vectors = values.movedim(2, -1).flatten(2, 3) if values.ndim == 5 else values
        expected = coders[site].encode(vectors).mean(2)
        assert probe.latents[site].values.shape == (len(values), 3, 24)
        np.testing.assert_allclose(probe.latents[site].values, expected, atol=1e-5)
        assert np.array_equal(probe.latents[site].call, probe.kept[site].call)


WRONG = {
    "no latents": (
        lambda: Patch(CROSS, into=2, mode="zero", autoencoder=coder(8)),
        r"latents: expected numbers of latents beside an autoencoder, and neither alone",
    ),
    "no autoencoder": (lambda: Patch(CROSS, into=2, mode="zero", latents=3), "and neither alone"),
    "a latent beyond": (
        lambda: Patch(CROSS, into=2, mode="zero", latents=24, autoencoder=coder(8)),
        "latents: expected numbers from 0 below 24, but got 24",
    ),
    "project out": (
        lambda: Patch(CROSS, into=2, mode="project_out", latents=1, autoencoder=coder(8)),
        "mode: project_out takes a direction",
    ),
    "a direction": (
        lambda: Patch(CROSS, into=2, mode="add", latents=1, direction=[1.0] * 8, autoencoder=coder(8)),
        "direction: expected one with",
    ),
    "heads": (
        lambda: Patch(CROSS, part="heads", into=2, mode="zero", latents=1, autoencoder=coder(8)),
        "autoencoder: expected channels, but got heads",
    ),
    "width": (
        lambda: Patch(CROSS, into=2, mode="zero", latents=1, autoencoder=coder(5)),
        rf"^Patch\('{CROSS}'\): expected vectors of 5 channels, as the autoencoder takes, but got \d+: it belongs",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_does_not_go_together_is_refused_in_a_line(toy, case):
    make, line = WRONG[case]
    with pytest.raises(HookError, match=line) as caught:
        after(toy, [make()], "unet.mid", steps=1)
    assert "\n" not in str(caught.value)


def test_a_probe_refuses_another_width_and_a_site_that_is_not_there(toy):
    def read(address, one):
        with Probe(toy, autoencoders={address: one}):
            draw(toy, PROMPTS[:1], num_inference_steps=1)

    with pytest.raises(
        HookError, match=r"^unet\.mid: expected vectors of 5 channels, as the autoencoder takes"
    ):
        read("unet.mid", coder(5))
    with pytest.raises(
        HookError, match=r"autoencoders: expected the address of one site, but got the pattern"
    ):
        read("unet.mid.*", coder(5))
