"""Blocks of the published widths, one of each kind with random weights: images and word maps, as of tiny ones."""

import numpy as np
import pytest

from hooks import Probe
from tests.hooks.attention.test_final import expected_maps
from tests.hooks.transformers import PROMPTS, draw, heard
from tests.tiny_transformers import tiny_transformer_pipeline

FLUX = {  # one block of each kind
    "num_layers": 1,
    "num_single_layers": 1,
    "attention_head_dim": 128,
    "num_attention_heads": 24,
    "axes_dims_rope": (16, 56, 56),
}
WIDTHS = {
    "sd3": {
        "num_layers": 2,  # the text has no stream behind the last
        "attention_head_dim": 64,
        "num_attention_heads": 24,
        "caption_projection_dim": 1536,
    },
    "sd35": {
        "num_layers": 2,
        "attention_head_dim": 64,
        "num_attention_heads": 38,
        "caption_projection_dim": 2432,
        "dual_attention_layers": (0,),
    },
    "qwen-image": {
        "num_layers": 1,
        "attention_head_dim": 128,
        "num_attention_heads": 24,
        "axes_dims_rope": (16, 56, 56),
    },
    "flux-dev": FLUX,
    "chroma": FLUX,
    "ovis-image": FLUX,
    "pixart-sigma": {
        "num_layers": 1,
        "attention_head_dim": 72,
        "num_attention_heads": 16,
        "cross_attention_dim": 1152,
    },
    "sana": {
        "num_layers": 1,
        "attention_head_dim": 32,
        "num_attention_heads": 70,
        "cross_attention_head_dim": 112,
        "num_cross_attention_heads": 20,
        "cross_attention_dim": 2240,
    },
    "lumina2": {
        "num_layers": 1,
        "hidden_size": 2304,
        "num_attention_heads": 24,
        "num_kv_heads": 8,
        "axes_dim_rope": (32, 32, 32),
    },
    "z-image": {"n_layers": 1, "dim": 3840, "n_heads": 30, "n_kv_heads": 30, "axes_dims": [32, 48, 48]},
    "auraflow": {
        "num_mmdit_layers": 1,
        "num_single_dit_layers": 1,
        "attention_head_dim": 256,
        "num_attention_heads": 12,
        "caption_projection_dim": 3072,
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", WIDTHS)
def test_blocks_of_the_published_width(kind, monkeypatch):
    pipe = tiny_transformer_pipeline(kind, **WIDTHS[kind])
    without = draw(pipe, kind)
    entries = heard(pipe, lambda: draw(pipe, kind), monkeypatch)
    with Probe(pipe, sites="*", pairs=[(0, 1)], word_maps=True, prompts=PROMPTS) as probe:
        images = draw(pipe, kind)
    assert np.isfinite(images).all() and np.array_equal(images, without)
    values, text = expected_maps(pipe, kind, probe, entries, "mass")
    np.testing.assert_allclose(probe.maps.values, values, atol=1e-6, rtol=1e-5)
    np.testing.assert_allclose(probe.maps.text, text, atol=1e-6, rtol=1e-5)
