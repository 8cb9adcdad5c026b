"""Another architecture enters by answering the protocol: a toy transformer, written here, is read by the probe."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cosine
from torch import nn

from hooks import HookError, Intervention, Patch, Probe, sites
from hooks.architectures import addresses, decoder, registry
from hooks.architectures.addresses import DENOISING, GROUPS, Place
from hooks.architectures.base import Architecture
from hooks.architectures.batch import Batch, Inputs
from hooks.architectures.site import Site
from hooks.architectures.text_encoders import text_sites
from tests.hooks.conftest import PROMPTS, all_hooks
from tests.tiny import tiny_components

CHANNELS, WIDTH, SIDE, STEPS = 4, 32, 8, 3
PAIRS = [(0, 1), (0, 2)]


class Block(nn.Module):
    """A residual block over positions that looks at the text's mean; returns a tuple, as SD 3's do."""

    def __init__(self):
        super().__init__()
        self.mix, self.look = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, text, image):
        return text, image + torch.tanh(self.mix(image) + self.look(text.mean(1, keepdim=True)))


class Denoiser(nn.Module):
    """Velocities from latents; its arguments have other names than a UNet's."""

    def __init__(self):
        super().__init__()
        self.enter, self.leave = nn.Linear(CHANNELS, WIDTH), nn.Linear(WIDTH, CHANNELS)
        self.blocks = nn.ModuleList(Block() for _ in range(3))

    def forward(self, hidden_states, prompt_states, sigma):
        image = self.enter(hidden_states.flatten(2).mT)
        for block in self.blocks:
            prompt_states, image = block(prompt_states, image)
        return SimpleNamespace(velocity=self.leave(image).mT.unflatten(2, hidden_states.shape[-2:]) * sigma)


class ToyTransformerPipeline:
    """Draws as a pipeline does: text twice, guidance with the prompts' rows *first*, flow steps, decoder."""

    scale = 3.0

    def __init__(self):
        parts = tiny_components("toy")
        self.tokenizer, self.text_encoder, self.vae = (parts[n] for n in ("tokenizer", "text_encoder", "vae"))
        torch.manual_seed(0)
        self.transformer = Denoiser().eval()
        self.components = {n: getattr(self, n) for n in ("text_encoder", "transformer", "vae")}
        self.latents = []

    def encode(self, texts):
        length = self.tokenizer.model_max_length
        ids = self.tokenizer(texts, padding="max_length", max_length=length, return_tensors="pt").input_ids
        return self.text_encoder(ids)[0]

    @torch.no_grad()
    def __call__(self, prompts):
        text = torch.cat([self.encode(prompts), self.encode([""] * len(prompts))])
        noise = torch.randn(1, CHANNELS, SIDE, SIDE, generator=torch.Generator().manual_seed(5))
        latents, self.num_timesteps = noise.repeat(len(prompts), 1, 1, 1), STEPS
        self.latents = []
        for sigma in torch.linspace(1, 1 / STEPS, STEPS):
            self.latents.append(latents)
            made = self.transformer(prompt_states=text, hidden_states=torch.cat([latents] * 2), sigma=sigma)
            with_text, without = made.velocity.chunk(2)
            latents = latents - (without + self.scale * (with_text - without)) / STEPS
        return self.vae.decode(latents / self.vae.config.scaling_factor).sample.numpy()


def block(number):
    return Place((GROUPS.index("mid"), int(number)), "mid", f"block {number}", "denoising", DENOISING)


