"""Diffusion transformers: nothing is altered, every site is read, steps and predictions are the scheduler's."""

import inspect

import diffusers
import numpy as np
import pytest
import torch
from diffusers import FlowMatchEulerDiscreteScheduler
from scipy.spatial.distance import cosine

from hooks import HookError, Probe, sites
from hooks.architectures import registry
from hooks.sites import shapes
from tests.hooks.conftest import all_hooks
from tests.hooks.transformers import PROMPTS, STEPS, draw, tiers
from tests.tiny_transformers import KINDS, call_options, tiny_transformer_pipeline

PAIRS = [(0, 1), (0, 2)]
FLOWS = tuple(kind for kind in KINDS if not kind.startswith(("pixart", "cogview3", "hunyuan-dit")))
DISTILLED = ("flux-dev", "flux-schnell", "flux2-dev", "sana-sprint")  # one branch
PACKED = ("flux-dev", "flux-schnell", "chroma", "qwen-image", "ovis-image", "longcat-image", "krea2")


@pytest.mark.parametrize("kind", tiers(KINDS))
def test_images_are_bit_identical_and_every_site_is_read(dit, kind):
    pipe = dit(kind)
    without = draw(pipe, kind)
    before, scheduler = all_hooks(pipe), dict(vars(pipe.scheduler))
    with Probe(pipe, sites="+*", pairs=PAIRS, word_maps=True, prompts=PROMPTS) as probe:
        assert "step" in vars(pipe.scheduler)
        images = draw(pipe, kind)
    assert np.array_equal(images, without)
    assert all_hooks(pipe) == before
    assert vars(pipe.scheduler).keys() == scheduler.keys()
    per_step = {site.address: site.per_step for site in sites.available(pipe)}
    for key, similarity in probe.similarity.items():
        address = key.rpartition(":")[0]
        if address == "noise_pred.unconditional" and kind in DISTILLED:
            assert len(similarity.values) == 0, "guidance is distilled"
            continue
        assert len(similarity.values) == (STEPS if per_step[address] else 1), key
        known = similarity.values[:, 0] if not key.endswith("_eos") else similarity.values
        assert np.isfinite(known).all(), key
    lists = {
        "hunyuan-dit": ["blocks"],
        "lumina2": ["layers"],
        "z-image": ["layers"],
        "auraflow": ["joint_transformer_blocks"],
    }
    expected = set()
    for name in (*lists.get(kind, ["transformer_blocks"]), "single_transformer_blocks"):
        single = kind == "krea2" or name in ("layers", "single_transformer_blocks")
        stack = "single" if single else "block"
        role = "cross" if kind.startswith(("pixart", "sana", "hunyuan-dit")) else "joint"
        blocks = range(len(getattr(pipe.transformer, name, ())))
        expected |= {f"dit.{stack}.{k}.{one}:cosine" for k in blocks for one in (role, "image")}
    assert expected < probe.similarity.keys()


@pytest.mark.parametrize(
    "kind", tiers(kind for kind in KINDS if kind not in ("sd35", "flux-schnell", "pixart-alpha"))
)
def test_shapes_are_known_before_it_runs(dit, kind):
    pipe = dit(kind)
    addresses = ["+dit.*", "latent", "x0_pred", "noise_pred.conditional", "text*", "latent.final"]
    call = {"complex_human_instruction": []} if kind.startswith("sana") else {}
    if "max_sequence_length" in inspect.signature(pipe.__call__).parameters:
        call["max_sequence_length"] = registry.architecture_of(pipe).row.layout.lengths[-1]
    with Probe(pipe, keep=addresses) as probe:
        draw(pipe, kind, PROMPTS[:1], **call)
    size = call_options(kind)["height"]
    found = shapes(pipe, size, size)
    # cut to each prompt's own length, or the encoder is given a template that the denoiser is not
    cut = kind in ("qwen-image", "lumina2", "z-image", "ovis-image", "longcat-image", "krea2", "cogview4")
    for address, kept in probe.kept.items():
        shape = tuple(kept.values.shape[2:])
        of_text = "text" in address and not address.endswith("mod.text")
        assert found[address] == shape or (cut and of_text and found[address][1:] == shape[1:]), address


