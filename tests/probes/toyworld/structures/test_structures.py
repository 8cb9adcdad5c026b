"""Causal structures: what sets of places do, by hooks written by hand, and what is stored of it."""

from itertools import chain, combinations

import pytest
import torch

import hooks.sites as site_table
from probes.models import loading
from probes.toyworld import CHOICES, STRUCTURES
from probes.toyworld.located.assemble import coded_parts
from probes.toyworld.located.coded import CODES
from probes.toyworld.structures.assemble import structure_pipeline
from probes.toyworld.structures.truth import StructurePlace, all_structures, choices, structures
from probes.toyworld.structures.wiring import RULES, TellingBlock, shares_of, wire_places, with_code

BOOLEAN = ("toyworld-redundant", "toyworld-backup", "toyworld-both", "toyworld-chain")
STEPS = 3
TEXTS = [f"a {word} in the park" for word in ("person", "woman", "man")]


@pytest.fixture(scope="module")
def pipes():
    """Pipelines by name, each made once."""
    made = {}

    def pipe(name):
        if name not in made:
            made[name] = structure_pipeline(name)
            made[name].set_progress_bar_config(disable=True)
        return made[name]

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


def test_the_names_are_those_that_can_be_loaded():
    assert tuple(structures()) == STRUCTURES and tuple(choices()) == CHOICES
    assert {place.rule for one in all_structures().values() for place in one.places} == {None, *RULES}


@pytest.mark.parametrize("name", STRUCTURES)
def test_its_places_are_cross_attentions_in_the_order_in_which_they_run(name, pipes):
    pipe, structure = pipes(name), structures()[name]
    modules = {site.address: site.module for site in site_table.attention_sites(pipe, "cross")}
    there = list(modules)
    assert [there.index(site) for site in structure.sites] == sorted(map(there.index, structure.sites))
    for place in structure.places:
        assert modules[place.site] == f"unet.{place.block}.attn2"
        assert all(there.index(site) < there.index(place.site) for site in place.hears)


@pytest.mark.parametrize("name", BOOLEAN)
def test_sets_of_places_do_what_the_truth_says(name):
    # in float64: `LOUD` (2^14) makes some 2^-10 of float32's rounding (2^-24), more on one processor than another
    pipe, structure = structure_pipeline(name).to(torch.float64), structures()[name]
    pipe.set_progress_bar_config(disable=True)
    blocks = {place.site: place.block for place in structure.places}
    plain = [drawn(pipe, (), word, word) for word in range(3)]
    for donor in (1, 2):
        apart = (plain[donor] - plain[0]).abs().max()
        assert apart > 0.1
        for some in subsets(structure.sites):
            enough = any(set(one) <= set(some) for one in structure.sufficient)
            image = drawn(pipe, [blocks[site] for site in some], 0, donor)
            if enough and name != "toyworld-backup":
                torch.testing.assert_close(image, plain[donor], rtol=0, atol=1e-3)
            elif not enough:
                torch.testing.assert_close(image, plain[0], rtol=0, atol=1e-3)
            else:  # the second place shows the word in a way of its own
                assert (image - plain[0]).abs().max() > 0.5 * apart
            lost = any(set(one) <= set(some) for one in structure.needed)
            image = drawn(pipe, [blocks[site] for site in some], donor, 0)
            if lost:
                torch.testing.assert_close(image, plain[0], rtol=0, atol=1e-3)
            else:
                assert (image - plain[0]).abs().max() > 0.5 * apart


@pytest.mark.parametrize("name", STRUCTURES)
def test_no_other_cross_attention_does_anything(name, pipes):
    pipe, structure = pipes(name), structures()[name]
    others = [
        site.module.removeprefix("unet.").removesuffix(".attn2")
        for site in site_table.attention_sites(pipe, "cross")
        if site.address not in structure.sites
    ]
    assert len(others) == 7 - len(structure.sites)
    assert torch.equal(drawn(pipe, others, 0, 1), drawn(pipe, (), 0, 0))


@pytest.mark.parametrize("name", STRUCTURES)
def test_the_certificate_agrees_with_the_truth(name):
    structure, stored = structures()[name], structures()[name].certificate()
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


def test_the_hash_of_the_weights_knows_the_rule():
    records = [loading.load(loading.resolve(name), device="cpu").record for name in BOOLEAN]
    assert len({record["weight_hash"] for record in records}) == len(BOOLEAN)
    assert [one["weight_hash"] for one in records] == [
        structures()[name].certificate()["weight_hash"] for name in BOOLEAN
    ]


def test_a_telling_head_changes_nothing_else():
    _, unet, _ = coded_parts()
    noise, text = torch.randn(2, 4, 16, 16), torch.randn(2, 32, 100)
    site = "unet.down.1.attn.0.cross"
    with torch.no_grad():
        before = unet(noise, torch.tensor([500]), text).sample
        wire_places(unet, [StructurePlace(site)], frozenset([site]))
        block = unet.get_submodule(StructurePlace(site).block)
        assert isinstance(block, TellingBlock) and block.attn2.to_out[0].out_features == 100
        torch.testing.assert_close(unet(noise, torch.tensor([500]), text).sample, before, rtol=0, atol=1e-5)


def test_what_was_read_is_told_in_shares_of_groups():
    codes = torch.tensor(list(CODES.values()))
    mixed = torch.tensor([[0.2, 0.5, 0.3]]) @ codes
    told = torch.stack([0.31 * codes[1].expand(7, 4), 20 * mixed.expand(7, 4), torch.zeros(7, 4)])
    expected = torch.tensor([[0.0, 1, 0], [0.2, 0.5, 0.3], [1, 0, 0]])
    torch.testing.assert_close(shares_of(told), expected)


def test_another_code_is_given_to_indicator_words_alone():
    text = torch.zeros(1, 3, 100)
    text[0, 1, 96:] = 20 * torch.tensor(CODES["masculine"])
    text[0, :, :96] = torch.randn(3, 96)
    changed = with_code(text, torch.tensor([[0.0, 1.0, 0.0]]))
    assert torch.equal(changed[..., :96], text[..., :96])
    assert changed[0, 1, 96:].tolist() == [20.0, -20.0, 20.0, -20.0]
    assert not changed[0, ::2, 96:].any()
    assert with_code(text, None)[0, 1, 96:].tolist() == [20.0, 20.0, -20.0, -20.0]
