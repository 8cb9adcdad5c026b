"""Probes beside what moves, rounds and repeats: offloading, bfloat16, several images a prompt, on every layout."""

import accelerate.hooks
import diffusers
import numpy as np
import pytest
import torch

from hooks import HookError, Probe
from tests.hooks.attention.test_final import expected_maps
from tests.hooks.transformers import COMMON, PROMPTS, STEPS, draw, heard, tiers
from tests.tiny import _vae
from tests.tiny_transformers import KINDS, tiny_transformer_pipeline

PAIRS = [(0, 1), (0, 2)]
EACH = tiers(KINDS, COMMON)


@pytest.mark.parametrize("kind", EACH)
def test_beside_offloading(dit, kind):
    """As `enable_model_cpu_offload` wraps each model; here both devices are the CPU."""
    expected = draw(dit(kind), kind)
    with Probe(dit(kind), sites="*", pairs=PAIRS, word_maps=True, prompts=PROMPTS) as plain:
        draw(dit(kind), kind)
    pipe, previous = tiny_transformer_pipeline(kind), None
    for component in pipe.components.values():
        if isinstance(component, torch.nn.Module):
            _, previous = accelerate.cpu_offload_with_hook(component, "cpu", previous)
    assert hasattr(pipe.transformer, "_hf_hook")
    with Probe(pipe, sites="*", pairs=PAIRS, word_maps=True, prompts=PROMPTS) as probe:
        images = draw(pipe, kind)
    assert np.array_equal(images, expected)
    for key, similarity in plain.similarity.items():
        np.testing.assert_array_equal(probe.similarity[key].values, similarity.values, err_msg=key)
    np.testing.assert_array_equal(probe.maps.values, plain.maps.values)


@pytest.mark.parametrize("kind", EACH)
def test_in_bfloat16(kind, monkeypatch, bfloat16_attention):
    """Probabilities and their products with indicators are rounded to 8 bits: two roundings of at most 1/256 each."""
    pipe = tiny_transformer_pipeline(kind).to(torch.bfloat16)
    without = draw(pipe, kind)
    entries = heard(pipe, lambda: draw(pipe, kind), monkeypatch)
    with Probe(pipe, pairs=PAIRS, word_maps=True, prompts=PROMPTS) as probe:
        images = draw(pipe, kind)
    assert np.array_equal(images, without)
    values, text = expected_maps(pipe, kind, probe, entries, "mass")
    np.testing.assert_allclose(probe.maps.values, values, rtol=2 / 256, atol=1e-5)
    np.testing.assert_allclose(probe.maps.text, text, rtol=2 / 256)


@pytest.mark.parametrize("kind", tiers((kind for kind in KINDS if kind != "lumina2"), COMMON))
def test_several_images_of_prompts_of_unlike_length(dit, kind, monkeypatch):
    pipe, call = dit(kind), {"num_images_per_prompt": 2}
    prompts = [PROMPTS[0], PROMPTS[0], PROMPTS[1], PROMPTS[1]]

    def drawn():
        seeds = [torch.Generator().manual_seed(seed) for seed in range(4)]
        return draw(pipe, kind, PROMPTS[:2], **call, generator=seeds)

    without = drawn()
    entries = heard(pipe, drawn, monkeypatch)
    with Probe(pipe, pairs=[(0, 1), (0, 2)], word_maps=True, prompts=PROMPTS[:2]) as probe:
        images = drawn()
    assert np.array_equal(images, without)
    values, text = expected_maps(pipe, kind, probe, entries, "mass", prompts)
    np.testing.assert_allclose(probe.maps.values, values, atol=1e-6, rtol=1e-5)
    np.testing.assert_allclose(probe.maps.text, text, atol=1e-6, rtol=1e-5)
    assert probe.word_map("park", row=3).values.sum() > 0
    image = probe.similarity["latent:cosine"].values
    assert len(image) == STEPS and not np.allclose(image[0, 0], 1), "each image has its own noise"


def test_a_pipeline_that_gives_images_the_masks_of_other_prompts_is_refused(dit):
    """Lumina2's repeats masks in another order than states; of prompts of one length, both are the same."""
    pipe, seeds = dit("lumina2"), [torch.Generator().manual_seed(seed) for seed in range(4)]
    call = {"num_images_per_prompt": 2, "generator": seeds}
    with (
        pytest.raises(HookError, match="expected one mask for all images of a prompt, but the pipeline"),
        Probe(pipe, word_maps=True),
    ):
        draw(pipe, "lumina2", PROMPTS[:2], **call)
    with Probe(pipe, word_maps=True, prompts=[PROMPTS[0], PROMPTS[2]]) as probe:
        draw(pipe, "lumina2", [PROMPTS[0], PROMPTS[2]], **call)
    assert probe.word_map("umbrella", row=3).values.sum() > 0


