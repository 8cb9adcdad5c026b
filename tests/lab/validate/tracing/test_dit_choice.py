"""Swaps between noises in the transformer that chooses, and its certificate drawn again by hand."""

import numpy as np
import pytest
import torch

from lab.validate.tracing.choice_swaps import NoisePair, Swap, noise_pairs, swapped
from lab.validate.tracing.dit_choice import MODEL, swaps_of
from probes.models import loading
from probes.prompts.plan import noise_seed
from probes.runs.image_faults import eight_bits
from probes.toyworld.checker import read_images
from probes.toyworld.dit.truth import wired_models
from probes.toyworld.verdict import verdict
from probes.toyworld.world import load_world

TRUTH = wired_models()[MODEL]


@pytest.fixture(scope="module")
def pipe():
    found = loading.load(loading.resolve(MODEL), device="cpu").pipe
    found.set_progress_bar_config(disable=True)
    return found


@pytest.fixture(scope="module")
def stored():
    return TRUTH.certificate()


def chooser(pipe):
    return pipe.transformer.transformer_blocks[1].attn2


@pytest.mark.parametrize("number", [0, 13, 23])
def test_the_certificate_is_what_hooks_written_by_hand_draw(pipe, stored, number):
    pair = stored["noises"][number]

    def exchanged(module, args, output):
        output = output.clone()
        output[2:, :, 96:] = output[:2].flip(0)[:, :, 96:]  # the last of four heads; donors are as they were
        return output

    handle = chooser(pipe).to_v.register_forward_hook(exchanged)
    images = pipe(
        [pair["text"]] * 4,
        generator=[
            torch.Generator().manual_seed(noise_seed(pair["text"], seed))
            for seed in [*pair["seeds"].values()] * 2
        ],
        num_inference_steps=stored["steps"],
        guidance_scale=1.0,
        output_type="np",
    ).images
    handle.remove()
    pixels = np.stack([eight_bits(image) for image in images])
    found = verdict(read_images(pixels), [pair["text"]] * 4, load_world())
    np.testing.assert_allclose(found[:2], list(pair["verdicts"].values()), atol=1e-3)
    np.testing.assert_allclose(found[2:], list(pair["choosing head"].values()), atol=1e-3)


def test_the_certificates_means_are_those_of_its_noises(stored):
    plain, moved = (
        np.array([[one[name]["feminine"], one[name]["masculine"]] for one in stored["noises"]])
        for name in ("verdicts", "choosing head")
    )
    total = (plain[:, 1] - plain[:, 0]).reshape(24, -1).mean(1)
    head = ((moved[:, 0] - plain[:, 0] + plain[:, 1] - moved[:, 1]) / 2).reshape(24, -1).mean(1)
    for found, values in ((stored["total"], total), (stored["swaps"]["choosing head"][TRUTH.chooses], head)):
        assert found["mean"] == pytest.approx(values.mean(), abs=1e-3)
        assert found["se"] == pytest.approx(values.std(ddof=1) / 24**0.5, abs=1e-3)


def test_swaps_are_both_ways_and_of_every_attention(pipe, stored):
    swaps = swaps_of(pipe, TRUTH)
    assert len(swaps) == 3 + 3 * 6 + 5
    assert swaps[0] == Swap("choosing head", ("dit.block.1.self",), ("value",), (3,))
    assert swaps[1].sites == ("dit.block.1.joint.text",) and len(swaps[2].sites) == 4
    pair = stored["noises"][0]
    noises = NoisePair(0, pair["text"], tuple(pair["seeds"].values()))
    values, same = swapped(pipe, load_world(), [noises], [swaps[0], swaps[-5]], stored["steps"])
    assert same.tolist() == [False, True]  # the text of the first block is the same, whatever the noise
    np.testing.assert_allclose(values[0, 0], list(pair["verdicts"].values()), atol=1e-3)
    np.testing.assert_allclose(values[0, 1], list(pair["choosing head"].values()), atol=1e-3)


def test_noises_of_a_pair_choose_differently_at_every_step(pipe):
    (pair,), seen = noise_pairs(pipe, chooser(pipe), prompts=1, pairs=1, steps=2), []
    handle = chooser(pipe).register_forward_hook(lambda module, args, output: seen.append(output[:, 0, -1]))
    pipe(
        [pair.text] * 2,
        generator=[torch.Generator().manual_seed(seed) for seed in pair.noise_seeds],
        num_inference_steps=2,
        guidance_scale=1.0,
        output_type="latent",
    )
    handle.remove()
    assert (torch.stack(seen) < 0).tolist() == [[True, False]] * 2
