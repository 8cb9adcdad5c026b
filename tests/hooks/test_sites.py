"""Addresses lead to modules, patterns to addresses, and what is not supported is refused by name."""

import random
import re

import pytest
import torch
from diffusers import (
    EDMEulerScheduler,
    StableDiffusionInstructPix2PixPipeline,
    StableDiffusionXLInstructPix2PixPipeline,
)

from hooks import HookError, sites
from hooks.architectures import addresses
from tests.tiny import KINDS, tiny_components, tiny_pipeline

SPACES = {
    "text": "prompt",
    "unet": "denoising",
    "latent": "denoising",
    "noise_pred": "denoising",
    "x0_pred": "denoising",
    "vae": "image",
    "image": "image",
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_address_is_unique_and_leads_to_a_module(pipelines, kind):
    pipe = pipelines(kind)
    table = sites.available(pipe)
    assert len({site.address for site in table}) == len(table)
    for site in table:
        assert isinstance(sites.module_at(pipe, site.module), torch.nn.Module), site
        root = site.address.split(".")[0].removesuffix("_2")
        assert site.space == SPACES[root]
        assert site.per_step == (root in ("unet", "noise_pred", "x0_pred") or site.address == "latent")
        assert site.decoded == (root in ("vae", "image") or site.address == "latent.final")
        streams = r"text(_2)?\.(embeddings|layers\.\d+)"
        assert site.layer_norm == bool(re.fullmatch(streams, site.address)), site.address


@pytest.mark.parametrize("kind", KINDS)
def test_an_address_alone_says_what_its_site_says(pipelines, kind):
    for site in sites.available(pipelines(kind)):
        assert addresses.place(site.address) == site.place
        assert addresses.space(site.address) == site.space
        assert addresses.has_steps(site.address) == site.per_step


@pytest.mark.parametrize("kind", [*KINDS, "pix2pix"])
def test_addresses_sort_in_the_order_in_which_they_run(pipelines, kind):
    settings = {"pipeline_class": StableDiffusionInstructPix2PixPipeline, "unet": {"in_channels": 8}}
    pipe = pipelines(kind) if kind in KINDS else tiny_pipeline("toy", **settings)
    ran = [site.address for site in sites.available(pipe)]
    shuffled = random.Random(0).sample(ran, len(ran))
    assert sorted(shuffled, key=addresses.place) == ran
    assert "other" not in {addresses.place(address).group for address in ran}


def test_an_address_of_nothing_has_no_space_and_sorts_last(toy):
    assert addresses.place("transformer.3") > max(site.place for site in sites.available(toy))
    with pytest.raises(ValueError, match=r"expected an address such as unet\.mid, got 'transformer\.3'"):
        addresses.space("transformer.3")


@pytest.mark.parametrize("kind", KINDS)
def test_no_part_of_the_unet_is_missing(pipelines, kind):
    pipe = pipelines(kind)
    found = {site.module for site in sites.available(pipe)}
    for name, module in pipe.unet.named_modules():
        if type(module).__name__ in ("ResnetBlock2D", "Transformer2DModel", "Downsample2D", "Upsample2D"):
            assert f"unet.{name}" in found
        if name.endswith(".attn2"):
            assert f"unet.{name}" in found


def test_patterns(toy):
    def chosen(patterns):
        return [site.address for site in sites.resolve(toy, patterns)]

    assert chosen("latent") == ["latent"]
    assert chosen(["latent*"]) == ["latent", "latent.final"]
    assert chosen(["image", "text.final"]) == ["text.final", "image"], "in the order in which they run"
    assert chosen(["unet.mid", "unet.mi*d"]) == ["unet.mid"], "each once"
    assert "unet.up.1.attn.0.cross" in chosen("unet.*")


def test_a_pattern_without_a_match_names_the_nearest(toy):
    with pytest.raises(
        HookError, match=r"'unet\.middle' matches no site of StableDiffusionPipeline.*unet\.mid"
    ):
        sites.resolve(toy, ["unet.*", "unet.middle"])
    with pytest.raises(HookError, match=r"'zzz' matches no site.*nearest are text\.embeddings"):
        sites.resolve(toy, "zzz")
    with pytest.raises(HookError, match="at least one"):
        sites.resolve(toy, [])


def test_other_pipelines_of_three_branches_are_refused_by_name():
    parts = tiny_components("sdxl", unet={"in_channels": 8})
    pipe = StableDiffusionXLInstructPix2PixPipeline(**parts, add_watermarker=False)
    with pytest.raises(HookError, match=r"but got StableDiffusionXLInstructPix2PixPipeline"):
        sites.available(pipe)


@pytest.mark.slow
@pytest.mark.parametrize(("path", "part"), [("unet.mid_block", "unet"), ("text_encoder", "text_encoder")])
def test_what_is_compiled_is_refused(path, part):
    pipe = tiny_pipeline("toy")
    sites.module_at(pipe, path).compile()
    with pytest.raises(HookError, match=rf"StableDiffusionPipeline\.{part}: .*compiled"):
        sites.available(pipe)


def test_x0_is_not_offered_where_it_cannot_be_computed():
    pipe = tiny_pipeline("sd1", scheduler=EDMEulerScheduler())
    assert "x0_pred" not in {site.address for site in sites.available(pipe)}
    with pytest.raises(HookError, match="EDMEulerScheduler has no alphas_cumprod"):
        sites.resolve(pipe, "x0_pred")
