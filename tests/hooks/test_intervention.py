"""What is exchanged between rows, against hooks made by hand, whole images that must come out, and plain NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from hooks import HookError, Intervention, Patch, Probe, position_groups, sites
from tests.hooks.conftest import PROMPTS, all_hooks, draw
from tests.tiny import KINDS, tiny_pipeline, tiny_tokenizer

CROSS = "unet.up.1.attn.0.cross"
ATTENTION = "unet.up_blocks.1.attentions.0.transformer_blocks.0.attn2"
ROWS = [PROMPTS[0], PROMPTS[1], PROMPTS[0]]  # recipient, donor, recipient that is written


def written(pipe, patches, prompts=ROWS, **call):
    call.setdefault("num_inference_steps", 2)
    with Intervention(pipe, patches) as intervention:
        if any(patch.site.startswith("latent") for patch in patches):
            call["callback_on_step_end"] = intervention.on_step_end
        images = draw(pipe, prompts, **call)
    return images, intervention


def alike(images, other):
    """But for the order of sums, which may hang on a row's place in the batch."""
    return np.allclose(images, other, rtol=0, atol=1e-5)


def swap(site, **more):
    return Patch(site, source=1, into=2, **more)


def attentions(pipe, kind="cross"):
    return [site.address for site in sites.attention_sites(pipe, kind)]


def self_patches(pipe):
    """Row 2, and some with row 0, of a batch of three into themselves: every part, sites of every kind."""
    cross, self_attention = attentions(pipe)[1], attentions(pipe, "self")[1]
    parts = ("query", "key", "value", "heads", "probabilities", "output")
    patches = [
        Patch(site, part=part, source=(2, 0), into=(2, 0), branch=branch, donor=donor)
        for site in (cross, self_attention)
        for part in parts
        for branch, donor in (("both", "own"), ("conditional", "local"))
    ]
    patches += [
        Patch(site, source=2, into=2, donor="local", steps=[1]) for site in ("unet.conv_in", "unet.mid")
    ]
    patches += [Patch("text.layers.0", source=2, into=2, branch="both"), Patch("latent", source=2, into=2)]
    patches += [Patch("text.layers.1.attn.heads", source=2, into=2, heads=[1])]
    patches += [Patch("latent.final", source=0, into=0)]
    whole = [one.address for one in sites.available(pipe) if one.read_only is None]
    return patches + [Patch(address, source=2, into=2) for address in whole]


@pytest.mark.parametrize("kind", [*KINDS, "fused"])
def test_a_row_patched_into_itself_draws_the_same_image_bit_for_bit(pipelines, kind):
    pipe = tiny_pipeline("toy") if kind == "fused" else pipelines(kind)
    if kind == "fused":
        pipe.fuse_qkv_projections()
    without, before = draw(pipe, ROWS, num_inference_steps=2), all_hooks(pipe)
    images, intervention = written(pipe, self_patches(pipe))
    assert np.array_equal(images, without)
    assert all(one.writes and one.largest_change == 0 for one in intervention.written)
    assert all_hooks(pipe) == before


def test_keys_and_values_are_those_of_a_hook_made_by_hand(toy):
    def hand(module, args, output):
        rows = len(output) // 2  # the second half is conditional
        output = output.clone()
        output[rows + 2] = output[rows + 1]
        return output

    modules = [sites.module_at(toy, f"{ATTENTION}.{name}") for name in ("to_k", "to_v")]
    handles = [module.register_forward_hook(hand) for module in modules]
    expected = draw(toy, ROWS, num_inference_steps=3)
    for handle in handles:
        handle.remove()
    images, intervention = written(toy, [swap(CROSS, part=("key", "value"))], num_inference_steps=3)
    assert np.array_equal(images, expected) and not np.array_equal(images[2], images[0])
    (one,) = intervention.written
    assert one.writes == 6 and one.largest_change > 0  # two modules at each of three calls


