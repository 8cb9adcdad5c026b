"""Gated steering against hooks written by hand: what is written, who is steered, who is left alone, and undone."""

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from scipy import stats

from hooks.sites import attention_sites, module_at
from probes.models import edits, loading
from probes.models.edits import Edit
from probes.models.edits.steering import SEEDS, STEPS, Steering, _told, measured
from probes.models.weights import weight_hash
from tests.tiny import tiny_pipeline

CONTEXTS = ["a {person} with a dog", "photo of a {person}"]
WHOLLY = Edit(kind="steer", words={"person": {"woman": 1.0}}, keep=["man"], contexts=CONTEXTS)
CALLS = 3


@pytest.fixture(scope="module")
def toyworld():
    pipe = loading.load(loading.resolve("toyworld"), device="cpu").pipe
    pipe.set_progress_bar_config(disable=True)
    return pipe


def latents(pipe, prompts, seeds, scale=1.0, steps=CALLS):
    noise = [torch.Generator("cpu").manual_seed(seed) for seed in seeds]
    found = pipe(
        prompts, generator=noise, num_inference_steps=steps, guidance_scale=scale, output_type="latent"
    )
    return found.images.double().numpy()


def by_hand(pipe, site, prompts, steps=STEPS):
    """Outputs of a cross-attention's module at every call, mean over pixels: (rows, calls, channels)."""
    kept = []
    handle = module_at(pipe, site.module).register_forward_hook(
        lambda module, args, output: kept.append(output.double().mean(1).numpy())
    )
    latents(pipe, prompts, [n % (len(CONTEXTS) * SEEDS) for n in range(len(prompts))], steps=steps)
    handle.remove()
    return np.stack(kept, 1)


def test_what_is_written_is_the_formula(toyworld):
    pipe, (site, *_) = toyworld, attention_sites(toyworld, "cross")[1:2]
    edit = WHOLLY.model_copy(update={"sites": [site.address], "amount": 0.7})
    means = {
        word: by_hand(pipe, site, [c.replace("{person}", word) for c in CONTEXTS for _ in range(SEEDS)]).mean(
            0
        )
        for word in ("person", "woman", "man")
    }
    times = [float(t) for t in pipe.scheduler.timesteps]
    prompt = "a person with a dog"
    pipe.scheduler.set_timesteps(CALLS)
    calls = [int(np.abs(np.array(times) - float(t)).argmin()) for t in pipe.scheduler.timesteps]
    number = iter(calls)

    def steer(module, args, output):
        call = next(number)
        apart = np.stack([means[word][call] - means["person"][call] for word in ("woman", "man")])
        basis = np.linalg.qr(apart.T)[0]
        beyond = output.double().numpy() - means["woman"][call]
        written = output.double().numpy() - 0.7 * beyond @ basis @ basis.T
        return torch.from_numpy(written).to(output)

    plain = latents(pipe, [prompt], [3])
    handle = module_at(pipe, site.module).register_forward_hook(steer)
    wanted = latents(pipe, [prompt], [3])
    handle.remove()
    with edits.apply(pipe, edit) as edited:
        found = latents(pipe, [prompt], [3])
    assert np.abs(wanted - plain).max() > 0.01
    np.testing.assert_allclose(found, wanted, atol=2e-4)
    assert edited.record["sites"] == [site.address] and edited.record["gate"] == site.address
    assert np.array_equal(latents(pipe, [prompt], [3]), plain)  # undone bit for bit


@pytest.mark.slow
def test_kept_words_are_left_alone_and_a_row_is_steered_alike_in_any_batch(toyworld):
    pipe = toyworld
    prompts, seeds = ["a person", "a woman", "a man", "a person"], [5, 6, 7, 8]
    plain = latents(pipe, prompts, seeds)
    before = weight_hash(pipe)
    with edits.apply(
        pipe, Edit(kind="steer", words={"person": {"woman": 1.0}}, keep=["woman", "man"])
    ) as edited:
        found = latents(pipe, prompts, seeds)
        alone = latents(pipe, prompts[3:], seeds[3:])
        guided = latents(pipe, prompts, seeds, scale=2.0)
        assert edited.hash(before) != before == weight_hash(pipe)
    assert [np.array_equal(*pair) for pair in zip(found, plain)] == [False, True, True, False]
    np.testing.assert_allclose(found[3], alone[0], atol=1e-4)
    other = latents(pipe, prompts, seeds, scale=2.0)  # the rows without a text are left alone, too
    assert [np.array_equal(*pair) for pair in zip(guided, other)] == [False, True, True, False]
    assert edited.record["gate"] in edited.record["sites"] and edited.record["gate_told"] > 0.8


def test_as_many_images_are_steered_as_the_shares_say(toyworld):
    edit = Edit(kind="steer", words={"person": {"woman": 0.3, "man": 0.2}}, contexts=CONTEXTS)
    sites = attention_sites(toyworld, "cross")[:1]
    steering = Steering(toyworld, edit, sites, measured(toyworld, edit, sites))
    noise = torch.randn(2000, 4, 8, 8, generator=torch.Generator().manual_seed(0))
    drawn = np.array([steering._draw(row) for row in noise])
    for word, share in ((0, 0.3), (1, 0.2), (-1, 0.5)):
        assert stats.binomtest(int((drawn == word).sum()), 2000, share).pvalue > 1e-3
    assert steering._draw(noise[5]) == drawn[5]
    # what is drawn is not to be read off the noise's mean
    assert abs(stats.spearmanr(drawn == 0, noise.mean((1, 2, 3)).numpy()).statistic) < 0.08


@pytest.mark.parametrize("kind", ["sd1", "sd2", "sdxl"])
def test_every_layout_is_steered_and_undone(kind):
    pipe = tiny_pipeline(kind)
    pipe.set_progress_bar_config(disable=True)
    plain = latents(pipe, ["a person"], [1])
    before = {name: value.clone() for name, value in pipe.unet.state_dict().items()}
    with edits.apply(pipe, WHOLLY) as edited:
        latents(pipe, ["a person"], [1])
    assert (
        len(edited.record["sites"]) == len(attention_sites(pipe, "cross"))
        and 0 <= edited.record["gate_told"] <= 1
    )
    assert np.array_equal(latents(pipe, ["a person"], [1]), plain)
    assert all(torch.equal(value, before[name]) for name, value in pipe.unet.state_dict().items())


def test_the_gate_is_where_the_nearest_mean_tells_the_word():
    rng = np.random.default_rng(0)
    apart = torch.from_numpy(np.eye(3)[:, None] * 4 + 0.1 * rng.normal(size=(3, 6, 3)))
    alike = torch.from_numpy(rng.normal(size=(3, 6, 3)))
    assert _told(apart)[0] == 1 > _told(alike)[0] and _told(apart)[1] > 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"words": {"person": {"woman": 0.7, "man": 0.6}}}, "expected shares of images"),
        ({"words": {"person": {"woman": -0.1}}}, "expected shares of images"),
        ({"words": {"person": {"woman": 0.1}, "human": {"man": 0.1}}}, "expected one word with kind steer"),
        ({"words": {"person": {"woman": 0.1}}, "ridge": 0.5}, "expected nothing with kind steer"),
        ({}, "expected words to edit"),
    ],
)
def test_what_steering_does_not_take_is_refused(options, said):
    with pytest.raises(ValidationError, match=said):
        Edit(kind="steer", **options)
