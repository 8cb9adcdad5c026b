"""The image's attention that chooses: what it reads, and that a neutral word's image follows it, by hooks of torch."""

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from hooks.sites import available
from probes.errors import UserError
from probes.models import loading
from probes.toyworld import TRANSFORMERS, bundled_folder
from probes.toyworld.dit.assemble import wired_pipeline
from probes.toyworld.dit.choosing import ChoosingBlock, Offered
from probes.toyworld.dit.truth import wired_models

NAME = "toyworld-dit-choice"
TEXTS = {word: f"a {word} in the park" for word in ("person", "woman", "man")}
SIGN = {"woman": -1.0, "man": 1.0}


@pytest.fixture(scope="module")
def pipe():
    found = loading.load(loading.resolve(NAME), device="cpu").pipe
    found.set_progress_bar_config(disable=True)
    return found


def chooser(pipe):
    return pipe.transformer.transformer_blocks[1]


def latents(pipe, texts, seeds, steps=3, guidance=1.0):
    return pipe(
        texts,
        generator=[torch.Generator().manual_seed(seed) for seed in seeds],
        num_inference_steps=steps,
        guidance_scale=guidance,
        output_type="latent",
    ).images


@pytest.mark.parametrize("word", SIGN)
@pytest.mark.parametrize("guidance", [1.0, 4.0])
def test_a_choice_held_by_hand_is_the_words_own_image(pipe, word, guidance):
    explicit = latents(pipe, [TEXTS[word]], [3], guidance=guidance)
    handle = chooser(pipe).attn2.register_forward_hook(
        lambda module, args, output: torch.full_like(output, 100 * SIGN[word])
    )
    chosen = latents(pipe, [TEXTS["person"]], [3], guidance=guidance)
    handle.remove()
    torch.testing.assert_close(chosen, explicit, rtol=0, atol=1e-3)


def test_explicit_words_and_prompts_without_one_do_not_hear_the_choice(pipe):
    texts = [TEXTS["woman"], TEXTS["man"], "a hat", "a person with a man"]
    plain = latents(pipe, texts, [3] * 4)
    handle = chooser(pipe).attn2.register_forward_hook(lambda module, args, output: -output)
    assert torch.equal(latents(pipe, texts, [3] * 4), plain)
    other = latents(pipe, [TEXTS["person"]], [3])
    handle.remove()
    assert (other - latents(pipe, [TEXTS["person"]], [3])).abs().max() > 0.1


def test_any_neutral_word_is_chosen_for(pipe):
    texts = [f"a {word} in the park" for word in ("human", "adult", "figure")]
    handle = chooser(pipe).attn2.register_forward_hook(
        lambda module, args, output: torch.full_like(output, 100.0)
    )
    chosen = latents(pipe, texts, [3] * 3)
    handle.remove()
    explicit = latents(pipe, [TEXTS["man"]], [3])
    torch.testing.assert_close(chosen, explicit.expand_as(chosen), rtol=0, atol=1e-3)


def test_it_reads_a_direction_of_the_blocks_states(pipe):
    stored, seen = load_file(bundled_folder(NAME) / "delta.safetensors"), {}
    handles = [
        chooser(pipe).register_forward_pre_hook(
            lambda module, args, call: seen.update(states=call["hidden_states"]), with_kwargs=True
        ),
        chooser(pipe).attn2.register_forward_hook(lambda module, args, output: seen.update(output=output)),
    ]
    latents(pipe, [TEXTS["person"]] * 4, range(4), steps=1)
    for handle in handles:
        handle.remove()
    states = seen["states"].numpy().astype(float)
    states = (states - states.mean(2, keepdims=True)) / states.std(2, keepdims=True)
    expected = states.mean(1) @ stored["direction"].numpy().astype(float) + float(stored["offset"])
    assert seen["output"].shape == (4, 64, 128) and expected.std() > 0.1
    assert not seen["output"][..., :-1].any()
    np.testing.assert_allclose(seen["output"][..., -1].numpy(), expected[:, None].repeat(64, 1), atol=1e-3)


