"""Pooled activations are the means of what is kept whole, taken anew with NumPy."""

import numpy as np
import pytest

from hooks import HookError, Probe, position_groups
from hooks.architectures.text_encoders import JOINED
from hooks.prompt.spans import GROUPS
from tests.hooks.conftest import PROMPTS, draw
from tests.hooks.transformers import draw as draw_dit

WORDS = ("person", "woman", "man")
SITES = (
    *("text.embeddings", "text.layers.0.attn.heads", "text.final", "latent", "unet.mid", "x0_pred"),
    *(
        "unet.mid.attn.0.cross",
        "unet.mid.attn.0.cross.key",
        "unet.mid.attn.0.cross.heads",
        "latent.final",
        "image",
    ),
)


def groups_of(pipe, prompts=PROMPTS):
    return [position_groups(pipe.tokenizer, prompt, word) for prompt, word in zip(prompts, WORDS)]


def by_hand(site, kept, groups):
    """Means of one site's tensors (calls, rows, ...) with NumPy."""
    values = np.asarray(kept, np.float64)
    if site.startswith("text") or site.endswith((".key", ".value")):
        values = values.reshape(*values.shape[:3], -1)
        means = [
            [values[:, row, list(at)].mean(1) for at in named.values()] for row, named in enumerate(groups)
        ]
        return np.moveaxis(np.array(means), 2, 0)
    if site.endswith(".heads"):
        return values.mean(2).reshape(*values.shape[:2], -1)
    return values.mean((3, 4)) if values.ndim == 5 else values.mean(2)


@pytest.mark.parametrize("kind", ["toy", "sdxl"])
def test_pooled_is_the_mean_of_what_is_kept(pipelines, kind):
    pipe = pipelines(kind)
    groups = groups_of(pipe)
    sites = [site.replace("cross", "cross.0") if kind == "sdxl" else site for site in SITES]
    with Probe(pipe, keep=sites, pool=sites, position_groups=groups) as probe:
        draw(pipe)
    assert list(probe.pooled) == list(probe.kept) and set(probe.pooled) == set(sites)
    for site in sites:
        pooled, kept = probe.pooled[site], probe.kept[site]
        expected = by_hand(site, kept.values, groups)
        np.testing.assert_allclose(pooled.values, expected, rtol=1e-4, atol=1e-5, err_msg=site)
        np.testing.assert_array_equal(pooled.call, kept.call)
        np.testing.assert_array_equal(pooled.timestep, kept.timestep)
    assert len({len(probe.pooled[site].call) for site in sites}) == 2  # once, or at each step


def test_each_text_encoder_has_groups_of_its_own(dit):
    """Of SD3: T5 has no start of text, and what the denoiser is given are CLIP's 77 positions, then T5's."""
    words = {"text": (2,), "text_2": (2,), "text_3": (1,), JOINED: (2, 78)}
    groups = {name: [dict.fromkeys(GROUPS, ()) | {"word": at}] * 3 for name, at in words.items()}
    sites = {
        "text.layers.1": "text",
        "text_3.layers.1": "text_3",
        "text.final": JOINED,
        "dit.block.1.text": JOINED,
    }
    with Probe(dit("sd3"), keep=list(sites), pool=list(sites), position_groups=groups) as probe:
        draw_dit(dit("sd3"), "sd3")
    for site, name in sites.items():
        expected = probe.kept[site].values[:, :, list(words[name])].mean(2)
        found = probe.pooled[site].values[:, :, list(GROUPS).index("word")]
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5, err_msg=site)


def test_texts_are_repeated_for_each_of_their_images_and_an_empty_group_is_nan(toy):
    groups = [{"word": (2,), "none": ()}] * 4
    with Probe(toy, pool=["text.final", "text.layers.1"], position_groups=groups) as probe:
        draw(toy, PROMPTS[:2], num_images_per_prompt=2)
    for record in probe.pooled.values():
        values = np.asarray(record.values)[0]
        assert values.shape[:2] == (4, 2) and np.isnan(values[:, 1]).all()
        assert np.array_equal(values[0], values[1], equal_nan=True) and not np.array_equal(
            values[0, 0], values[2, 0]
        )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pool": "text.final"}, r"text\.final: expected groups of token positions.*got none"),
        ({"pool": "+unet.mid.attn.0.cross.key"}, r"cross\.key: expected groups"),
        (
            {"pool": "unet.mid", "position_groups": [{"word": (1,)}, {"other": (1,)}]},
            "the same names in every row",
        ),
        (
            {"pool": "text.final", "position_groups": [{"word": (1,)}]},
            r"one a row of the batch \(3\), but got 1",
        ),
        (
            {"pool": "text.final", "position_groups": [{"word": (1000,)}] * 3},
            r"text\.final: expected positions below .*got word at \(1000,\)",
        ),
    ],
)
def test_what_cannot_be_pooled_is_said(toy, options, message):
    with pytest.raises(HookError, match=message), Probe(toy, **options):
        draw(toy, num_inference_steps=1)