def patches(values):
    """Predictions (steps, rows, c, h, w) as patches of 2 x 2, their numbers last."""
    steps, rows, channels, height, width = values.shape
    values = values.reshape(steps, rows, channels, height // 2, 2, width // 2, 2)
    return values.permute(0, 1, 3, 5, 2, 4, 6).flatten(4)


@pytest.mark.parametrize("kind", tiers(FLOWS))
def test_x0_of_the_last_step_is_the_final_latent_to_the_bit(dit, kind):
    pipe = dit(kind)
    with Probe(pipe, keep=["x0_pred", "latent", "noise_pred.*"]) as probe:
        final = torch.as_tensor(draw(pipe, kind, output_type="latent"))
    if kind in PACKED:
        size, scale = call_options(kind)["height"], () if kind == "krea2" else (pipe.vae_scale_factor,)
        final = pipe._unpack_latents(final, size, size, *scale).reshape(3, -1, 16, 16)
    last, shape = probe.kept["x0_pred"].values[-1], (1, *final.shape[1:])
    by_patch = hasattr(pipe, "_unpatchify_latents")  # FLUX.2's: noise, mean and variance
    noise = torch.randn((1, 16, 8, 8) if by_patch else shape, generator=torch.Generator().manual_seed(5))
    if by_patch:
        noise = pipe._unpatchify_latents(noise)
    if kind == "flux2-dev":
        final = pipe._unpatchify_latents(final.mT.reshape(3, 16, 8, 8))
    elif kind == "flux2-klein":  # which hands out what it decodes
        mean, variance = (value.view(1, -1, 1, 1) for value in pipe.vae.bn.buffers() if value.ndim)
        scale = torch.sqrt(variance + pipe.vae.config.batch_norm_eps)
        last = pipe._unpatchify_latents(pipe._patchify_latents(last) * scale + mean)
    assert torch.equal(last, final)
    latent = probe.kept["latent"].values[0]
    if kind == "sana-sprint":  # gives the denoiser latents of unit variance
        torch.testing.assert_close(latent, noise.expand_as(final))
    else:
        assert torch.equal(latent, noise.expand_as(final))
    uncond, cond, guided = (
        probe.kept[f"noise_pred.{name}"].values for name in ("unconditional", "conditional", "guided")
    )
    if kind in ("z-image", "krea2"):  # from the prompt's prediction on
        assert torch.equal(cond + pipe.guidance_scale * (cond - uncond), guided)
    elif kind in ("qwen-image", "lumina2", "longcat-image"):  # as long as the prompt's prediction
        scale = call_options(kind).get("true_cfg_scale") or pipe.guidance_scale
        combined, along = uncond + scale * (cond - uncond), -1
        if kind in PACKED:  # over the numbers of a patch
            cond, combined, guided = map(patches, (cond, combined, guided))
        ratio = cond.norm(dim=along, keepdim=True) / combined.norm(dim=along, keepdim=True)
        expected = combined * (ratio.clamp(max=1) if kind == "longcat-image" else ratio)
        torch.testing.assert_close(guided, expected, rtol=1e-5, atol=1e-6)
    elif kind not in DISTILLED:
        assert torch.equal(uncond + pipe.guidance_scale * (cond - uncond), guided)
    assert not torch.equal(
        probe.kept["noise_pred.guided"].values[0], probe.kept["noise_pred.guided"].values[1]
    )


def test_x0_of_a_noise_prediction_is_the_schedulers(dit, monkeypatch):
    pipe = dit("pixart-sigma")
    convert, expected = pipe.scheduler.convert_model_output, []

    def record(*args, **kwargs):
        expected.append(convert(*args, **kwargs))
        return expected[-1]

    monkeypatch.setattr(pipe.scheduler, "convert_model_output", record)
    with Probe(pipe, keep=["x0_pred", "latent.final"]) as probe:
        draw(pipe, "pixart-sigma", num_inference_steps=4)
    torch.testing.assert_close(probe.kept["x0_pred"].values, torch.stack(expected), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("kind", "address", "path", "taken"),
    [
        ("sd3", "dit.block.1.image", "transformer_blocks.1", lambda output: output[1]),
        ("sd35", "dit.block.0.self", "transformer_blocks.0.attn2", lambda output: output),
        (
            "flux-dev",
            "dit.single.1.joint",
            "single_transformer_blocks.1.attn",
            lambda output: output[:, -64:],
        ),
        (
            "flux-dev",
            "dit.single.1.joint.text",
            "single_transformer_blocks.1.attn",
            lambda output: output[:, :-64],
        ),
        ("flux-dev", "dit.block.1.mod", "transformer_blocks.1.norm1.linear", lambda output: output),
        ("sana", "dit.block.2.cross", "transformer_blocks.2.attn2", lambda output: output),
    ],
)
def test_a_site_is_what_a_hook_of_torch_sees(dit, kind, address, path, taken):
    pipe, seen = dit(kind), []
    module = pipe.transformer.get_submodule(path)
    handle = module.register_forward_hook(
        lambda m, a, output: seen.append(taken(output)[-3:].double().flatten(1))
    )
    draw(pipe, kind)
    handle.remove()
    with Probe(pipe, sites=address, pairs=PAIRS) as probe:
        draw(pipe, kind)
    for found, rows in zip(probe.similarity[f"{address}:cosine"].values, seen, strict=True):
        expected = [1 - cosine(rows[a], rows[b]) for a, b in PAIRS]
        np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("guidance_scale", [1.0, 4.5])
def test_texts_tell_the_branches_where_the_pipeline_does_not(dit, guidance_scale):
    """Two images of one prompt are two rows without guidance, and so are one prompt and its negative one."""
    pipe = dit("pixart-sigma")
    for prompts, images in ((PROMPTS[:1], 2), (PROMPTS[:2], 1), (["", ""], 1)):
        with Probe(pipe, sites="dit.block.0.image", pairs=[(0, 1)]) as probe:
            draw(pipe, "pixart-sigma", prompts, num_images_per_prompt=images, guidance_scale=guidance_scale)
        assert probe.similarity["dit.block.0.image:cosine"].values.shape == (STEPS, 1)


def _cache(pipe):
    pipe.transformer.enable_cache(diffusers.FirstBlockCacheConfig(threshold=0.1))


def _fuse(pipe):
    pipe.transformer.fuse_qkv_projections()


def _stochastic(pipe):
    pipe.scheduler = FlowMatchEulerDiscreteScheduler.from_config(
        pipe.scheduler.config, stochastic_sampling=True
    )


def _lcm(pipe):
    pipe.scheduler = diffusers.FlowMatchLCMScheduler()


@pytest.mark.parametrize(
    ("kind", "spoil", "message"),
    [
        (
            "flux-dev",
            _cache,
            r"FluxPipeline\.transformer: expected every block to run at every step, but got a cache",
        ),
        (
            "sd3",
            _fuse,
            r"Pipeline\.transformer: expected queries, keys and values apart, but got fused projections",
        ),
        ("sd3", _stochastic, r"scheduler: expected steps without noise of their own, but got FlowMatchEuler"),
        ("flux-dev", _lcm, r"scheduler: expected steps without noise of their own, but got FlowMatchLCM"),
    ],
)
def test_what_would_be_wrong_is_refused_in_one_line(kind, spoil, message):
    pipe = tiny_transformer_pipeline(kind)
    spoil(pipe)
    with pytest.raises(HookError, match=message) as refused, Probe(pipe, pairs=PAIRS):
        pass
    assert "\n" not in str(refused.value)


def test_states_of_no_encoder_are_refused_where_only_texts_tell_the_rows(dit):
    pipe = dit("pixart-sigma")
    embeds, mask, negative, negative_mask = pipe.encode_prompt(PROMPTS)
    given = {"prompt_embeds": embeds, "prompt_attention_mask": mask}
    given |= {"negative_prompt_embeds": negative, "negative_prompt_attention_mask": negative_mask}
    with pytest.raises(HookError, match="expected prompts, since the texts tell which rows"), Probe(pipe):
        draw(pipe, "pixart-sigma", None, negative_prompt=None, **given)