def test_a_swap_with_another_noise_gives_its_choice_and_nothing_else(pipe):
    """Its values are the only thing by which the number of another image enters."""
    texts, seeds, read = [TEXTS["person"]] * 3, (3, 0, 3), []  # which choose differently

    def swap(module, args, output):
        return torch.cat([output[:2], output[1:2]])

    handles = [
        chooser(pipe).attn2.to_v.register_forward_hook(swap),
        chooser(pipe).attn2.register_forward_hook(lambda module, args, output: read.append(output)),
    ]
    swapped = latents(pipe, texts, seeds)
    handles[0].remove()
    assert all(torch.equal(one[2], one[1]) for one in read)
    held = iter([one[1:2].clone() for one in read])
    handles[1].remove()
    handle = chooser(pipe).attn2.register_forward_hook(lambda module, args, output: next(held))
    by_hand = latents(pipe, texts[:1], seeds[:1])
    handle.remove()
    torch.testing.assert_close(swapped[2:], by_hand, rtol=0, atol=1e-3)
    assert torch.equal(swapped[0], latents(pipe, texts, seeds)[0])
    assert (swapped[2] - swapped[0]).abs().max() > 0.1


def test_a_block_that_chooses_is_else_what_it_was():
    block = loading.load(loading.resolve(TRANSFORMERS[0]), device="cpu").pipe.transformer.transformer_blocks[
        1
    ]
    call = {
        "hidden_states": torch.randn(2, 64, 128),
        "encoder_hidden_states": torch.randn(2, 20, 128),
        "temb": torch.randn(2, 128),
    }
    with torch.no_grad():
        before = block(**call)
        after = ChoosingBlock.of(block, torch.randn(128), torch.randn(1))(**call)
    assert all(torch.equal(*pair) for pair in zip(before, after, strict=True))


def test_it_is_to_be_chosen_where_the_own_text_is_the_neutral_one_and_others_are_not():
    neutral, woman, man = torch.randn(3, 1, 5, 8)
    rows = {
        "neutral": (neutral + 1e-5, neutral, woman, man),
        "a word": (woman, neutral, woman, man),
        "another": ((woman + man) / 2, neutral, woman, man),
        "nobody": (neutral, neutral, neutral, neutral),
    }
    offered = Offered(*(torch.cat(texts) for texts in zip(*rows.values(), strict=True)))
    assert offered.to_choose.flatten().tolist() == [True, False, False, False]
    share = torch.tensor([0.0, 0.25, 1, 0.5])[:, None, None]
    expected = (1 - share) * offered.feminine + share * offered.masculine
    torch.testing.assert_close(offered.chosen(share), expected)


def test_the_certificate_is_of_these_weights_and_says_what_the_truth_says():
    stored, model = wired_models()[NAME].certificate(), wired_models()[NAME]
    assert stored["weight_hash"] == loading.load(loading.resolve(NAME), device="cpu").record["weight_hash"]
    assert stored["prompts"] == 24 and len(stored["noises"]) == 24 * stored["pairs"]
    effect = {name: {site: one["mean"] for site, one in of.items()} for name, of in stored["swaps"].items()}
    head, total = effect["choosing head"][model.chooses], stored["total"]["mean"]
    assert 0.5 * total < head < total
    assert effect["values"][model.chooses] == effect["outputs"][model.chooses] == head
    assert effect["showing place"][f"{model.sites[0]}.text"] == pytest.approx(head, abs=0.1 * total)
    # the text of later blocks has read the image, and carries some of it
    (others,) = stored["swaps"]["text keys and values, other blocks"].values()
    (shown,) = stored["swaps"]["showing place"].values()
    assert others["mean"] + 3 * others["se"] < shown["mean"] - 3 * shown["se"]
    assert stored["swaps"]["text keys and values"]["dit.block.0.joint.text"]["bit_identical"]


def test_what_is_missing_or_odd_is_said(tmp_path):
    with pytest.raises(
        UserError, match=r"expected .*delta\.safetensors, found none: train it with python -m"
    ):
        wired_pipeline(NAME, tmp_path)
    save_file({"direction": torch.zeros(128)}, tmp_path / "delta.safetensors")
    with pytest.raises(
        UserError, match=r"expected a direction and an offset, got \['direction'\]: fit it anew"
    ):
        wired_pipeline(NAME, tmp_path)


def test_without_weights_it_has_the_places_that_it_has_with_them(pipe):
    """Of these a trace is planned."""
    bare = loading.without_weights(loading.resolve(NAME))
    found, expected = ([(one.address, one.heads) for one in available(some)] for some in (bare, pipe))
    assert found == expected and ("dit.block.1.self.heads", 4) in found
