"""A choice that no word makes: pairs of noises, swaps and ICM, and the certificate drawn again by hand."""

import numpy as np
import pytest
import torch

from lab.validate.tracing import choice_page, choice_probes
from lab.validate.tracing.choice import MODEL, certificate
from lab.validate.tracing.choice_probes import AMOUNT, ProbedImages, accuracy, directions, steered
from lab.validate.tracing.choice_swaps import (
    NoisePair,
    Swap,
    chooser,
    effects,
    noise_pairs,
    swapped,
    swaps_of,
)
from probes.models import loading
from probes.prompts.plan import noise_seed
from probes.runs.image_faults import eight_bits
from probes.toyworld.checker import read_images
from probes.toyworld.structures.truth import choices
from probes.toyworld.verdict import verdict
from probes.toyworld.world import load_world

STRUCTURE = choices()[MODEL]
PLACE, SHOWN = STRUCTURE.sites


@pytest.fixture(scope="module")
def pipe():
    found = loading.load(loading.resolve(MODEL), device="cpu").pipe
    found.set_progress_bar_config(disable=True)
    return found


def by_hand(pipe, stored, steps, hook=None):
    """Verdicts of both noises of a pair, twice, with a plain hook of PyTorch on the values where the choice is made."""
    attention = pipe.unet.get_submodule(STRUCTURE.places[0].block).attn1
    handle = attention.to_v.register_forward_hook(hook or (lambda module, args, output: None))
    images = pipe(
        [stored["text"]] * 4,
        generator=[
            torch.Generator().manual_seed(noise_seed(stored["text"], seed))
            for seed in [*stored["seeds"].values()] * 2
        ],
        num_inference_steps=steps,
        guidance_scale=1.0,
        output_type="np",
    ).images
    handle.remove()
    pixels = np.stack([eight_bits(image) for image in images])
    return verdict(read_images(pixels), [stored["text"]] * 4, load_world())


@pytest.mark.parametrize("number", [0, 21, 47])
def test_the_certificate_is_what_hooks_written_by_hand_draw(pipe, number):
    stored = STRUCTURE.certificate()
    pair, rows = stored["noises"][number], slice(4 * 24, 5 * 24)  # of the fifth head

    def exchanged(module, args, output):
        output = output.clone()
        output[2:, ..., rows] = output[:2].flip(0)[..., rows]  # the first two are donors, and as they were
        return output

    found = by_hand(pipe, pair, stored["steps"], exchanged)
    np.testing.assert_allclose(found[:2], list(pair["verdicts"].values()), atol=1e-3)
    np.testing.assert_allclose(found[2:], list(pair["choosing head"].values()), atol=1e-3)


def test_the_certificates_means_are_those_of_its_noises():
    stored = STRUCTURE.certificate()
    plain, moved = (
        np.array([[one[name]["feminine"], one[name]["masculine"]] for one in stored["noises"]])
        for name in ("verdicts", "choosing head")
    )
    total = (plain[:, 1] - plain[:, 0]).reshape(24, 2).mean(1)
    head = ((moved[:, 0] - plain[:, 0] + plain[:, 1] - moved[:, 1]) / 2).reshape(24, 2).mean(1)
    for found, values in ((stored["total"], total), (stored["swaps"]["choosing head"][PLACE], head)):
        assert found["mean"] == pytest.approx(values.mean(), abs=1e-3)
        assert found["se"] == pytest.approx(values.std(ddof=1) / 24**0.5, abs=1e-3)


def test_noises_of_a_pair_choose_differently_at_every_step(pipe):
    pairs = noise_pairs(pipe, chooser(pipe, STRUCTURE), prompts=1, pairs=1, steps=3)
    (pair,), seen = pairs, []
    handle = pipe.unet.get_submodule(STRUCTURE.places[0].block).attn1.register_forward_hook(
        lambda module, args, output: seen.append(output[:, 0, -1])
    )
    by_hand(pipe, {"text": pair.text, "seeds": dict(enumerate(pair.seeds))}, 3)
    handle.remove()
    assert (torch.stack(seen) < 0).tolist() == [[True, False] * 2] * 3
    assert " person " in f" {pair.text} "


def test_swaps_are_both_ways_and_of_every_attention(pipe):
    swaps = swaps_of(pipe, STRUCTURE)
    assert len(swaps) == 3 + 4 * 7 + 7
    assert swaps[0] == Swap("choosing head", (PLACE,), ("value",), (4,))
    assert len(swaps[2].sites) == 6 and SHOWN not in swaps[2].sites
    stored = STRUCTURE.certificate()["noises"][0]
    pair = NoisePair(0, stored["text"], tuple(stored["seeds"].values()))
    values, same = swapped(pipe, load_world(), [pair], swaps[:3], STRUCTURE.certificate()["steps"])
    assert same.tolist() == [False, False, True]
    assert values.shape == (1, 4, 2)
    np.testing.assert_allclose(values[0, 0], list(stored["verdicts"].values()), atol=1e-3)
    np.testing.assert_allclose(values[0, 1], list(stored["choosing head"].values()), atol=1e-3)
    assert (values[0, 3] == values[0, 0]).all()


