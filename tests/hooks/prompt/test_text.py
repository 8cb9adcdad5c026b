"""Text sites against the text encoder run by hand; negative prompts never pass for prompts."""

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cosine as scipy_cosine

from hooks import HookError, Probe
from tests.hooks.conftest import PROMPTS, draw
from tests.tiny import KINDS, tiny_components, tiny_pipeline

PAIRS = [(0, 1), (0, 2)]
SHARED = [([1, 3, 4, 5], [1, 3, 4, 5])] * 2
PARTS = {"text": ("tokenizer", "text_encoder"), "text_2": ("tokenizer_2", "text_encoder_2")}


def encode(pipe, prompts, name="text"):
    """Token ids and all hidden states of the encoder run alone: embeddings, then every layer."""
    tokenizer, encoder = (getattr(pipe, part) for part in PARTS[name])
    length = tokenizer.model_max_length
    ids = tokenizer(
        prompts, padding="max_length", max_length=length, truncation=True, return_tensors="pt"
    ).input_ids
    with torch.no_grad():
        output = encoder(ids, output_hidden_states=True)
    return ids, output.hidden_states, output.last_hidden_state


def norm_of(pipe, name="text"):
    encoder = getattr(pipe, PARTS[name][1])
    return getattr(encoder, "text_model", encoder).final_layer_norm


def cosine(a, b):
    return 1 - scipy_cosine(a.detach().double().numpy().ravel(), b.detach().double().numpy().ravel())


@pytest.mark.parametrize(("kind", "guidance_scale"), [*((kind, 4.0) for kind in KINDS), ("toy", 1.0)])
def test_layers_are_the_hidden_states_of_the_prompts(pipelines, kind, guidance_scale):
    pipe = pipelines(kind)
    with Probe(pipe, keep="text*") as probe:
        draw(pipe, guidance_scale=guidance_scale, negative_prompt=["blue car", "dog", "sun"])
    for name in PARTS if kind == "sdxl" else ("text",):
        _, states, last = encode(pipe, PROMPTS, name)
        kept = probe.kept
        torch.testing.assert_close(kept[f"{name}.embeddings"].values[0], states[0])
        for k, state in enumerate(states[1:]):
            torch.testing.assert_close(kept[f"{name}.layers.{k}"].values[0], state, rtol=1e-5, atol=1e-5)
        assert f"{name}.layers.{len(states) - 1}" not in kept
    if kind == "sdxl":
        last = torch.cat([encode(pipe, PROMPTS, name)[1][-2] for name in PARTS], dim=-1)
    torch.testing.assert_close(probe.kept["text.final"].values[0], last)


@pytest.mark.parametrize("kind", ["toy", "sdxl"])
def test_readouts_by_hand(pipelines, kind):
    pipe = pipelines(kind)
    # different lengths before the end of text, so that eos positions differ between the rows
    prompts = ["a person holding an umbrella", "a woman holding an umbrella in the park", PROMPTS[2]]
    with Probe(pipe, sites="text*", pairs=PAIRS, shared_positions=SHARED) as probe:
        draw(pipe, prompts)
    for name in PARTS if kind == "sdxl" else ("text",):
        ids, states, last = encode(pipe, prompts, name)
        eos = getattr(pipe, PARTS[name][0]).eos_token_id
        ends = [row.tolist().index(eos) for row in ids]
        assert len(set(ends)) == 2
        sites = {f"{name}.embeddings": states[0]}
        sites |= {f"{name}.layers.{k}": state for k, state in enumerate(states[1:])}
        sites = {address: norm_of(pipe, name)(state) for address, state in sites.items()}
        if kind == "toy":
            sites["text.final"] = last
        for address, state in sites.items():
            for p, (i, j) in enumerate(PAIRS):
                expected = {
                    "cosine_sequence": cosine(state[i], state[j]),
                    "cosine_eos": cosine(state[i, ends[i]], state[j, ends[j]]),
                    "cosine_words": cosine(state[i, SHARED[p][0]], state[j, SHARED[p][1]]),
                }
                for metric, value in expected.items():
                    found = probe.similarity[f"{address}:{metric}"].values[0, p]
                    assert found == pytest.approx(value, abs=2e-6), (address, metric)


