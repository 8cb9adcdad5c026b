"""Rows of one batch against a call of their own: each variant by `hooks.Intervention` alone, shared rows or not."""

import diffusers
import numpy as np
import pytest
import torch

from hooks import Intervention, Patch, position_groups, sites
from probes.config.schema import Trace
from probes.stages.trace.patched_generation import allows_new_rows, generate_variants
from probes.stages.trace.seeded_triplet import SeededTriplet
from probes.stages.trace.variants import PatchSites, Variant, plan
from tests.tiny import tiny_pipeline

WORD = {"neutral": "person", "feminine": "woman", "masculine": "man"}
TEXT = {name: f"a {word} holding an umbrella" for name, word in WORD.items()}
CALL = {"steps": 3, "guidance_scale": 4.0}
SCHEDULERS = {
    "DDIMScheduler": {},
    "DPMSolverMultistepScheduler": {},
    "EulerDiscreteScheduler": {},
    "HeunDiscreteScheduler": {},
    "LMSDiscreteScheduler": {},
    "PNDMScheduler": {"skip_prk_steps": True},
    "UniPCMultistepScheduler": {},
}
QUICK = ("PNDMScheduler", "UniPCMultistepScheduler")  # what they remember is lists and tensors


@pytest.fixture(scope="module")
def pipe():
    return tiny_pipeline("toy")


@pytest.fixture(scope="module")
def pipes():
    """Smaller, for schedulers."""
    return tiny_pipeline("sd1")


@pytest.fixture(scope="module")
def triplet(pipe):
    return SeededTriplet.from_prompts(pipe, TEXT, WORD)


def cross(pipe):
    return tuple(site.address for site in sites.attention_sites(pipe, "cross"))


def variants(pipe, calls=3, **trace):
    places = PatchSites(cross(pipe), cross(pipe)[:1], {}, ("text.layers.3",), calls)
    return plan(places, Trace(**trace), "neutral", ("feminine", "masculine"))


def from_steps(pipe, steps, calls=3):
    """All attentions to the text are given the donor's from each of some steps on."""
    sites, text = cross(pipe), {"part": "key+value", "stop_step": calls}
    return [
        Variant(f"from {step}", "window", "neutral", "feminine", sites=sites, first_step=step, **text)
        for step in steps
    ]


def by_name(generated):
    return {one.variant.name: one for one in generated}


def test_a_row_is_what_a_call_of_its_own_draws(pipe, triplet):
    """Rows that share a batch and patches that are joined, against one donor, one recipient and one patch a call."""
    site = cross(pipe)[0]
    groups = position_groups(pipe.tokenizer, TEXT["neutral"], "person")
    cases = {
        "keys": Variant("keys", "site", "neutral", "feminine", sites=(site,), part="key+value", stop_step=3),
        "window": Variant(
            "window",
            "window",
            "neutral",
            "masculine",
            sites=(site,),
            part="heads",
            heads=(1,),
            first_step=1,
            stop_step=2,
        ),
        "output": Variant("output", "site", "feminine", "neutral", sites=("unet.mid",), stop_step=3),
        "local": Variant(
            "local",
            "site",
            "neutral",
            "feminine",
            sites=("unet.mid",),
            source="local",
            first_step=1,
            stop_step=3,
        ),
        "local too": Variant(
            "local too",
            "site",
            "masculine",
            "neutral",
            sites=(site,),
            part="heads",
            source="local",
            stop_step=3,
        ),
        "word": Variant(
            "word",
            "position",
            "neutral",
            "feminine",
            sites=("text.layers.1",),
            part="text",
            positions="word+end",
        ),
    }
    found = by_name(generate_variants(pipe, [triplet], list(cases.values()), **CALL))
    for name, one in cases.items():
        steps = None if one.part == "text" else range(one.first_step, one.stop_step)
        positions = groups["word"] + groups["end"] if one.positions else None
        part = "output" if one.part == "text" else one.part.split("+")
        patches = [
            Patch(
                at,
                part=part,
                source=1,
                into=2,
                donor=one.source,
                heads=one.heads,
                steps=steps,
                positions=positions,
            )
            for at in one.sites
        ]
        with Intervention(pipe, patches) as intervention:
            images = pipe(
                [TEXT[one.recipient], TEXT[one.donor], TEXT[one.recipient]],
                generator=[torch.Generator().manual_seed(triplet.noise_seed) for _ in range(3)],
                num_inference_steps=3,
                guidance_scale=4.0,
                output_type="np",
            ).images
        np.testing.assert_allclose(found[name].image, images[2], atol=1e-5, err_msg=name)
        assert np.abs(images[2] - images[0]).max() > 1e-4, name
        assert found[name].writes == sum(each.writes for each in intervention.written)
        change = max(each.largest_change for each in intervention.written)
        assert found[name].largest_change == pytest.approx(change, rel=1e-4)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in SCHEDULERS]
)
def test_rows_that_begin_later_are_what_they_would_have_been(name, pipes, triplet, monkeypatch):
    """With what a multistep scheduler remembers; but for the order of sums, which may hang on the batch's size."""
    pipe = pipes
    monkeypatch.setattr(
        pipe, "scheduler", getattr(diffusers, name).from_config(pipe.scheduler.config, **SCHEDULERS[name])
    )
    pipe.scheduler.set_timesteps(4)
    calls = len(pipe.scheduler.timesteps)
    assert allows_new_rows(pipe.scheduler)
    sizes, real = [], pipe.unet.forward
    monkeypatch.setattr(
        pipe.unet, "forward", lambda sample, *a, **k: sizes.append(len(sample) // 2) or real(sample, *a, **k)
    )
    chosen = from_steps(pipe, [1, 2, 3], calls)
    call = CALL | {"steps": 4}
    generated = [
        generate_variants(pipe, [triplet], chosen, **call, shared=shared) for shared in (True, False)
    ]
    assert sizes == [2, 3, 4, *[5] * (calls - 3), *[5] * calls]
    for one, other in zip(*generated, strict=True):
        np.testing.assert_allclose(one.image, other.image, rtol=0, atol=1e-4)
        assert (one.variant, one.writes, one.fault) == (other.variant, other.writes, other.fault)
    assert all(np.abs(one.image - generated[0][0].image).max() > 1e-3 for one in generated[0][1:])


def test_several_triplets_in_one_batch_each_with_its_noise(pipe, triplet):
    words = {"neutral": "human", "feminine": "lady", "masculine": "gentleman"}
    texts = {name: f"a {word} in a park" for name, word in words.items()}
    other = SeededTriplet.from_prompts(pipe, texts, words, number=1, seed=3)
    chosen = [*(one for one in variants(pipe) if one.kind == "none"), *from_steps(pipe, [1])]
    together = generate_variants(pipe, [triplet, other], chosen, **CALL)
    apart = [one for each in (triplet, other) for one in generate_variants(pipe, [each], chosen, **CALL)]
    assert [(one.triplet.number, one.variant) for one in together] == [
        (one.triplet.number, one.variant) for one in apart
    ]
    for one, same in zip(together, apart, strict=True):
        np.testing.assert_allclose(one.image, same.image, rtol=0, atol=1e-5)