def test_effects_are_means_over_both_ways_and_a_prompts_pairs():
    verdicts = np.array([[[-4.0, 6], [2, 0]], [[-2, 2], [-2, 2]]])  # two pairs of one prompt, one swap
    total, moved = effects(verdicts, 2)
    assert total.tolist() == [(10 + 4) / 2]
    assert moved.tolist() == [[(6 + 0) / 2]]
    found = certificate(
        [NoisePair(0, "a person", (0, 1)), NoisePair(0, "a person", (2, 3))],
        [Swap("values", ("unet.mid.attn.0.self",), ("value",))],
        verdicts,
        np.array([False]),
        5,
    )
    assert found["total"]["mean"] == 7
    assert found["swaps"]["values"]["unet.mid.attn.0.self"]["mean"] == 3
    assert found["noises"][1]["seeds"] == {"feminine": 2, "masculine": 3}


def probed(rng, images=60):
    """Outputs of two sites at two steps; the first site's second channel tells the label at the second step."""
    label = np.arange(images) % 2 == 0
    told, other = rng.normal(size=(2, images, 2, 3))
    told[:, 1, 1] += 8 * label
    return ProbedImages({"told": told, "other": other}, label, np.arange(images) // 6)


def test_probes_are_scored_on_prompts_that_were_held_out():
    found = accuracy(probed(np.random.default_rng(0)))
    assert found.shape == (2, 2) and found[0, 1] > 0.97
    assert np.abs(found - 0.5)[[0, 1, 1], [0, 0, 1]].max() < 0.25


def test_steering_is_along_the_probe_as_far_as_outputs_are_long():
    images = probed(np.random.default_rng(0))
    added, values = directions(images, "told")[1], images.outputs["told"][:, 1]
    assert added[1] / np.linalg.norm(added) > 0.95  # masculine is the label's side
    assert np.linalg.norm(added) == pytest.approx(AMOUNT * np.sqrt((values**2).sum(1)).mean())


def test_steering_is_what_a_hook_written_by_hand_adds(pipe, monkeypatch):
    monkeypatch.setattr(choice_probes, "TOGETHER", 4)
    rng, steps = np.random.default_rng(1), 2
    label = np.arange(20) % 2 == 0
    outputs = rng.normal(size=(20, steps, 97))
    outputs[:, :, 96] += 3 * label[:, None]
    found = ProbedImages({PLACE: outputs}, label, np.arange(20) // 4)
    stored = STRUCTURE.certificate()["noises"][0]
    seeds = [noise_seed(stored["text"], seed) for seed in stored["seeds"].values()]
    values = steered(pipe, load_world(), found, [stored["text"]] * 2, seeds, steps)
    added, read = directions(found, PLACE), []
    for sign in (-1, 1):
        calls = iter(added)
        handle = pipe.unet.get_submodule(STRUCTURE.places[0].block).attn1.register_forward_hook(
            lambda module, args, output, sign=sign, calls=calls: (
                output + sign * torch.from_numpy(next(calls)).float()
            )
        )
        read.append(by_hand(pipe, stored, steps)[:2])
        handle.remove()
    np.testing.assert_allclose(values[:, 0], read[1] - read[0], atol=1e-3)


def test_the_section_ranks_the_true_place():
    sites = [f"unet.{name}.self" for name in ("down.0.attn.0", "mid.attn.0", "up.1.attn.0")]
    assert sites[1] == PLACE
    rng, total = np.random.default_rng(0), np.full(6, 10.0)
    right, wrong = (
        {site: rng.normal(mean, 0.1, 6).tolist() for site, mean in zip(sites, means, strict=True)}
        for means in ((1, 5, 2), (6, 5, 2))
    )
    swaps = {
        "choosing head": {PLACE: [8.0] * 6},
        "showing place": {SHOWN: [8.0] * 6},
        "other cross-attentions": {"all": [0.0] * 6},
    }
    swaps |= {
        "values": right,
        "keys and values": wrong,
        "outputs": right | {SHOWN: [8.0] * 6},
        "outputs, first step": wrong,
    }
    stored = {
        "prompts": 6,
        "pairs": 2,
        "steps": 5,
        "null": [1.0] * 6,
        "total": total.tolist(),
        "swaps": swaps,
    }
    probes = {
        "images": 8,
        "masculine": 0.5,
        "accuracy": dict(zip(sites, [[0.5, 0.9], [0.8, 0.8], [0.4, 0.6]], strict=True)),
        "steering": right,
    }
    found = choice_page.section({"swaps": stored, "probes": probes})
    assert [row["rank"] for row in found["rows"]] == [1, 2, 1, 2, 2, 1, 1]
    assert [row["first"] for row in found["rows"]] == [1, 0, 1, 0, None, None, 1]
    assert found["head"].share[0] == pytest.approx(0.8) and found["others"] == 0
    assert choice_page.section({}) is None
