"""Maps of words that are not in the prompt, against the same attention computed eagerly in float64."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from hooks import HookError, Probe
from hooks.sites import attention_sites, module_at
from tests.hooks.attention.test_attention import daam_of
from tests.hooks.conftest import all_hooks
from tests.hooks.conftest import draw as draw_unet
from tests.hooks.oracle import recorded
from tests.hooks.transformers import PROMPTS, STEPS, draw, heard

CONCEPTS = {"umbrella": (1,), "dog": (1,), "guitar in the library": (1, 2, 3, 4)}  # and CLIP's positions
T5 = [(0,), (0,), (0, 1, 2, 3)]


@torch.no_grad()
def projected(pipe, run):
    """Queries, keys and scale of each cross-attention, (calls, rows of all branches, heads, positions, width)."""
    kept, handles = {}, []
    for site in attention_sites(pipe, "cross"):
        attention, calls = module_at(pipe, site.module), {"to_q": [], "to_k": []}
        for name, outputs in calls.items():
            keep = lambda module, args, output, into=outputs: into.append(output.double())  # noqa: E731
            handles.append(getattr(attention, name).register_forward_hook(keep))
        kept[site.address] = attention, calls
    run()
    for handle in handles:
        handle.remove()
    split = lambda one, heads: torch.stack(one).unflatten(-1, (heads, -1)).transpose(-2, -3)  # noqa: E731
    return {
        name: (attention, *(split(calls[part], attention.heads) for part in ("to_q", "to_k")))
        for name, (attention, calls) in kept.items()
    }


@torch.no_grad()
@pytest.mark.parametrize("kind", ["toy", "sdxl"])
def test_a_unets_image_pays_concepts_beside_the_prompt(pipelines, kind):
    pipe = pipelines(kind)
    bare, hooks = draw_unet(pipe), all_hooks(pipe)  # the text encoder's own are there from its first run on
    with Probe(pipe, word_maps=True, concepts=[*CONCEPTS]) as probe, Probe(pipe, concepts="dog") as alone:
        images = draw_unet(pipe)
    assert np.array_equal(images, bare) and all_hooks(pipe) == hooks
    layers = projected(pipe, lambda: draw_unet(pipe))
    for name, positions in CONCEPTS.items():
        states = pipe.encode_prompt(
            name, device="cpu", num_images_per_prompt=1, do_classifier_free_guidance=False
        )[0][0, list(positions)].detach()
        paid = {}
        for address, (attention, query, key) in layers.items():
            own = (states @ attention.to_k.weight.T).double().unflatten(-1, (attention.heads, -1))
            own = own.transpose(0, 1).expand(*key.shape[:3], -1, -1)
            scores = query @ torch.cat([key, own], dim=-2).mT * attention.scale
            paid[address] = scores.softmax(-1)[..., key.shape[-2] :]
        expected = daam_of(paid, (16, 16), 2).mean(1)
        for row in range(3):
            values = probe.concept_map(name, row).values
            np.testing.assert_allclose(values, expected[row], rtol=1e-4, atol=1e-6)
        assert np.ptp(values) > 1e-3, "the map must vary over the image for this test to see it"
    np.testing.assert_allclose(alone.concept_map("dog").values, probe.concept_map("dog").values, rtol=1e-5)
    assert (
        probe.concept_map("dog").positions == (1,)
        and probe.concept_map("dog").mask().shape == images.shape[1:3]
    )


def test_a_concept_that_the_prompt_begins_with_is_paid_half_as_if_it_stood_there_twice(toy):
    """CLIP is causal, so that the states are the same: p becomes p / (1 + p), head by head."""
    prompt = ["umbrella in the park", "umbrella, a dog"]
    with Probe(toy, concepts="umbrella") as probe:
        draw_unet(toy, prompt)
    kept = recorded(toy, lambda: draw_unet(toy, prompt))
    expected = daam_of({name: p[..., 1:2] / (1 + p[..., 1:2]) for name, p in kept.items()}, (16, 16), 2)
    for row in range(2):
        values = probe.concept_map("umbrella", row).values
        np.testing.assert_allclose(values, expected[row, 0], rtol=1e-4, atol=1e-6)


def inputs_of_blocks(pipe, run):
    """Keyword arguments of the two-stream blocks at each call."""
    blocks, calls = pipe.transformer.transformer_blocks, []
    keep = lambda module, args, kwargs: calls.append({**kwargs, "args": args})  # noqa: E731
    handles = [block.register_forward_pre_hook(keep, with_kwargs=True) for block in blocks]
    run()
    for handle in handles:
        handle.remove()
    return [calls[start : start + len(blocks)] for start in range(0, len(calls), len(blocks))]


def rotated(values, positions):
    """Keys (rows, heads, positions, width) turned by the angles of rotary positions: cosines and sines of pairs."""
    cos, sin = (one.double() for one in positions)
    pairs = values.unflatten(-1, (-1, 2))
    turned = torch.stack([-pairs[..., 1], pairs[..., 0]], dim=-1).flatten(-2)
    return values * cos + turned * sin


def run_concepts(block, given, stream, rows):
    """Attention outputs (rows, tokens, channels) at the concepts, and their stream behind a block, written out."""
    image, temb = given["hidden_states"][-rows:], given["temb"][-rows:]
    both = temb.split(6, dim=1) if temb.ndim == 3 else (temb, temb)  # Chroma's, of the image and of the text
    image = block.norm1(image, emb=both[0])[0]
    last = getattr(block, "context_pre_only", False)
    normed = block.norm1_context(stream, temb) if last else block.norm1_context(stream, emb=both[1])
    normed, *more = (normed,) if last else normed
    attention = block.attn
    heads = lambda values: values.unflatten(-1, (attention.heads, -1)).transpose(1, 2)  # noqa: E731
    plain = lambda values: values  # noqa: E731
    norms = {name: getattr(attention, f"norm_{name}") or plain for name in ("k", "added_q", "added_k")}
    query = norms["added_q"](heads(attention.add_q_proj(normed))).double()
    own = norms["added_k"](heads(attention.add_k_proj(normed))).double()
    key = norms["k"](heads(attention.to_k(image))).double()
    if (rotary := given.get("image_rotary_emb")) is not None:  # the text's positions are all 0
        key = rotated(key, [one[-key.shape[-2] :] for one in rotary])
    value = torch.cat([heads(attention.to_v(image)), heads(attention.add_v_proj(normed))], dim=2).double()
    scores = query @ torch.cat([key, own], dim=2).mT / query.shape[-1] ** 0.5
    outputs = (scores.softmax(-1) @ value).transpose(1, 2).flatten(2)
    if last:
        return outputs, None
    gate, shift, scale, gate_ff = more
    stream = stream + gate[:, None] * attention.to_add_out(outputs.float())
    hidden = F.layer_norm(stream, stream.shape[-1:], eps=1e-6) * (1 + scale[:, None]) + shift[:, None]
    return outputs, stream + gate_ff[:, None] * block.ff_context(hidden)


@torch.no_grad()
@pytest.mark.parametrize("kind", ["sd3", "sd35", "flux-dev", pytest.param("chroma", marks=pytest.mark.slow)])
def test_concepts_are_a_stream_that_the_image_does_not_read(dit, kind, monkeypatch):
    pipe, rows = dit(kind), len(PROMPTS)
    bare, hooks = draw(pipe, kind), all_hooks(pipe)
    with (
        Probe(pipe, word_maps=True, concepts=[*CONCEPTS]) as probe,
        Probe(pipe, concepts=[*CONCEPTS]) as inner,
    ):
        images = draw(pipe, kind)
    assert np.array_equal(images, bare) and all_hooks(pipe) == hooks
    np.testing.assert_array_equal(inner.concept_maps.values, probe.concept_maps.values)
    steps = []
    entries = heard(pipe, lambda: steps.extend(inputs_of_blocks(pipe, lambda: draw(pipe, kind))), monkeypatch)
    clip = kind.startswith("sd3")  # whose 77 positions come first
    positions = [(*one, *(77 + k for k in t5)) if clip else t5 for one, t5 in zip(CONCEPTS.values(), T5)]
    tokens = []
    for name, places in zip(CONCEPTS, positions):
        assert probe.concept_map(name).positions == places
        texts = [name, None, None][: {"chroma": 1, "flux-dev": 2}.get(kind, 3)]
        tokens.append(pipe.transformer.context_embedder(pipe.encode_prompt(*texts)[0][0, list(places)]))
    total = torch.zeros(rows, len(CONCEPTS), 64, dtype=torch.double)
    for number, step in enumerate(steps[:: len(steps) // STEPS]):
        stream = torch.cat(tokens).expand(rows, -1, -1)
        for k, (block, given) in enumerate(zip(pipe.transformer.transformer_blocks, step)):
            outputs, stream = run_concepts(block, given, stream, rows)
            calls = entries[f"dit.block.{k}.joint"]
            image = calls[number * (len(calls) // STEPS)]["result"][-rows:].transpose(1, 2).flatten(2)
            image = image[:, :64] if clip else image[:, -64:]
            means = torch.stack([one.mean(1) for one in outputs.split([*map(len, positions)], dim=1)], 1)
            total += (image @ means.mT).softmax(-1).mT / len(pipe.transformer.transformer_blocks)
    np.testing.assert_allclose(probe.concept_maps.values.reshape(total.shape), total, rtol=1e-3, atol=1e-5)
    assert np.ptp(probe.concept_map("dog", 1).values) > 1e-2, "the map must vary over the image"


@pytest.mark.parametrize(
    ("kind", "concepts", "message"),
    [
        ("sd3", ["dog"], "expected two or more, since their maps are a softmax over them, but got dog alone"),
        ("sd3", ["dog", "dog"], "expected different words of letters or digits, but got"),
        ("sd3", ["dog", "…"], "expected different words of letters or digits, but got"),
        ("pixart-sigma", ["dog", "cat"], "a transformer with blocks of two streams, but got PixArt"),
        (
            "qwen-image",
            ["dog", "cat"],
            "QwenImageTransformerBlock has blocks that take encoder_hidden_states_mask",
        ),
        (
            "ovis-image",
            ["dog", "cat"],
            "OvisImageTransformerBlock has a text that more than one module embeds",
        ),
    ],
)
def test_what_has_no_concepts_is_refused_in_one_line(dit, kind, concepts, message):
    pipe = dit(kind)
    pipe.encode_prompt("dog", *[None] * (2 * (kind == "sd3")))
    hooks = all_hooks(pipe)
    with pytest.raises(HookError, match=message) as refused, Probe(pipe, concepts=concepts):
        draw(pipe, kind)
    assert "\n" not in str(refused.value) and all_hooks(pipe) == hooks


def test_a_concept_that_was_not_asked_for(toy):
    with Probe(toy, concepts=["dog", "cat"]) as probe, Probe(toy) as plain:
        draw_unet(toy)
    with pytest.raises(HookError, match="concept: expected one of dog, cat, but got 'hat'"):
        probe.concept_map("hat")
    with pytest.raises(HookError, match="concept_maps: not asked for: pass concepts="):
        plain.concept_map("dog")
