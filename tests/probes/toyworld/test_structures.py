"""Causal structures: what sets of places do, by hooks written by hand, and what is stored of it."""

import functools
from itertools import chain, combinations

import pytest
import torch

import hooks.sites as site_table
from probes.toyworld import bundled_folder
from probes.toyworld.pipelines import coded_pipeline
from probes.toyworld.places import known_places

STEPS, STRUCTURES = 3, known_places("structures")
TEXTS = [f"a {word} in the park" for word in ("person", "woman", "man")]


@pytest.fixture(scope="module")
def pipes():
    """Pipelines by name, each made once."""

    @functools.cache
    def pipe(name):
        made = coded_pipeline(name, bundled_folder(name))
        made.set_progress_bar_config(disable=True)
        return made

    return pipe


def drawn(pipe, blocks, recipient, donor):
    """Image of the recipient's prompt with keys and values of the donor's at some blocks, by plain hooks of PyTorch."""
    handles = []

    def exchanged(module, args, output):
        return torch.cat([output[:1], output[:1]])

    for block in blocks:
        attention = pipe.unet.get_submodule(block).attn2
        handles += [layer.register_forward_hook(exchanged) for layer in (attention.to_k, attention.to_v)]
    try:
        return pipe(
            [TEXTS[donor], TEXTS[recipient]],
            generator=[torch.Generator().manual_seed(5) for _ in range(2)],
            num_inference_steps=STEPS,
            guidance_scale=1.0,
            output_type="latent",
        ).images[1]
    finally:
        for handle in handles:
            handle.remove()


def subsets(sites):
    return chain.from_iterable(combinations(sites, size) for size in range(1, len(sites) + 1))


@pytest.mark.slow
def test_sets_of_places_do_what_the_truth_says():
    name = "toyworld-redundant"
    # in float64: `LOUD` (2^14) makes some 2^-10 of float32's rounding (2^-24), more on one processor than another
    pipe, structure = (
        coded_pipeline(name, bundled_folder(name)).to(torch.float64),
        STRUCTURES[name],
    )
    pipe.set_progress_bar_config(disable=True)
    blocks = {place.site: place.block for place in structure.places}
    plain = [drawn(pipe, (), word, word) for word in range(3)]
    for donor in (1, 2):
        apart = (plain[donor] - plain[0]).abs().max()
        assert apart > 0.1
        for some in subsets(structure.sites):
            enough = any(set(one) <= set(some) for one in structure.sufficient)
            image = drawn(pipe, [blocks[site] for site in some], 0, donor)
            torch.testing.assert_close(image, plain[donor if enough else 0], rtol=0, atol=1e-3)
            lost = any(set(one) <= set(some) for one in structure.needed)
            image = drawn(pipe, [blocks[site] for site in some], donor, 0)
            if lost:
                torch.testing.assert_close(image, plain[0], rtol=0, atol=1e-3)
            else:
                assert (image - plain[0]).abs().max() > 0.5 * apart


@pytest.mark.parametrize("name", STRUCTURES)
def test_no_other_cross_attention_does_anything(name, pipes):
    pipe, structure = pipes(name), STRUCTURES[name]
    others = [
        site.module.removeprefix("unet.").removesuffix(".attn2")
        for site in site_table.attention_sites(pipe, "cross")
        if site.address not in structure.sites
    ]
    assert len(others) == 7 - len(structure.sites)
    assert torch.equal(drawn(pipe, others, 0, 1), drawn(pipe, (), 0, 0))


@pytest.mark.parametrize("name", STRUCTURES)
def test_the_certificate_agrees_with_the_truth(name):
    structure, stored = STRUCTURES[name], STRUCTURES[name].certificate()
    total = stored["total"]["mean"]
    assert stored["prompts"] == 24 and stored["seeds"] == 2
    number = {site: str(place) for place, site in enumerate(structure.sites)}
    for some in subsets(structure.sites):
        key = "+".join(number[site] for site in some)
        for estimand, sets in (("sufficiency", structure.sufficient), ("necessity", structure.needed)):
            if sets:
                share = stored[estimand][key]["mean"] / total
                whole = any(set(one) <= set(some) for one in sets)
                assert share > 0.75 if whole else abs(share) < 0.25, (estimand, key, share)
    whole = "+".join(number[site] for site in structure.sites)
    for estimand in ("sufficiency", "necessity"):
        assert stored[estimand][whole]["mean"] == pytest.approx(total, abs=0.02 * abs(total) + 0.01)
