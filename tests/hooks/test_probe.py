"""The probe leaves no trace, attaches all or nothing, and tells one call of the pipeline from another."""

import contextlib
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from diffusers import DDIMScheduler, PNDMScheduler, StableDiffusionImg2ImgPipeline, StableDiffusionPipeline

from hooks import HookError, Intervention, Patch, Probe
from hooks.sites import Site
from tests.hooks import transformers
from tests.hooks.conftest import PROMPTS, all_hooks, draw
from tests.tiny import KINDS, tiny_pipeline

PAIRS = [(0, 1), (0, 2), (1, 2)]


@pytest.mark.parametrize(("kind", "guidance_scale"), [*((kind, 4.0) for kind in KINDS), ("toy", 1.0)])
def test_images_are_bit_identical_and_no_hook_is_left(pipelines, kind, guidance_scale):
    pipe = pipelines(kind)
    without = draw(
        pipe, guidance_scale=guidance_scale
    )  # also: transformers attaches its own hooks at first use
    before = all_hooks(pipe)
    with Probe(pipe, pairs=PAIRS, keep="*", word_maps=True) as probe:
        during = all_hooks(pipe)
        images = draw(pipe, guidance_scale=guidance_scale)
    assert np.array_equal(images, without)
    assert all_hooks(pipe) == before
    assert sum(during.values()) > sum(before.values()) + len(probe.kept) // 2, "the count must see the hooks"


def test_the_generators_go_on_as_without(toy):
    states = []
    for probed in (False, True):
        torch.manual_seed(0)
        generator = torch.Generator().manual_seed(1)
        if probed:
            with Probe(toy, pairs=[(0, 1)], word_maps=True):
                draw(toy, PROMPTS[:2], generator=generator, eta=1.0)
        else:
            draw(toy, PROMPTS[:2], generator=generator, eta=1.0)
        states.append((generator.get_state(), torch.get_rng_state()))
    assert torch.equal(states[0][0], states[1][0])
    assert torch.equal(states[0][1], states[1][1])


@pytest.mark.parametrize("when", ["before", "step"])
def test_no_hook_is_left_after_an_exception(toy, when):
    before = all_hooks(toy)

    def stop(pipe, step, timestep, kwargs):
        raise KeyboardInterrupt

    probe = Probe(toy, pairs=PAIRS, word_maps=True)
    with pytest.raises(KeyboardInterrupt), probe:
        if when == "before":
            raise KeyboardInterrupt
        draw(toy, callback_on_step_end=stop)
    assert all_hooks(toy) == before
    with pytest.raises(HookError, match=r"Probe\.similarity: the block ended with an exception"):
        _ = probe.similarity


def test_entering_rolls_back_when_it_fails_half_way(toy, monkeypatch):
    before = all_hooks(toy)
    attached, attach = 0, Site.attach_reader

    def fail_late(site, pipe, receive):
        nonlocal attached
        attached = sum(all_hooks(toy).values()) - sum(before.values())
        if site.module.startswith("unet.up_blocks.2"):
            raise RuntimeError("no such module")
        return attach(site, pipe, receive)

    monkeypatch.setattr(Site, "attach_reader", fail_late)
    with pytest.raises(RuntimeError, match="no such module"), Probe(toy, pairs=PAIRS, word_maps=True):
        pass
    assert attached > 20, "the failure must come after most hooks are on"
    assert all_hooks(toy) == before


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sites": ["unet.nid"]}, r"'unet\.nid' matches no site.*unet\.mid"),
        ({"sites": ["unet.nid"], "pairs": None}, "matches no site"),
        ({"keep": ["latents"]}, r"'latents' matches no site.*latent"),
        ({"pairs": [(0, -1)]}, r"pairs\[0\]"),
        ({"pairs": [(0, 1), (0, 1, 2)]}, r"pairs\[1\]"),
        ({"pairs": [(0, 1)], "shared_positions": []}, r"one entry per pair \(1\), but got 0"),
        ({"pairs": None, "shared_positions": [([1], [1])]}, "without pairs"),
        (
            {"pairs": [(0, 1), (0, 3)]},
            r"pairs\[1\]: expected rows below the 3 of the batch, but got \(0, 3\)",
        ),
    ],
)
def test_what_cannot_be_is_told_and_leaves_no_hook(toy, settings, message):
    before = all_hooks(toy)
    with pytest.raises(HookError, match=message), Probe(toy, **{"pairs": PAIRS, **settings}):
        draw(toy)
    assert all_hooks(toy) == before


