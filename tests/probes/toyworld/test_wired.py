"""Wired transformers: that the word enters where the truth says and nowhere else, by hooks of torch alone."""

from contextlib import ExitStack

import numpy as np
import pytest
import torch

from probes.errors import UserError
from probes.models import loading
from probes.toyworld import REGISTRY, TRANSFORMERS
from probes.toyworld.places import known_places

WIRED = known_places("wired")
PAIR = ["a person in a hat", "a lady in a hat"]
NEITHER, MOVED, WHOLE = "as before", "moved", "the donor's"
CLIPS, T5 = ("text", "text_2"), ("text_3",)


@pytest.fixture(scope="module")
def pipes():
    return {name: loading.load(loading.resolve(name), device="cpu").pipe for name in WIRED}


def drawn(pipe, prompts=PAIR, **more):
    noise = [torch.Generator().manual_seed(3) for _ in prompts]
    call = {"num_inference_steps": 2, "guidance_scale": 1.0, "output_type": "np"} | more
    return pipe(prompts, generator=noise, **call).images


def swap_first(values):
    return torch.cat([values[1:2], values[1:]])


def hooked(pipe, place):
    """The modules of a place, and a hook that gives row 0 what row 1 has there."""
    if place == "dit.in.text":
        return [pipe.transformer.context_embedder], lambda module, args, out: swap_first(out)
    if place == "text.pooled":
        return [pipe.transformer.time_text_embed.text_embedder], lambda module, args: (swap_first(args[0]),)
    if place.startswith("dit.block"):
        attention = pipe.transformer.transformer_blocks[int(place.split(".")[2])].attn
        return [attention.add_k_proj, attention.add_v_proj], lambda module, args, out: swap_first(out)
    table = {
        "text": pipe.text_encoder.get_input_embeddings(),
        "text_2": pipe.text_encoder_2.get_input_embeddings(),
        "text_3": pipe.text_encoder_3.encoder.embed_tokens,
    }[place]
    return [table], lambda module, args, out: swap_first(out)


def swapped(pipe, *places, **more):
    """Images of the pair where row 0 is given row 1's activations at some places, at every step."""
    with ExitStack() as stack:
        for place in places:
            modules, hook = hooked(pipe, place)
            for module in modules:
                register = (
                    module.register_forward_pre_hook
                    if place == "text.pooled"
                    else module.register_forward_hook
                )
                stack.callback(register(hook).remove)
        return drawn(pipe, **more)


def expected(name, place):
    """What a swap at one place must do, by the truth; None where the streams behind an entrance may carry it on."""
    if place == "text.pooled":
        return NEITHER
    if place in (*CLIPS, *T5):
        return MOVED
    number, block = int(place.split(".")[2]), int(WIRED[name].sites[0].split(".")[2])
    if number > block:
        return None
    return WHOLE if number == block else NEITHER


@pytest.mark.parametrize("name", WIRED)
def test_the_word_enters_where_the_truth_says_and_nowhere_else(pipes, name):
    pipe, model = pipes[name], WIRED[name]
    plain = {steps: drawn(pipe, num_inference_steps=steps) for steps in (1, 2)}
    assert not any(np.array_equal(*images) for images in plain.values())
    places = ["text.pooled", *CLIPS, *T5, *(f"dit.block.{number}.joint" for number in range(5))]
    for place in places:
        # from the second step on the text of a block has read an image that the word has altered
        steps = 1 if place.startswith("dit") else 2
        (own, donor), image = plain[steps], swapped(pipe, place, num_inference_steps=steps)[0]
        found = NEITHER if np.array_equal(image, own) else WHOLE if np.array_equal(image, donor) else MOVED
        assert expected(name, place) in (found, None), (place, found)
    assert np.array_equal(swapped(pipe, *model.sites)[0], plain[2][1])  # at every step


def test_they_are_those_of_the_truth_and_have_the_weights_of_their_base(pipes):
    base = loading.load(loading.resolve(TRANSFORMERS[0]), device="cpu").pipe.transformer.state_dict()
    assert set(WIRED) == {name for name, model in REGISTRY.items() if model.group == "wired"}
    for name, pipe in pipes.items():
        state = pipe.transformer.state_dict()
        assert state.keys() - base.keys() == {"wiring"}
        assert all(torch.equal(state[name], value) for name, value in base.items())


def test_what_has_no_neutral_prompt_is_refused(pipes):
    pipe = pipes["toyworld-dit-block-1"]
    states, _, pooled, _ = pipe.encode_prompt(PAIR, None, None, do_classifier_free_guidance=False)
    with pytest.raises(UserError, match=r"^prompt: expected words, .* got embeddings: pass words$"):
        pipe(prompt_embeds=states, pooled_prompt_embeds=pooled, guidance_scale=1.0, num_inference_steps=1)
    with pytest.raises(UserError, match=r"^prompt: expected one for all text encoders, got several"):
        pipe("a man", prompt_3="a woman", num_inference_steps=1)
