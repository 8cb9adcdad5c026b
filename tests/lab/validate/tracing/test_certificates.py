"""Certificates: effects of sets of places, and the stored ones drawn again by hooks written by hand."""

import numpy as np
import pytest
import torch

from lab.validate.tracing.certificates import (
    DONORS,
    PROMPTS,
    SEEDS,
    STEPS,
    certificate,
    seeded_triplets,
    subsets,
    variants_of,
)
from lab.validate.tracing.methods import WORDS
from probes.models import loading
from probes.runs.images import eight_bits
from probes.toyworld.checker import read_images
from probes.toyworld.places import known_places
from probes.toyworld.verdict import verdict
from probes.toyworld.world import load_world


def test_effects_are_means_over_prompts_of_their_seeds():
    structure = known_places("structures")["toyworld-redundant"]
    names = [one.name for one in variants_of(structure, STEPS)]
    values = np.random.default_rng(0).normal(size=(3 * 2, len(names)))
    found = certificate(structure, values, steps=STEPS, seeds=2)
    column = dict(zip(names, values.T, strict=True))
    apart = column["sufficiency:masculine:1"] - column["sufficiency:feminine:1"]
    of_prompt = [apart[:2].mean(), apart[2:4].mean(), apart[4:].mean()]
    assert found["sufficiency"]["1"]["mean"] == pytest.approx(np.mean(of_prompt), abs=1e-4)
    assert found["sufficiency"]["1"]["se"] == pytest.approx(np.std(of_prompt, ddof=1) / 3**0.5, abs=1e-4)
    total = (column["none:masculine"] - column["none:feminine"]).mean()
    without = (column["necessity:masculine:0+1"] - column["necessity:feminine:0+1"]).mean()
    assert found["necessity"]["0+1"]["mean"] == pytest.approx(total - without, abs=1e-4)


def by_hand(pipe, structure, draws):
    """Mean effects (masculine less feminine) of all sets of places, by plain hooks of PyTorch on keys and values."""
    layers = {
        place.site: [getattr(pipe.unet.get_submodule(place.block).attn2, name) for name in ("to_k", "to_v")]
        for place in structure.places
    }

    def images(sites, recipient, donor):
        def exchanged(module, args, output):
            half = len(output) // 2
            return torch.cat([output[:half], output[:half]])

        handles = [layer.register_forward_hook(exchanged) for site in sites for layer in layers[site]]
        try:
            output = pipe(
                [one.prompts[word] for word in (donor, recipient) for one in draws],
                generator=[torch.Generator().manual_seed(one.noise_seed) for _ in range(2) for one in draws],
                num_inference_steps=STEPS,
                guidance_scale=1.0,
                output_type="np",
            ).images[len(draws) :]
        finally:
            for handle in handles:
                handle.remove()
        pixels = np.stack([eight_bits(one) for one in output])
        return verdict(read_images(pixels), [one.prompts[recipient] for one in draws], load_world()).mean()

    plain = {word: images((), word, word) for word in WORDS}
    total = plain["masculine"] - plain["feminine"]
    found = {"total": total, "sufficiency": {}, "necessity": {}}
    for some in subsets(len(structure.places)):
        sites, name = [structure.sites[place] for place in some], "+".join(map(str, some))
        feminine, masculine = (images(sites, "neutral", donor) for donor in DONORS)
        found["sufficiency"][name] = masculine - feminine
        feminine, masculine = (images(sites, donor, "neutral") for donor in DONORS)
        found["necessity"][name] = total - masculine + feminine
    return found


@pytest.mark.lab
@pytest.mark.parametrize("name", list(known_places("structures")))
def test_a_stored_certificate_is_drawn_again_by_hand(name):
    pipe = loading.load(loading.resolve(name), device="cpu").pipe
    pipe.set_progress_bar_config(disable=True)
    structure, stored = known_places("structures")[name], known_places("structures")[name].certificate()
    found = by_hand(pipe, structure, seeded_triplets(pipe, PROMPTS, SEEDS))
    assert found["total"] == pytest.approx(stored["total"]["mean"], abs=0.05)
    for estimand in ("sufficiency", "necessity"):
        assert set(found[estimand]) == set(stored[estimand])
        for some, value in found[estimand].items():
            assert value == pytest.approx(stored[estimand][some]["mean"], abs=0.05), (estimand, some)