def test_one_probe_watches_one_block(toy):
    probe = Probe(toy, sites="unet.mid", pairs=PAIRS)
    with probe:
        with pytest.raises(HookError, match="entered a second time"), probe:
            pass
        with pytest.raises(HookError, match="read before the end"):
            _ = probe.similarity
        draw(toy)
    assert len(probe.similarity["unet.mid:cosine"].values) == 3, "the refused entry did no harm"
    with pytest.raises(HookError, match="entered a second time"), probe:
        pass


def test_a_second_call_in_one_block_is_refused(toy):
    before = all_hooks(toy)
    with pytest.raises(HookError, match="one call of the pipeline"), Probe(toy, pairs=PAIRS):
        draw(toy)
        draw(toy)
    assert all_hooks(toy) == before


def test_an_interrupted_call_leaves_what_it_did(toy):
    def interrupt(pipe, step, timestep, kwargs):
        pipe._interrupt = step == 1
        return kwargs

    with Probe(toy, pairs=PAIRS) as probe:
        draw(toy, num_inference_steps=5, callback_on_step_end=interrupt)
    assert probe.similarity["latent:cosine"].call.tolist() == [0, 1]
    assert probe.similarity["image:cosine"].call.tolist() == [0]


@pytest.mark.parametrize("shared", ["scheduler and all", "all but the scheduler"])
def test_another_pipeline_of_the_same_parts_is_not_read(shared):
    """Which guides, as its own attributes say, and not as those of the pipeline that the probe was given."""
    pipe = tiny_pipeline("toy")
    other = StableDiffusionImg2ImgPipeline.from_pipe(pipe)
    if shared == "all but the scheduler":
        other.scheduler = DDIMScheduler.from_config(pipe.scheduler.config)
    message = {"scheduler and all": "but got 3 at scheduler.step", "all but the scheduler": "but got none"}
    with pytest.raises(HookError, match=message[shared]), Probe(pipe, keep="latent", word_maps=True):
        draw(other, image=torch.zeros(3, 3, 64, 64), strength=0.5, num_inference_steps=2)


def test_a_call_that_broke_off_is_told(toy):
    def stop(pipe, step, timestep, kwargs):
        raise StopIteration

    with (
        pytest.raises(
            HookError, match=r"expected 3 calls of the denoiser, as .* plans, but got 1: let exceptions"
        ),
        Probe(toy, sites="latent", word_maps=True),
        contextlib.suppress(StopIteration),
    ):
        draw(toy, callback_on_step_end=stop)


def test_steps_that_an_interrupted_call_never_made_have_no_map(toy):
    def interrupt(pipe, step, timestep, kwargs):
        pipe._interrupt = True
        return kwargs

    message = "expected the 4 calls of the denoiser that were planned, .* but got 1"
    with pytest.raises(HookError, match=message), Probe(toy, sites="latent", word_maps=True, layer_maps=2):
        draw(toy, num_inference_steps=4, callback_on_step_end=interrupt)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (
            {"keep": "noise_pred.unconditional"},
            r"noise_pred\.unconditional: .* turn that branch of guidance on",
        ),
        (
            {"sites": "image"},
            "image: expected a site that runs in this call, but it never ran: decode the whole",
        ),
        ({"keep": "unet.mid.*"}, r"unet\.mid\.attn\.0\.cross: .* turn off what skips its module"),
        ({"word_maps": True, "layer_maps": 1}, r"unet\.mid\.attn\.0\.cross: expected one run in each of 3"),
    ],
)
def test_a_site_that_was_asked_for_and_never_ran_is_an_error(toy, monkeypatch, asked, message):
    """Without guidance, without an image, and with a transformer block that is passed by."""
    block = toy.unet.mid_block.attentions[0].transformer_blocks[0]
    monkeypatch.setattr(block, "forward", lambda states, **more: states)
    settings = {"pairs": PAIRS[:1], "sites": "latent", **asked}
    with pytest.raises(HookError, match=message), Probe(toy, **settings):
        draw(toy, guidance_scale=1.0, output_type="latent")