def test_the_end_of_a_text_is_the_tokenizers_where_words_were_added_and_the_configuration_has_another():
    """As of Stable Diffusion 1.5, whose configuration has 2; words of one vector and of several."""
    pipe = tiny_pipeline("sd1")
    pipe.text_encoder.config.eos_token_id = 2
    for token, vectors in (("<cat-toy>", 1), ("<style>", 3)):
        pipe.load_textual_inversion(torch.randn(vectors, pipe.text_encoder.config.hidden_size), token=token)
    prompts = ["a <cat-toy> dog in a garden", "<style> umbrella"]
    with Probe(pipe, sites="text.layers.0", pairs=[(0, 1)]) as probe:
        draw(pipe, prompts)
    ids, states, _ = encode(pipe, [pipe.maybe_convert_prompt(one, pipe.tokenizer) for one in prompts], "text")
    first, second = (row.tolist().index(pipe.tokenizer.eos_token_id) for row in ids)
    state = norm_of(pipe, "text")(states[1])
    found = probe.similarity["text.layers.0:cosine_eos"].values[0, 0]
    assert first != second and found == pytest.approx(cosine(state[0, first], state[1, second]), abs=2e-6)


@pytest.mark.parametrize(("name", "dimension"), [("positions", 1), ("rows", 0)])
def test_prompts_encoded_in_parts_are_those_of_no_run(toy, name, dimension):
    """They have no words and no states of layers: nothing is said of the first part alone."""
    parts = ["a person holding an umbrella", "in a garden beside a house"]

    def draw_whole():
        made = [
            toy.encode_prompt(one, device="cpu", num_images_per_prompt=1, do_classifier_free_guidance=True)
            for one in parts
        ]
        prompts, negative = (torch.cat(rows, dimension) for rows in zip(*made))
        draw(toy, None, prompt_embeds=prompts, negative_prompt_embeds=negative)

    message = "no run of text_encoder .* put together"
    with pytest.raises(HookError, match=message), Probe(toy, sites="text.layers.0", pairs=[(0, 0)]):
        draw_whole()
    with Probe(toy, sites="latent", word_maps=True) as probe:
        draw_whole()
    with pytest.raises(HookError, match="texts are not known"):
        probe.word_map("garden")


def test_a_text_that_differs_in_one_channel_is_that_of_no_run(toy):
    with (
        pytest.raises(HookError, match="no run of text_encoder"),
        Probe(toy, sites="text.layers.0", pairs=[(0, 0)]),
    ):
        prompts, negative = toy.encode_prompt(PROMPTS[:1], "cpu", 1, True)
        prompts = prompts.clone()
        prompts[0, 3, -1] += 1
        draw(toy, None, prompt_embeds=prompts, negative_prompt_embeds=negative)


def test_embeds_from_elsewhere_have_no_layers_and_no_known_end(toy):
    embeds = {
        "prompt_embeds": encode(toy, PROMPTS)[2] * 1.1,
        "negative_prompt_embeds": encode(toy, ["dog"] * 3)[2],
    }
    with (
        pytest.raises(HookError, match=r"text\.embeddings: no run of text_encoder .*prompt_embeds"),
        Probe(toy, pairs=PAIRS),
    ):
        draw(toy, None, **embeds)
    with Probe(toy, sites=["text.final", "unet.mid"], pairs=PAIRS) as probe:
        draw(toy, None, **embeds)
    sequence = probe.similarity["text.final:cosine_sequence"].values[0]
    expected = [cosine(embeds["prompt_embeds"][i], embeds["prompt_embeds"][j]) for i, j in PAIRS]
    np.testing.assert_allclose(sequence, expected, atol=2e-6)
    assert np.isnan(probe.similarity["text.final:cosine_eos"].values).all()


def test_the_refiners_second_encoder_alone():
    from diffusers import StableDiffusionXLPipeline

    parts = tiny_components("sdxl", unet={"cross_attention_dim": 24})
    pipe = StableDiffusionXLPipeline(
        **{**parts, "text_encoder": None, "tokenizer": None}, add_watermarker=False
    )
    pipe.set_progress_bar_config(disable=True)
    with Probe(pipe, pairs=PAIRS, keep="text*") as probe:
        draw(pipe)
    torch.testing.assert_close(
        probe.kept["text_2.layers.2"].values[0], encode(pipe, PROMPTS, "text_2")[1][3], rtol=1e-5, atol=1e-5
    )
