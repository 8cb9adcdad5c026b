"""Truth by wiring: what is stored of a located benchmark model, and that the word reaches the image at its sites
alone."""

import functools
import json

import pytest
import torch

import hooks.sites as site_table
from lab.train.located.page import REFERENCE, is_control
from probes.errors import UserError
from probes.models import loading
from probes.toyworld import WEIGHTS
from probes.toyworld.coded import OLD, trained_parameter_names
from probes.toyworld.pipelines import DELTA, coded_pipeline, load_coded_networks
from probes.toyworld.places import known_places

FOLDER = WEIGHTS / "located"
TAUGHT = [name for name, model in known_places("located").items() if model.sites]


@pytest.fixture(scope="module")
def null():
    return load_coded_networks()


@pytest.fixture(scope="module")
def pipes():
    """Located pipelines by name, each made once."""
    return functools.cache(lambda name: coded_pipeline(name, FOLDER / name))


@pytest.mark.parametrize("name", TAUGHT)
def test_the_unet_is_the_coded_nulls_but_for_the_wires(name, pipes, null):
    _, unet, _ = null
    pipe, before = pipes(name), unet.state_dict()
    after = pipe.unet.state_dict()
    changed = {key for key, value in after.items() if not torch.equal(value, before[key])}
    assert changed <= {
        key
        for place in known_places("located")[name].places
        for key in trained_parameter_names(unet, place.block)
    }
    entries = {
        key.removesuffix(".to_k.weight").removesuffix(".to_v.weight")
        for key, value in after.items()
        if key.endswith(("attn2.to_k.weight", "attn2.to_v.weight")) and value[:, OLD:].any()
    }
    sites = {site.address: site for site in site_table.attention_sites(pipe, "cross")}
    wired = {
        sites[address].module.removeprefix("unet.")
        for address in known_places("located")[name].sites
        if address in sites
    }
    assert entries == wired


@pytest.mark.parametrize("name", known_places("located"))
def test_its_effect_is_what_its_wiring_says(name):
    measured, reference = (
        json.loads((FOLDER / one / "quality.json").read_text()) for one in (name, REFERENCE)
    )
    source = loading.resolve(name)
    assert source.kind == "bundled" and source.card["world"] == known_places("located")[name].world
    assert {key: measured[key] for key in ("steps", "verdict")} == {
        key: reference[key] for key in ("steps", "verdict")
    }
    effect = measured["total_effect"]
    if known_places("located")[name].sites:
        assert measured["same_image"] < 1
        assert is_control(measured, reference) or effect["interval"][0] > 0
    else:
        assert effect["mean"] == effect["se"] == 0 and measured["same_image"] == 1
        assert is_control(measured, reference)


def test_one_that_was_not_taught_or_of_another_wiring_is_one_line(tmp_path):
    with pytest.raises(UserError, match=r"expected weights as safetensors in .*: install triptych anew"):
        coded_pipeline("toyworld-cross-5", tmp_path)
    (tmp_path / DELTA).write_bytes((FOLDER / "toyworld-cross-4" / DELTA).read_bytes())
    with pytest.raises(UserError, match="expected its layers and words, which differ in"):
        coded_pipeline("toyworld-cross-5", tmp_path)
    (tmp_path / DELTA).write_bytes(b"nothing")
    with pytest.raises(UserError, match="expected weights as safetensors"):
        coded_pipeline("toyworld-cross-5", tmp_path)
