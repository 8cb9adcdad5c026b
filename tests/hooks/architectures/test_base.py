"""Another architecture enters by answering the protocol: a transformer written in tests is read and written."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cosine

from hooks import Intervention, Patch, Probe, sites
from hooks.architectures import addresses
from hooks.architectures.base import Architecture
from tests.hooks.conftest import PROMPTS, all_hooks, draw
from tests.second_architecture import TinyTransformer, register, tiny_transformer_pipeline

STEPS = 3
PAIRS = [(0, 1), (0, 2)]


@pytest.fixture
def pipe(monkeypatch):
    register(monkeypatch)
    return tiny_transformer_pipeline()


def test_what_has_no_default_must_be_answered():
    class Incomplete(TinyTransformer):
        sites = Architecture.sites

    with pytest.raises(TypeError, match="abstract method"):
        Incomplete()


def test_the_probe_reads_it_and_leaves_no_trace(pipe):
    without, before = draw(pipe), all_hooks(pipe)
    seen = {k: [] for k in range(3)}
    handles = [
        block.register_forward_hook(lambda module, args, output, k=k: seen[k].append(output[:3]))
        for k, block in enumerate(pipe.transformer.transformer_blocks)
    ]
    with Probe(pipe, pairs=PAIRS, keep="*", prompts=PROMPTS) as probe:
        images = draw(pipe)
    for handle in handles:
        handle.remove()
    assert np.array_equal(images, without) and all_hooks(pipe) == before
    assert list(probe.kept) == [site.address for site in sites.available(pipe) if site.default]
    for k, outputs in seen.items():
        kept = probe.kept[f"transformer.{k}"]
        assert torch.equal(kept.values, torch.stack(outputs)) and len(outputs) == STEPS
        np.testing.assert_allclose(kept.timestep, pipe.scheduler.timesteps)
        for call in range(STEPS):
            flat = kept.values[call].flatten(1).double().numpy()
            expected = [1 - cosine(flat[left], flat[right]) for left, right in PAIRS]
            found = probe.similarity[f"transformer.{k}:cosine"].values[call]
            np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)
    latent, guided = (probe.kept[name].values for name in ("latent", "noise_pred.guided"))
    widths = torch.diff(pipe.scheduler.sigmas)[:, None, None, None, None]  # of Euler's steps
    later = torch.cat([latent[1:], probe.kept["latent.final"].values])
    torch.testing.assert_close(latent + widths * guided, later, rtol=1e-4, atol=1e-5)
    assert [word.text for word in probe.words(row=1)] == PROMPTS[1].split()


def test_its_addresses_patterns_and_shapes(pipe):
    ran = [site.address for site in sites.available(pipe)]
    assert sorted(reversed(ran), key=addresses.place) == ran
    assert addresses.space("transformer.2") == "denoising" and addresses.has_steps("transformer.2")
    assert addresses.readable_name("transformer.2") == "mid · block 2"
    assert [site.address for site in sites.resolve(pipe, "transformer.*.cross")] == [
        f"transformer.{k}.cross" for k in range(3)
    ]
    table = dict(line.split(maxsplit=1) for line in sites.table(pipe, height=32, width=64).splitlines())
    assert table["transformer.1"] == "(32, 16)"
    assert table["latent"] == table["noise_pred.guided"] == table["latent.final"] == "(4, 8, 16)"
    assert table["image"] == "(3, 32, 64)" and table["text.layers.0"] == table["text.final"] == "(32, 32)"


def test_rows_exchange_what_it_computes(pipe):
    """The prompts' rows come first here; of the local donor the last block is all that the velocity is made of."""
    prompts = [PROMPTS[0], PROMPTS[1], PROMPTS[0]]
    for patch in (Patch("transformer.2", source=1, into=2), Patch("text.embeddings", source=1, into=2)):
        with Intervention(pipe, [patch]), Probe(pipe, keep="noise_pred.conditional") as probe:
            draw(pipe, prompts)
        conditional = probe.kept["noise_pred.conditional"].values
        torch.testing.assert_close(conditional[0, 2], conditional[0, 1], rtol=0, atol=1e-5)
        assert not torch.equal(conditional[:, 0], conditional[:, 1])
    everywhere = Patch("transformer.2", source=1, into=2, donor="local")
    with Intervention(pipe, [everywhere]):
        local = draw(pipe, prompts)
    np.testing.assert_allclose(local[2], local[1], atol=1e-5)
    assert not np.allclose(local[0], local[1], atol=1e-4)
