"""The gradient against differences of whole draws, and contributions against sums made by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from diffusers import PNDMScheduler

from hooks.sites import cross_attentions, module_at
from lab.validate.tracing.attribution import gradient_attribution
from lab.validate.tracing.contribution import attention_contribution
from probes.stages.trace.triplet_draw import TripletDraw
from tests.tiny import tiny_pipeline

WORDS = {"feminine": "woman", "masculine": "man"}
STEPS, GUIDANCE = 2, 3.0


def draws(pipe, templates=("a {} with a dog", "a {} in the park")):
    return [
        TripletDraw.of_texts(
            pipe, {name: text.format(word) for name, word in WORDS.items()}, WORDS, triplet=number
        )
        for number, text in enumerate(templates)
    ]


@pytest.fixture(scope="module", params=["toy", "sd2"])
def pipe(request):
    """In float64, where differences of draws have digits enough."""
    pipe = tiny_pipeline(request.param).to(torch.float64)
    pipe.scheduler = PNDMScheduler.from_config(pipe.scheduler.config, skip_prk_steps=True)
    return pipe


def latents(pipe, some, change=None, at=()):
    """Final latents of recipients and donors; `change` times the difference is added to the recipients' `at`."""
    handles = []

    def moved(module, args, output):
        start = len(output) - 2 * len(some)
        recipients, donors = output[start : start + len(some)], output[start + len(some) :]
        return torch.cat([output[:start], recipients + change * (donors - recipients), donors])

    for path in at:
        handles.append(module_at(pipe, path).register_forward_hook(moved))
    prompts = [one.prompts[name] for name in WORDS for one in some]
    noise = [torch.Generator().manual_seed(one.noise_seed) for _ in WORDS for one in some]
    try:
        return pipe(
            prompts, generator=noise, num_inference_steps=STEPS, guidance_scale=GUIDANCE, output_type="latent"
        ).images.flatten(1)
    finally:
        for handle in handles:
            handle.remove()


def test_it_is_the_slope_of_the_outcome_along_the_swap(pipe):
    some = draws(pipe)
    found = gradient_attribution(pipe, some, "feminine", "masculine", steps=STEPS, guidance_scale=GUIDANCE)
    assert found.values.shape == (2, len(cross_attentions(pipe)), STEPS + 1)  # PNDM's further call
    plain = latents(pipe, some)
    apart = plain[2:] - plain[:2]
    along = apart / (apart**2).sum(1, keepdim=True)
    for number, (address, path) in list(enumerate(cross_attentions(pipe)))[::3]:
        assert found.sites[number] == address
        little = 1e-4
        up, down = (
            (latents(pipe, some, sign * little, [f"{path}.to_k", f"{path}.to_v"])[:2] * along).sum(1)
            for sign in (1, -1)
        )
        slope = ((up - down) / (2 * little)).numpy()
        np.testing.assert_allclose(found.values[:, number].sum(1), slope, rtol=1e-5, atol=1e-9)


def test_calls_that_are_run_again_give_what_calls_that_are_kept_do(pipe):
    again, kept = (
        gradient_attribution(
            pipe,
            draws(pipe),
            "feminine",
            "masculine",
            steps=STEPS,
            guidance_scale=GUIDANCE,
            checkpointed=checkpointed,
        ).values
        for checkpointed in (True, False)
    )
    np.testing.assert_allclose(again, kept, rtol=1e-9, atol=1e-12)
    assert "forward" not in vars(pipe.unet)  # nothing is left on the pipeline
    assert not any(module._forward_hooks for module in pipe.unet.modules())


def test_words_that_draw_the_same_have_no_attribution(pipe):
    alike = [TripletDraw.of_texts(pipe, dict.fromkeys(WORDS, "a man"), dict.fromkeys(WORDS, "man"))]
    assert not gradient_attribution(pipe, alike, "feminine", "masculine", steps=1).values.any()


def test_a_word_s_contribution_is_that_of_sums_by_hand():
    pipe = tiny_pipeline("toy")
    some = draws(pipe)
    found = attention_contribution(pipe, some, "feminine", steps=1, guidance_scale=GUIDANCE)
    inputs = {}
    address, path = cross_attentions(pipe)[2]
    attention = module_at(pipe, path)

    def keep(module, args, kwargs, output):
        inputs["pixels"], inputs["text"] = (args[0], kwargs["encoder_hidden_states"])

    handle = attention.register_forward_hook(keep, with_kwargs=True)
    pipe(
        [one.prompts["feminine"] for one in some],
        generator=[torch.Generator().manual_seed(one.noise_seed) for one in some],
        num_inference_steps=1,
        guidance_scale=GUIDANCE,
        output_type="latent",
    )
    handle.remove()
    with torch.no_grad():
        for row, one in enumerate(some):
            pixels, text = (inputs[name][len(some) + row].double() for name in ("pixels", "text"))
            weight = {name: getattr(attention, name).weight.double() for name in ("to_q", "to_k", "to_v")} | {
                "to_out": attention.to_out[0].weight.double()
            }
            q, k, v = (x @ weight[name].T for x, name in ((pixels, "to_q"), (text, "to_k"), (text, "to_v")))
            width = q.shape[-1] // attention.heads
            whole, through = torch.zeros(len(pixels), weight["to_out"].shape[0]).double(), 0
            for head in range(attention.heads):
                own = slice(head * width, (head + 1) * width)
                a = torch.softmax(q[:, own] @ k[:, own].T / width**0.5, -1)
                out = weight["to_out"][:, own]
                whole = whole + a @ v[:, own] @ out.T
                through = through + sum(
                    torch.outer(a[:, j], out @ v[j, own]) for j in one.groups["feminine"]["word"]
                )
            expected = (through.norm(dim=1) / whole.norm(dim=1)).mean()
            assert found.sites[2] == address
            assert found.values[row, 2, 0] == pytest.approx(float(expected), rel=1e-4)