def test_groups_of_positions():
    tokenizer = tiny_tokenizer(12)  # "tall" is two tokens, the comma one
    assert position_groups(tokenizer, "a tall man, a man", "man", occurrence=1) == {
        "start": (0,),
        "before": (1, 2, 3, 4, 5, 6),
        "word": (7,),
        "after": (),
        "end": (8,),
        "padding": (9, 10, 11),
    }
    assert position_groups(tokenizer, "a tall man, a man", "tall")["word"] == (2, 3)
    with pytest.raises(
        HookError, match="expected 'woman' at least 1 times in 'a man', but it is there 0 times"
    ):
        position_groups(tokenizer, "a man", "woman")
    with pytest.raises(HookError, match="at most 12 tokens"):
        position_groups(tokenizer, "a man " * 9, "man")


def kept(pipe, patches, keep, **call):
    with Intervention(pipe, patches), Probe(pipe, keep=keep) as probe:
        draw(pipe, ROWS, num_inference_steps=2, **call)
    return {address: one.values.numpy() for address, one in probe.kept.items()}


def test_probabilities_of_another_row_weigh_its_own_values(toy):
    names = [f"{CROSS}.{part}" for part in ("query", "key", "value", "heads")]
    found = kept(toy, [swap(CROSS, part="probabilities")], names)
    query, key, value, heads = (found[name][0] for name in names)  # at the first call
    split = {
        name: one.reshape(*one.shape[:2], heads.shape[2], -1) for name, one in zip("qkv", (query, key, value))
    }
    scores = np.einsum("phd,thd->hpt", split["q"][1].astype(np.float64), split["k"][1]) / np.sqrt(
        heads.shape[-1]
    )
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    np.testing.assert_allclose(heads[2], np.einsum("hpt,thd->phd", weights, split["v"][2]), atol=1e-5)
    assert alike(split["v"][2], split["v"][0]) and not np.allclose(heads[2], heads[1], atol=1e-5)


@pytest.mark.parametrize("address", ["unet.mid.resnet.0", f"{CROSS}.heads"])
def test_other_values_by_numpy(toy, address):
    """Means, directions, factors: at the first call, where the same went in."""
    site, part = (address, "output") if "resnet" in address else (CROSS, address.rpartition(".")[2])
    before = kept(toy, [Patch("unet.conv_in", mode="scale", into=0)], [address])[address][0]
    channels = 0 if "resnet" in address else -1
    width = before[2].shape[channels]
    direction = np.random.default_rng(3).normal(size=width).astype(np.float32)
    own = np.moveaxis(before[2], channels, -1)
    unit = direction / np.linalg.norm(direction)
    expected = {
        "mean": np.moveaxis(before[:2].mean(0), channels, -1),
        "add": own + 1.5 * direction,
        "project_out": own - (own @ unit)[..., None] * unit,
        "scale": 1.5 * own,
        "zero": 0 * own,
    }
    for mode, values in expected.items():
        more = {"direction": direction} if mode in ("add", "project_out") else {}
        more |= {"source": (0, 1)} if mode == "mean" else {}
        patch = Patch(site, part=part, into=2, mode=mode, factor=1.5, **more)
        after = kept(toy, [patch], [address])[address][0]
        np.testing.assert_allclose(np.moveaxis(after[2], channels, -1), values, atol=2e-5)
        assert np.array_equal(after[:2], before[:2])


def test_heads_and_tokens_alone(toy):
    names = [f"{CROSS}.{part}" for part in ("value", "heads")]
    without = kept(toy, [Patch("unet.conv_in", mode="scale", into=0)], names)
    found = kept(toy, [swap(CROSS, part="heads", heads=[1])], names)[names[1]][0]
    before = without[names[1]][0]
    assert np.array_equal(found[2][:, 1], before[1][:, 1]) and np.array_equal(found[2][:, 0], before[2][:, 0])
    heads = before.shape[2]
    patch = swap(CROSS, part="value", heads=[0], positions=[2, 3], source_positions=[3, 2])
    found, before = kept(toy, [patch], names)[names[0]][0], without[names[0]][0]
    found, before = (one.reshape(*one.shape[:2], heads, -1) for one in (found, before))
    assert np.array_equal(found[2][[2, 3], 0], before[1][[3, 2], 0])
    same = np.ones(found[2].shape[:2], bool)
    same[[2, 3], 0] = False
    assert np.array_equal(found[2][same], before[2][same])


