"""What is written at a site is what runs on, bit for bit as by a hook made by hand."""

from __future__ import annotations

import re
from contextlib import ExitStack

import numpy as np
import pytest
import torch

from hooks import HookError, sites
from tests.hooks.conftest import PROMPTS, draw
from tests.tiny import KINDS, tiny_pipeline

ADDRESSES_READ_ONLY = (
    r"text\.final|text(_2)?\.layers\.\d+\.middle|latent(\.final)?|noise_pred\..*|x0_pred|image"
)


def site_of(pipe, address):
    return next(site for site in sites.available(pipe) if site.address == address)


def written(pipe, changes, steps=2):
    """Images drawn while the values of some sites, by address, are changed."""
    with ExitStack() as stack:
        for address, change in changes.items():
            site = site_of(pipe, address)
            stack.callback(site.attach_writer(pipe, change).remove)
        return draw(pipe, PROMPTS[:2], num_inference_steps=steps)


def other(values):
    """Other values of the same shape: seeded noise on top."""
    return values + torch.randn(values.shape, generator=torch.Generator().manual_seed(7)).to(values)


@pytest.mark.parametrize("kind", ["toy", pytest.param("sdxl", marks=pytest.mark.slow)])
def test_another_value_at_any_kind_of_site_is_another_image(pipelines, kind):
    pipe = pipelines(kind)
    without = draw(pipe, PROMPTS[:2], num_inference_steps=1)
    deaf = "text.layers.2" if kind == "sdxl" else " "  # SDXL reads the layer before the first encoder's last
    kinds = {
        re.sub(r"\d+", "#", site.address): site.address
        for site in reversed(sites.available(pipe))
        if site.read_only is None and not site.address.startswith(deaf)
    }
    assert len(kinds) > 40
    for address in kinds.values():
        assert not np.array_equal(written(pipe, {address: other}, steps=1), without), address


def and_skip_connection(module, args, output):
    new = other(output[0])
    return new, (*output[1][:-1], new)


def each_head(module, args):
    return (other(args[0].unflatten(-1, (2, -1))).flatten(-2),)


def second_of_two(module, args, output):
    first, second = output.chunk(2, dim=-1)
    return torch.cat([first, other(second)], dim=-1)


TRANSFORMER = "unet.up_blocks.1.attentions.0"
INSIDE = f"{TRANSFORMER}.transformer_blocks.0"
BY_HAND = {
    "unet.down.0": ("unet.down_blocks.0", and_skip_connection),
    "unet.up.1.attn.0": (TRANSFORMER, lambda module, args, output: (other(output[0]), *output[1:])),
    "unet.up.1.attn.0.self.value": (f"{INSIDE}.attn1.to_v", lambda module, args, output: other(output)),
    "unet.up.1.attn.0.cross.heads": (f"{INSIDE}.attn2.to_out.0", each_head),
    "fused unet.up.1.attn.0.cross.value": (f"{INSIDE}.attn2.to_kv", second_of_two),
}


@pytest.mark.parametrize("name", BY_HAND)
def test_another_value_runs_on_as_from_a_hook_made_by_hand(toy, name):
    path, hook = BY_HAND[name]
    address, pipe = name.removeprefix("fused "), toy
    if name != address:
        pipe = tiny_pipeline("toy")
        pipe.fuse_qkv_projections()
    images, module = written(pipe, {address: other}), sites.module_at(pipe, path)
    attach = module.register_forward_pre_hook if hook is each_head else module.register_forward_hook
    with ExitStack() as stack:
        stack.callback(attach(hook).remove)
        assert np.array_equal(images, draw(pipe, PROMPTS[:2], num_inference_steps=2))
    assert not np.array_equal(images, draw(pipe, PROMPTS[:2], num_inference_steps=2))


def test_what_cannot_be_written_says_why(pipelines):
    seen = set()
    for kind in KINDS:
        last = pipelines(kind).text_encoder.config.num_hidden_layers - 1
        unread = (
            rf"text\.layers\.{last}(\..*)?" if kind == "sdxl" else "none"
        )  # XL takes what stands before it
        for site in sites.available(pipelines(kind)):
            read_only = re.fullmatch(f"{ADDRESSES_READ_ONLY}|{unread}", site.address)
            assert (site.read_only is not None) == bool(read_only), site
            if site.read_only is not None:
                seen.add(site.address)
                with pytest.raises(HookError, match=rf"{re.escape(site.address)}: cannot be written: \w+"):
                    site.replace_in(torch.zeros(1, 1), torch.zeros(1, 1))
                with pytest.raises(HookError, match="cannot be written"):
                    site.attach_writer(pipelines(kind), other)
    assert {"latent", "x0_pred", "noise_pred.guided", "text.layers.0.middle"} <= seen
