"""Sizes against what diffusers' own pipelines make of them."""

import pytest

from hooks.architectures.unet import UNet
from tests.hooks.conftest import draw
from tests.tiny import KINDS, tiny_pipeline

UNET = UNet()


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