@pytest.mark.parametrize(
    ("kind", "texts", "call"), [("sd3", 3, {"guidance_scale": 1.0}), ("flux-schnell", 2, {})]
)
def test_texts_are_encoded_inside_the_block(dit, kind, texts, call):
    pipe, message = dit(kind), "call pipe.encode_prompt inside the block, or leave word maps off"
    with Probe(pipe, word_maps=True) as plain:
        draw(pipe, kind, **call)

    def encoded():
        states = pipe.encode_prompt(*[PROMPTS] * texts)
        return {"prompt_embeds": states[0], "pooled_prompt_embeds": states[2 if kind == "sd3" else 1], **call}

    given = encoded()
    with pytest.raises(HookError, match=message), Probe(pipe, word_maps=True):
        draw(pipe, kind, None, **given)
    with Probe(pipe, word_maps=True) as probe:
        draw(pipe, kind, None, **encoded())
    expected = plain.word_map("park", row=1).values
    np.testing.assert_allclose(probe.word_map("park", row=1).values, expected, rtol=1e-5)


@pytest.mark.parametrize(("kind", "beside"), [("chroma", "Img2Img"), ("qwen-image", "Inpaint")])
def test_pipelines_of_pictures_name_the_one_of_texts(dit, kind, beside):
    plain = type(dit(kind)).__name__
    pipe = getattr(diffusers, plain.replace("Pipeline", f"{beside}Pipeline")).from_pipe(dit(kind))
    message = rf"{beside}Pipeline \(it starts from pictures.*\): use diffusers\.{plain}\.from_pipe\(pipe\)"
    with pytest.raises(HookError, match=message), Probe(pipe):
        pass
    remedy = getattr(diffusers, plain).from_pipe(pipe)
    remedy.set_progress_bar_config(disable=True)
    with Probe(remedy, word_maps=True) as probe:
        images = draw(remedy, kind)
    assert np.array_equal(images, draw(dit(kind), kind)) and probe.word_map("park", row=1).peak > 0


@pytest.mark.parametrize(
    ("kind", "task", "channels"),
    [
        ("sd3", "Img2Img", 4),
        ("sd3", "Inpaint", 33),  # of which 17 are a mask and a picture
        ("flux-dev", "Img2Img", 16),
        pytest.param("flux-schnell", "Inpaint", 16, marks=pytest.mark.slow),
    ],
)
def test_image_to_image_and_inpainting(kind, task, channels, monkeypatch):
    """Two calls of the denoiser in four steps at strength 0.5, with the same noise and picture in every row."""
    more = {"out_channels": 16} if channels == 33 else {}
    base = tiny_transformer_pipeline(kind, in_channels=channels, **more)
    if more:
        base.register_modules(vae=_vae(2, latent_channels=16, shift_factor=0.0609, sample_size=32))
    plain = type(base).__name__
    pipe = getattr(diffusers, plain.replace("Pipeline", f"{task}Pipeline"))(**base.components)
    pipe.set_progress_bar_config(disable=True)
    picture = torch.rand(1, 3, 32, 32, generator=torch.Generator().manual_seed(0)).expand(3, -1, -1, -1)
    call = {"image": picture, "strength": 0.5, "num_inference_steps": 4}
    call |= {"true_cfg_scale": 2.0, "negative_prompt": ["a dog"] * 3} if kind == "flux-dev" else {}
    call |= {"mask_image": torch.ones(3, 1, 32, 32).tril()} if task == "Inpaint" else {}
    without = draw(pipe, kind, **call)
    entries = heard(pipe, lambda: draw(pipe, kind, **call), monkeypatch)
    keep = ["latent", "x0_pred", "latent.final"]
    with Probe(pipe, keep=keep, word_maps=True, layer_maps=99, prompts=PROMPTS) as probe:
        images = draw(pipe, kind, **call)
    assert np.array_equal(images, without)
    values, text = expected_maps(pipe, kind, probe, entries, "mass")
    np.testing.assert_allclose(probe.maps.values, values, atol=1e-6, rtol=1e-5)
    np.testing.assert_allclose(probe.maps.text, text, atol=1e-6, rtol=1e-5)
    assert probe.layer_maps.calls == (1,) * STEPS
    first, final = probe.kept["latent"].values[0], probe.kept["latent.final"].values[0]
    assert first.shape == final.shape and torch.equal(first[0], first[1]) and not torch.equal(*final[:2])
    if task == "Img2Img":  # the last step goes all the way
        torch.testing.assert_close(probe.kept["x0_pred"].values[-1], final, rtol=1e-4, atol=1e-5)