@pytest.mark.parametrize("kind", ["toy", "sdxl"])
def test_a_local_donor_is_what_its_text_makes_of_the_recipient_s_latent(pipelines, kind):
    """Against a pass of the U-Net by hand, at the second call, where the rows have parted."""
    pipe, site = pipelines(kind), "unet.mid.resnet.0"
    given = {}

    def remember(module, args, kwargs):
        given.setdefault("calls", []).append((args, dict(kwargs)))

    handle = pipe.unet.register_forward_pre_hook(remember, with_kwargs=True)
    own = kept(pipe, [swap(site)], [site])[site][1]
    given.clear()
    local = kept(pipe, [swap(site, donor="local")], [site])[site][1]
    handle.remove()
    args, kwargs = given["calls"][1]
    sample, states = args[0][3:], kwargs["encoder_hidden_states"][3:]
    added = kwargs.get("added_cond_kwargs")
    if added:
        added = {"text_embeds": added["text_embeds"][4:5], "time_ids": added["time_ids"][5:6]}
    seen = []
    handle = pipe.unet.mid_block.resnets[0].register_forward_hook(
        lambda module, args, output: seen.append(output)
    )
    with torch.no_grad():
        pipe.unet(sample[2:3], args[1], encoder_hidden_states=states[1:2], added_cond_kwargs=added)
    handle.remove()
    np.testing.assert_allclose(local[2], seen[0][0].numpy(), atol=2e-5)
    assert not np.allclose(local[2], local[1], atol=1e-4) and np.array_equal(own[2], own[1])


def test_latents_pass_through_the_callback(toy):
    found = kept_latents(toy, [swap("latent", steps=[1])])
    assert np.array_equal(found[0][2], found[0][1])  # the noise
    assert np.array_equal(found[1][2], found[1][1]) and not np.array_equal(found[1][0], found[1][1])
    images, _ = written(toy, [swap("latent.final")])
    assert alike(images[2], images[1])


def kept_latents(pipe, patches):
    with Intervention(pipe, patches) as intervention, Probe(pipe, keep="latent") as probe:
        draw(pipe, ROWS, num_inference_steps=2, callback_on_step_end=intervention.on_step_end)
    return probe.kept["latent"].values.numpy()


def test_beside_a_probe_in_either_order_and_without_guidance(toy):
    patch, read = swap(CROSS, donor="local"), []
    for order in (0, 1):
        contexts = [Intervention(toy, [patch]), Probe(toy, pairs=[(2, 1)], word_maps=True)]
        with contexts[order], contexts[1 - order]:
            draw(toy, ROWS, num_inference_steps=2, guidance_scale=1.0)
        probe = contexts[1]
        read.append((probe.similarity[f"{CROSS}:cosine"].values, np.asarray(probe.maps.heat(2))))
    assert all(np.array_equal(a, b) for a, b in zip(*read, strict=True))


def test_no_hook_is_left_after_an_exception(toy):
    before = all_hooks(toy)

    def broken(pipe, step, timestep, kwargs):
        raise ZeroDivisionError("in the callback")

    with (
        pytest.raises(ZeroDivisionError),
        Intervention(toy, [swap(CROSS), swap("text.layers.0")]) as intervention,
    ):
        draw(toy, ROWS, callback_on_step_end=broken)
    assert all_hooks(toy) == before
    with pytest.raises(HookError, match="before the block has ended"):
        _ = intervention.written


