"""States that were made before the block and passed in: the given texts say where each word stands in them."""

import inspect

import numpy as np
import pytest

from hooks import HookError, Probe
from tests.hooks.conftest import draw as draw_unet
from tests.hooks.transformers import PROMPTS, draw, tiers

_PAIR, _POOLED = (
    ("prompt_embeds", "negative_prompt_embeds"),
    ("pooled_prompt_embeds", "negative_pooled_prompt_embeds"),
)
_MASKED = (
    "prompt_embeds",
    "prompt_attention_mask",
    "negative_prompt_embeds",
    "negative_prompt_attention_mask",
)
RETURNED = {  # names of what `encode_prompt` returns
    "toy": _PAIR,
    "sdxl": (*_PAIR, *_POOLED),
    "sd3": (*_PAIR, *_POOLED),
    "flux-schnell": ("prompt_embeds", "pooled_prompt_embeds", None),
    "qwen-image": ("prompt_embeds", "prompt_embeds_mask"),
    "lumina2": _MASKED,
    "z-image": _PAIR,
    "auraflow": _MASKED,
}


@pytest.mark.parametrize("kind", tiers(RETURNED, ("toy", "sdxl", "sd3", "flux-schnell", "lumina2")))
def test_given_texts_place_the_words_of_states_from_elsewhere(pipelines, dit, kind):
    """Images and maps are those of the call with the prompts, and no text encoder runs in the block."""
    unet = kind in ("toy", "sdxl")
    pipe = pipelines(kind) if unet else dit(kind)

    def run(prompts, **call):
        return draw_unet(pipe, prompts, **call) if unet else draw(pipe, kind, prompts, **call)

    with Probe(pipe, word_maps=True, prompts=PROMPTS) as plain:
        run(PROMPTS)
    options = {
        "prompt": [*PROMPTS],
        "device": "cpu",
        "num_images_per_prompt": 1,
        "do_classifier_free_guidance": True,
    }
    options |= {"prompt_2": None, "prompt_3": None}
    taken = inspect.signature(pipe.encode_prompt).parameters
    states = pipe.encode_prompt(**{name: options[name] for name in options.keys() & taken.keys()})
    call = {name: value for name, value in zip(RETURNED[kind], states, strict=True) if name}
    call |= {} if unet or "negative_prompt_embeds" not in call else {"negative_prompt": None}
    with Probe(pipe, word_maps=True, prompts=PROMPTS) as probe:
        images = run(None, **call)
    assert np.array_equal(images, run(None, **call))
    assert probe.maps.columns == plain.maps.columns
    for word, row in (("umbrella", 0), ("the park", 1), ("man", 2)):
        named, other = probe.word_map(word, row), plain.word_map(word, row)
        assert named.positions == other.positions
        np.testing.assert_allclose(named.values, other.values, rtol=1e-4)


@pytest.mark.parametrize(
    ("kind", "tokens", "message"),
    [
        ("toy", 31, "expected prompt_embeds of 32 tokens, as the tokenizer of text gives, but got 31"),
        (
            "sd3",
            80,
            "expected prompt_embeds of at least 8[0-9] tokens, as the tokenizer of text_3 gives, but got 80",
        ),
    ],
)
def test_states_of_another_number_of_tokens_are_refused(pipelines, dit, kind, tokens, message):
    unet = kind == "toy"
    pipe = pipelines(kind) if unet else dit(kind)
    text = "a man holding an umbrella in the park"
    given = [text] * (1 if unet else 3)
    states = pipe.encode_prompt(
        *given, device="cpu", num_images_per_prompt=1, do_classifier_free_guidance=True
    )
    call = dict(zip(RETURNED[kind], states, strict=True))
    call |= {name: call[name][:, :tokens] for name in _PAIR}
    with pytest.raises(HookError, match=message):  # a U-Net's words are looked up behind the block
        with Probe(pipe, word_maps=True, prompts=text) as probe:
            draw_unet(pipe, None, **call) if unet else draw(pipe, kind, None, negative_prompt=None, **call)
        probe.word_map("man")