class ToyTransformer(Architecture):
    """Its architecture, all that `hooks` asks of it."""

    name, models, denoiser_name, denoiser_part = "Toy", "the toy", "transformer", "transformer"
    pipelines = ("ToyTransformerPipeline",)

    def sites(self, pipe):
        yield from text_sites(pipe, "transformer")
        yield Site("latent", "transformer", read="pipeline", read_only="made by steps")
        for k in range(len(pipe.transformer.blocks)):
            address = f"transformer.{k}"
            yield Site(address, f"transformer.blocks.{k}", element=1)
        for name in ("noise_pred.conditional", "noise_pred.guided"):
            yield Site(name, "transformer", read="pipeline", read_only="read off the output")
        yield from decoder.decoder_sites(pipe.vae)

    def unavailable(self, pipe, address):
        return "its steps are flows" if address == "x0_pred" else None

    def attentions(self, pipe, kind):
        yield from ()

    def inputs(self, pipe, args, kwargs):
        latents = kwargs["hidden_states"]
        branches = ("conditional", "unconditional")[: 1 if isinstance(pipe, SimpleNamespace) else 2]
        batch = Batch(len(latents) // len(branches), branches, *latents.shape[-2:])
        text = batch.conditional(kwargs["prompt_states"], "text.final")
        return Inputs(batch, kwargs["sigma"], batch.conditional(latents, "latent"), text, masked=False)

    def with_texts(self, args, kwargs, rows):
        return args, {**kwargs, "prompt_states": kwargs["prompt_states"][rows]}

    def predictions(self, pipe, inputs, output, wanted):
        with_text, without = (
            inputs.batch.branch(name, output.velocity, "noise_pred") for name in inputs.batch.branches
        )
        yield "noise_pred.conditional", with_text
        yield "noise_pred.guided", without + pipe.scale * (with_text - without)

    def latent_size(self, pipe, height=None, width=None):
        scale = self.latent_scale(pipe)
        return (height or SIDE * scale) // scale, (width or SIDE * scale) // scale

    def image_multiple(self, pipe):
        return self.latent_scale(pipe)

    def without_weights(self, pipe):
        with torch.device("meta"):
            return SimpleNamespace(transformer=Denoiser(), vae=type(pipe.vae).from_config(pipe.vae.config))

    def text_arguments(self, outputs):
        return {"prompt_states": outputs[0][0]}

    def blank_text(self, pipe, tokens):
        return {"prompt_states": torch.zeros(1, tokens, WIDTH, device="meta")}

    def blank_call(self, pipe, size, text):
        latents = torch.zeros(1, CHANNELS, *size, device="meta")
        return {"hidden_states": latents, "sigma": torch.ones((), device="meta"), **text}


@pytest.fixture
def pipe():
    architecture: Architecture = ToyTransformer()
    registry.ARCHITECTURES.append(architecture)
    addresses.PATTERNS.append((r"transformer\.(\d+)", block))
    yield ToyTransformerPipeline()
    registry.ARCHITECTURES.remove(architecture)
    addresses.PATTERNS.pop()


def test_what_has_no_default_must_be_answered():
    class Incomplete(ToyTransformer):
        sites = Architecture.sites

    with pytest.raises(TypeError, match="abstract method"):
        Incomplete()


def test_without_its_architecture_it_is_refused():
    with pytest.raises(
        HookError, match=r"but got ToyTransformerPipeline \(its denoiser is a transformer that"
    ):
        sites.available(ToyTransformerPipeline())


def test_the_probe_reads_it_and_leaves_no_trace(pipe):
    without, before = pipe(PROMPTS), all_hooks(pipe)
    seen = {k: [] for k in range(3)}
    handles = [
        block.register_forward_hook(lambda module, args, output, k=k: seen[k].append(output[1][:3]))
        for k, block in enumerate(pipe.transformer.blocks)
    ]
    with Probe(pipe, pairs=PAIRS, keep="*", prompts=PROMPTS) as probe:
        images = pipe(PROMPTS)
    for handle in handles:
        handle.remove()
    assert np.array_equal(images, without) and all_hooks(pipe) == before
    assert list(probe.kept) == [site.address for site in sites.available(pipe) if site.default]
    for k, outputs in seen.items():
        kept = probe.kept[f"transformer.{k}"]
        assert torch.equal(kept.values, torch.stack(outputs)) and kept.values.shape == (
            STEPS,
            3,
            SIDE**2,
            WIDTH,
        )
        np.testing.assert_allclose(kept.timestep, [1, 2 / 3, 1 / 3], rtol=1e-6)
        for call in range(STEPS):
            flat = kept.values[call].flatten(1).double().numpy()
            expected = [1 - cosine(flat[left], flat[right]) for left, right in PAIRS]
            found = probe.similarity[f"transformer.{k}:cosine"].values[call]
            np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)
    assert torch.equal(probe.kept["latent"].values, torch.stack(pipe.latents))
    steps = probe.kept["latent"].values - probe.kept["noise_pred.guided"].values / STEPS
    torch.testing.assert_close(steps[:-1], probe.kept["latent"].values[1:])
    torch.testing.assert_close(steps[-1], probe.kept["latent.final"].values[0])
    assert np.array_equal(probe.kept["image"].values[0].numpy(), without)
    with torch.no_grad():
        assert torch.equal(probe.kept["text.final"].values[0], pipe.encode(PROMPTS))
    assert [word.text for word in probe.words(row=1)] == PROMPTS[1].split()


def test_its_addresses_patterns_and_shapes(pipe):
    ran = [site.address for site in sites.available(pipe)]
    assert sorted(reversed(ran), key=addresses.place) == ran
    assert addresses.space("transformer.2") == "denoising" and addresses.has_steps("transformer.2")
    assert addresses.readable("transformer.2") == "mid · block 2"
    assert [site.address for site in sites.resolve(pipe, "transformer.*")] == [
        "transformer." + k for k in "012"
    ]
    with pytest.raises(HookError, match="'x0_pred' cannot be computed, its steps are flows"):
        sites.resolve(pipe, "x0_pred")
    table = dict(line.split(maxsplit=1) for line in sites.table(pipe, height=32, width=64).splitlines())
    assert table["transformer.1"] == "(128, 32)"
    assert table["latent"] == table["noise_pred.guided"] == table["latent.final"] == "(4, 8, 16)"
    assert table["image"] == "(3, 32, 64)" and table["text.layers.0"] == table["text.final"] == "(32, 32)"


def test_rows_exchange_what_it_computes(pipe):
    """The prompts' rows come first here; of the local donor the last block is all that the velocity is made of."""
    prompts = [PROMPTS[0], PROMPTS[1], PROMPTS[0]]
    for patch in (Patch("transformer.2", source=1, into=2), Patch("text.embeddings", source=1, into=2)):
        with Intervention(pipe, [patch]), Probe(pipe, keep="noise_pred.conditional") as probe:
            pipe(prompts)
        conditional = probe.kept["noise_pred.conditional"].values
        torch.testing.assert_close(conditional[:, 2], conditional[:, 1], rtol=0, atol=1e-5)
        assert not torch.equal(conditional[:, 0], conditional[:, 1])
    everywhere = Patch("transformer.2", source=1, into=2, donor="local")
    with Intervention(pipe, [everywhere]):
        local = pipe(prompts)
    np.testing.assert_allclose(local[2], local[1], atol=1e-5)
    assert not np.allclose(local[0], local[1], atol=1e-4)


def test_what_it_does_not_have_is_said(pipe):
    with pytest.raises(HookError, match="the denoiser has no cross-attention"), Probe(pipe, word_maps=True):
        pass
