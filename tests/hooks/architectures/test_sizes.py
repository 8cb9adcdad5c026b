"""Sizes against what diffusers' own pipelines make of them."""

import pytest

from hooks.architectures.unet import UNet
from lab.pages.sites import stable_diffusion_1, stable_diffusion_2, stable_diffusion_xl
from tests.hooks.conftest import draw
from tests.tiny import KINDS, tiny_pipeline

UNET = UNet()
PUBLISHED = {
    "1": (stable_diffusion_1, 512, 64, 64),
    "2": (stable_diffusion_2, 768, 96, 64),
    "xl": (stable_diffusion_xl, 1024, 128, 32),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_models(name):
    make, pixels, latent, multiple = PUBLISHED[name]
    pipe = make()
    assert UNET.image_size(pipe) == (pixels, pixels)
    assert UNET.latent_size(pipe) == (latent, latent)
    assert UNET.image_multiple(pipe) == multiple
    assert UNET.image_size(pipe, 640, None) == (640, pixels)
    assert UNET.latent_size(pipe, None, 640) == (latent, 80)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("asked", [(None, None), (96, 32)])
def test_what_is_drawn(pipelines, kind, asked):
    pipe, seen = pipelines(kind), []
    handle = pipe.unet.register_forward_pre_hook(lambda module, args: seen.append(args[0].shape[2:]))
    try:
        images = draw(pipe, ["a man"], height=asked[0], width=asked[1], num_inference_steps=1)
    finally:
        handle.remove()
    assert UNET.image_size(pipe, *asked) == images.shape[1:3]
    assert UNET.latent_size(pipe, *asked) == tuple(seen[0])
    assert UNET.latent_scale(pipe) == pipe.vae_scale_factor


def test_sides_that_differ():
    pipe = tiny_pipeline("toy", unet={"sample_size": (16, 24)})
    scale = pipe.vae_scale_factor
    assert UNET.latent_size(pipe) == (16, 24)
    assert UNET.image_size(pipe, None, 8 * scale) == (16 * scale, 8 * scale)