def test_a_glob_may_match_what_a_call_has_not(toy):
    with Probe(toy, pairs=PAIRS, keep=["noise_pred.*", "latent*"]) as probe:
        draw(toy, guidance_scale=1.0, output_type="latent")
    assert "text.final:cosine_eos" in probe.similarity
    assert "text.final:cosine_words" not in probe.similarity
    for key in ("noise_pred.unconditional:cosine", "image:cosine", "latent.final:cosine"):
        assert probe.similarity[key].values.shape == (0, 3), key
    assert len(probe.kept["noise_pred.unconditional"].call) == len(probe.kept["latent.final"].call) == 0


@pytest.mark.parametrize(("kind", "inside"), [("toy", True), ("flux-schnell", False)])
def test_probes_are_left_in_any_order(pipelines, dit, kind, inside):
    """The second sees all steps, whether the first is left after the drawing or before it."""
    pipe = pipelines(kind) if kind == "toy" else dit(kind)

    def images():
        return draw(pipe) if kind == "toy" else transformers.draw(pipe, kind, num_inference_steps=3)

    without, before = images(), all_hooks(pipe)
    first, second = (Probe(pipe, keep=["latent", "noise_pred.guided"]) for _ in range(2))
    first.__enter__()
    second.__enter__()
    if inside:
        drawn = images()
        first.__exit__(None, None, None)
    else:
        first.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)
        drawn = images()
    second.__exit__(None, None, None)
    assert np.array_equal(drawn, without) and all_hooks(pipe) == before
    assert "step" not in vars(pipe.scheduler)
    assert second.kept["noise_pred.guided"].call.tolist() == [0, 1, 2]


