"""Sites inside layers and blocks, by what must hold between them."""

from pathlib import Path

import numpy as np
import pytest
import torch

from hooks import Probe, sites
from hooks.architectures.text_encoders import text_cores
from hooks.sites import shapes
from lab.pages import sites as pages_sites
from tests.hooks.conftest import PROMPTS, draw

TWO = PROMPTS[:2]


@pytest.fixture(scope="module", params=["toy", "sdxl"])
def deep(request, pipelines):
    pipe = pipelines(request.param)
    without = draw(pipe, TWO, num_inference_steps=2)
    with Probe(pipe, pairs=[(0, 1)], sites="+*", keep="+*") as probe:
        images = draw(pipe, TWO, num_inference_steps=2)
    assert np.array_equal(images, without)
    return pipe, probe


def close(found, expected):
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_every_site_has_the_shape_it_is_said_to_have(deep):
    pipe, probe = deep
    said = shapes(pipe)
    assert list(probe.kept) == [site.address for site in sites.available(pipe)]
    for address, kept in probe.kept.items():
        assert tuple(kept.values.shape[2:]) == said[address], address
        assert len(kept.values) > 0, address
    for key, similarity in probe.similarity.items():
        assert np.isfinite(similarity.values).all(), key


def test_the_residual_streams_of_the_text_encoders(deep):
    pipe, probe = deep
    for name in ("text", "text_2") if hasattr(pipe, "text_encoder_2") else ("text",):
        kept = {a: k.values[0] for a, k in probe.kept.items() if a.startswith(f"{name}.")}
        layers = sites.module_at(pipe, text_cores(pipe)[name].layers)
        stream = kept[f"{name}.embeddings"]
        for k, layer in enumerate(layers):
            at = f"{name}.layers.{k}"
            if at not in kept:
                break
            close(kept[f"{at}.middle"], stream + kept[f"{at}.attn"])
            close(kept[at], kept[f"{at}.middle"] + kept[f"{at}.mlp"])
            with torch.no_grad():
                close(layer.self_attn.out_proj(kept[f"{at}.attn.heads"].flatten(2)), kept[f"{at}.attn"])
            stream = kept[at]
        assert k == len(layers) - 1


def test_the_residual_stream_of_a_transformer_block(deep):
    pipe, probe = deep
    kept = {address: record.values for address, record in probe.kept.items()}
    blocks = [a for a in kept if ".block" in a]
    assert blocks
    for address in blocks:
        part = address.replace(".block", ".{}")
        into = kept[address] - sum(kept[part.format(name)] for name in ("self", "cross", "ff"))
        number = address.rpartition(".block")[2]
        if number not in ("", ".0"):  # the block before gave what this one was given
            before = f"{address.rpartition('.')[0]}.{int(number[1:]) - 1}"
            close(into, kept[before])
    module = pipe.unet.mid_block.attentions[0].transformer_blocks[0]
    number = ".0" if "unet.mid.attn.0.block.0" in kept else ""
    with torch.no_grad():
        for name, attention in (("self", module.attn1), ("cross", module.attn2)):
            at = f"unet.mid.attn.0.{name}{number}"
            close(attention.to_out[0](kept[f"{at}.heads"].flatten(3)), kept[at])


def test_heads_are_the_values_mixed_by_the_probabilities(deep):
    _, probe = deep
    found = [a for a in probe.kept if a.endswith(".heads") and a.startswith("unet.mid")]
    assert len(found) >= 2
    for address in found:
        at = address.removesuffix(".heads")
        heads = probe.kept[address].values.shape[-2]
        query, key, value = (
            probe.kept[f"{at}.{name}"].values.unflatten(-1, (heads, -1)).transpose(2, 3)
            for name in ("query", "key", "value")
        )
        mixed = (query @ key.mT / query.shape[-1] ** 0.5).softmax(-1) @ value
        close(probe.kept[address].values, mixed.transpose(2, 3))


@pytest.mark.slow
def test_the_page_of_the_docs_is_current():
    page = Path(__file__).parents[3] / "docs" / "reference" / "sites.md"
    assert pages_sites.page() == page.read_text(encoding="utf-8"), (
        "run: python -m lab.pages.sites > docs/reference/sites.md"
    )