WRONG = {
    "a pattern": (lambda: swap("unet.mid.*"), "expected one address, but got a pattern"),
    "an address": (lambda: swap("unet.midd"), "matches no site"),
    "a part": (lambda: swap("unet.mid.resnet.0", part="key"), "expected a site unet.mid.resnet.0.key"),
    "a name": (lambda: swap(CROSS, part="keys"), "part: expected some of"),
    "read only": (lambda: swap("text.final"), "cannot be written"),
    "no tokens": (lambda: swap(CROSS, positions=[1]), "is not by token"),
    "self keys": (lambda: swap("unet.mid.attn.0.self", part="key", positions=[1]), "is not by token"),
    "heads": (lambda: swap(CROSS, part="heads", heads=[99]), "heads: expected numbers from 0 below"),
    "heads of an output": (lambda: swap(CROSS, heads=[0]), "the output of a site has none"),
    "steps of text": (lambda: swap("text.layers.0", steps=[0]), "does not run at every step"),
    "local text": (lambda: swap("text.layers.0", donor="local"), "outside the denoiser"),
    "noise": (lambda: swap("latent", steps=[0]), "the latent of step 0 is the noise"),
    "rows": (lambda: Patch(CROSS, source=1, into=7), "rows: expected less than 3"),
    "steps": (lambda: swap(CROSS, steps=[99]), "wrote nothing: expected a step below 2"),
    "twice": (lambda: Patch(CROSS, source=0, into=(1, 1)), "each once"),
    "donors": (lambda: Patch(CROSS, source=(0, 1), into=2), "expected 1 row or 1"),
    "no donor": (lambda: Patch(CROSS, into=2), "source: expected rows with swap and mean alone"),
    "a mode": (lambda: swap(CROSS, mode="copy"), "mode: expected one of"),
    "no direction": (lambda: Patch(CROSS, into=2, mode="add"), "direction: expected one with"),
    "its width": (lambda: Patch(CROSS, into=2, mode="add", direction=[1.0]), "the width of an activation"),
    "mean of probabilities": (
        lambda: Patch(CROSS, part="probabilities", source=(0, 1), into=2, mode="mean"),
        "probabilities can be swapped alone",
    ),
    "no positions": (
        lambda: swap(CROSS, part="key", positions=[]),
        "positions: expected one or more, but got none",
    ),
    "a position": (
        lambda: swap(CROSS, part="key", positions=[99]),
        "positions: expected less than 32, the tokens of",
    ),
    "a donor's position": (
        lambda: swap(CROSS, part="key", positions=[1], source_positions=[99]),
        "source_positions: expected less than 32, the tokens of",
    ),
    "below 0": (
        lambda: swap(CROSS, part="key", positions=[-1]),
        "positions: expected numbers from 0, but got -1",
    ),
    "positions twice": (lambda: swap(CROSS, part="key", positions=[1, 1]), "positions: expected each once"),
    "no heads": (lambda: swap(CROSS, part="heads", heads=[]), "heads: expected one or more, but got none"),
    "no steps": (lambda: swap(CROSS, steps=[]), "steps: expected one or more, but got none"),
    "a zero direction": (
        lambda: Patch(CROSS, into=2, mode="project_out", direction=[0.0, 0.0]),
        "direction: expected finite numbers that are not all 0",
    ),
    "no callback": (lambda: Patch("latent", source=1, into=2), "wrote nothing: pass callback_on_step_end"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_written_is_one_line(toy, name):
    make, message = WRONG[name]
    before = all_hooks(toy)
    with pytest.raises(HookError) as caught, Intervention(toy, [make()]):
        draw(toy, ROWS, num_inference_steps=2)
    assert message in str(caught.value) and "\n" not in str(caught.value)
    assert all_hooks(toy) == before


def test_texts_that_the_encoder_did_not_give_cannot_be_patched(toy):
    patch = swap("text.layers.0")
    states, negative = toy.encode_prompt(ROWS, "cpu", 1, True)
    with (
        pytest.raises(HookError, match="expected the prompts to be encoded first"),
        Intervention(toy, [patch]),
    ):
        draw(toy, None, prompt_embeds=states)  # the negative prompts are all that it encodes
    with (
        pytest.raises(HookError, match="expected one image a prompt, but got 6 of 3"),
        Intervention(toy, [patch]),
    ):
        draw(toy, ROWS, num_images_per_prompt=2)
    with pytest.raises(HookError, match="pass prompts, not prompt_embeds"), Intervention(toy, [patch]):
        draw(toy, None, prompt_embeds=states, negative_prompt_embeds=negative)