class ThreeBranches(StableDiffusionPipeline):
    """Guidance over a text, over another and over neither, as pipelines of one's own have it."""

    @torch.no_grad()
    def __call__(self, prompt, generator, num_inference_steps, guidance_scale, output_type):
        self._guidance_scale, rows = guidance_scale, len(prompt)
        texts = list(dict.fromkeys(prompt))
        states, empty = self.encode_prompt(texts, "cpu", rows // len(texts), guidance_scale > 1)
        self.scheduler.set_timesteps(num_inference_steps)
        self._num_timesteps = num_inference_steps
        latents = torch.cat([torch.randn(1, 4, 16, 16, generator=one) for one in generator])
        text = torch.cat([empty, states, states.flip(0)]) if guidance_scale > 1 else states
        for time in self.scheduler.timesteps:
            found = self.unet(latents.repeat(len(text) // rows, 1, 1, 1), time, text).sample
            found = found.unflatten(0, (-1, rows)).mean(0)
            latents = self.scheduler.step(found, time, latents).prev_sample
        return SimpleNamespace(images=latents.numpy())


@pytest.mark.parametrize(
    ("prompts", "got"),
    [
        (PROMPTS[:2], "texts of 2 prompts"),
        (PROMPTS, "a number that they do not divide"),
        (PROMPTS[:1] * 2, "2 at scheduler.step"),  # of one text both images, which the texts do not tell
    ],
)
def test_guidance_of_three_branches_is_not_read_as_two(prompts, got):
    pipe, rows = tiny_pipeline("toy", pipeline_class=ThreeBranches), len(prompts)
    message = (
        f"ThreeBranches: expected 2 rows for each image .* batch of {3 * rows}, but got {got}: its guidance"
    )
    with pytest.raises(HookError, match=message), Probe(pipe, sites="latent", word_maps=True):
        draw(pipe, prompts)
    with (
        pytest.raises(HookError, match="its guidance"),
        Intervention(pipe, [Patch("unet.mid", source=1, into=0)]),
    ):
        draw(pipe, prompts)
    with Probe(pipe, sites="latent", word_maps=True) as probe:  # the remedy
        images = draw(pipe, prompts, guidance_scale=1.0)
    assert np.array_equal(images, draw(pipe, prompts, guidance_scale=1.0))
    assert len(probe.maps.values) == rows


def test_a_pipeline_is_of_one_thread(toy):
    """While a block is open, another thread that enters or only draws is refused."""
    message = "expected a pipeline that one thread runs, but another thread runs it"

    def entering():
        with Probe(toy, keep="latent"):
            draw(toy)

    with ThreadPoolExecutor(1) as other, Probe(toy, keep="latent") as probe:
        before = all_hooks(toy)
        for refused in (entering, lambda: draw(toy)):
            with pytest.raises(HookError, match=message):
                other.submit(refused).result()
        assert all_hooks(toy) == before
        draw(toy)
    assert len(probe.kept["latent"].values) == 3


def test_pndm_repeats_a_timestep_and_overwrites_nothing(pipelines):
    pipe = pipelines("sd1")
    assert isinstance(pipe.scheduler, PNDMScheduler)
    with Probe(pipe, sites=["unet.mid", "text.final"], pairs=PAIRS) as probe:
        draw(pipe, num_inference_steps=4)
    mid, text = (probe.similarity[name] for name in ("unet.mid:cosine", "text.final:cosine_sequence"))
    assert mid.call.tolist() == [0, 1, 2, 3, 4] and mid.values.shape == (5, 3)
    assert mid.timestep.tolist() == [float(t) for t in pipe.scheduler.timesteps]
    assert len(set(mid.timestep)) == 4 and text.call.tolist() == [0] and np.isnan(text.timestep).all()


def test_guidance_switched_off_on_the_way(toy):
    def without_guidance(pipe, step, timestep, kwargs):
        if step == 1:
            pipe._guidance_scale = 1.0
            kwargs["prompt_embeds"] = kwargs["prompt_embeds"][-3:]
        return kwargs

    with Probe(toy, pairs=PAIRS, keep=["noise_pred.*", "unet.mid"], word_maps=True) as probe:
        draw(
            toy,
            num_inference_steps=4,
            callback_on_step_end=without_guidance,
            callback_on_step_end_tensor_inputs=["latents", "prompt_embeds"],
        )
    assert probe.kept["noise_pred.unconditional"].call.tolist() == [0, 1]
    assert probe.kept["noise_pred.conditional"].call.tolist() == [0, 1, 2, 3]
    assert probe.kept["unet.mid"].values.shape[:2] == (4, 3)


def test_tiles_are_refused_and_slices_are_joined(toy):
    pipe = tiny_pipeline("toy")
    pipe.vae.enable_tiling()
    with pytest.raises(HookError, match=r"latent\.final: the VAE decodes in tiles"), Probe(pipe, pairs=PAIRS):
        pass
    with Probe(pipe, sites="unet.mid", pairs=PAIRS):
        draw(pipe)
    pipe.vae.disable_tiling()
    pipe.vae.enable_slicing()
    found = {}
    for name, which in (("slices", pipe), ("whole", toy)):
        with Probe(which, sites=["vae.*", "image", "latent.final"], pairs=PAIRS, keep="image") as probe:
            draw(which)
        found[name] = probe
    assert found["slices"].kept["image"].values.shape == (1, 3, 3, 64, 64)
    for key, similarity in found["whole"].similarity.items():
        np.testing.assert_allclose(found["slices"].similarity[key].values, similarity.values, atol=1e-5)


def test_previews_in_a_callback_do_not_count(toy):
    def preview(pipe, step, timestep, kwargs):
        pipe.vae.decode(torch.zeros_like(kwargs["latents"]))
        return kwargs

    sites = ["vae.*", "image", "latent.final"]
    with Probe(toy, sites=sites, pairs=PAIRS, keep=sites) as plain:
        draw(toy)
    with Probe(toy, sites=sites, pairs=PAIRS, keep=sites) as probe:
        draw(toy, callback_on_step_end=preview)
    for address, kept in plain.kept.items():
        assert torch.equal(probe.kept[address].values, kept.values), address
    for key, similarity in plain.similarity.items():
        np.testing.assert_array_equal(probe.similarity[key].values, similarity.values, err_msg=key)
