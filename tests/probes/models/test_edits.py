"""Edits of keys, values and text states against NumPy, on the layouts of SD 1, 2 and XL; undone bit for bit."""

import numpy as np
import pytest
import torch

from hooks.sites import attention_sites, module_at
from probes.errors import UserError
from probes.models import edits
from probes.models.edits import Edit
from probes.models.weights import weight_hash
from tests.tiny import tiny_pipeline

CONTEXTS = ["a {person} with a dog", "photo of a {person}"]
LAST = {"a {person} with a dog": 2, "photo of a {person}": 4}  # each word of the list is one token
CLOSED = Edit(words={"person": {"woman": 0.5, "man": -0.25}}, keep=["woman", "man"], contexts=CONTEXTS)


@pytest.fixture(scope="module")
def pipes():
    return {kind: tiny_pipeline(kind) for kind in ("sd1", "sd2", "sdxl")}


def projections(pipe):
    """Weights of keys and values of all cross-attentions, float64."""
    return {
        f"{address}.{part}": getattr(module_at(pipe, path), f"to_{part[0]}")
        .weight.detach()
        .double()
        .numpy()
        .copy()
        for address, path in ((site.address, site.module) for site in attention_sites(pipe, "cross"))
        for part in ("key", "value")
    }


def states(pipe, word, contexts=CONTEXTS):
    """Text states as diffusers makes them: of XL both encoders' last layer but one, side by side."""
    texts = [context.replace("{person}", word) for context in contexts]
    encoded = pipe.encode_prompt(
        texts, device="cpu", num_images_per_prompt=1, do_classifier_free_guidance=False
    )
    return encoded[0].detach().double().numpy()


@pytest.mark.parametrize("kind", ["sd1", "sd2", "sdxl"])
@pytest.mark.parametrize("positions", ["word", "onward"])
def test_closed_form_is_the_least_squares_solution(kind, positions, pipes):
    pipe = pipes[kind]
    edit = CLOSED.model_copy(update={"positions": positions, "ridge": 0.3, "keep_weight": 2.0})
    before, said = projections(pipe), {word: states(pipe, word) for word in edit.named_words}
    spans = [slice(LAST[c], LAST[c] + 1 if positions == "word" else None) for c in CONTEXTS]
    own, woman, man = (
        np.concatenate([said[word][row, span] for row, span in enumerate(spans)])
        for word in ("person", "woman", "man")
    )
    target = own + 0.5 * (woman - own) - 0.25 * (man - own)
    kept = np.concatenate([said["woman"], said["man"]]).reshape(-1, own.shape[1])
    # one system of rows: edited states, kept states, the ridge
    ridge = np.sqrt(0.3 * np.linalg.eigvalsh(own.T @ own + 2.0 * kept.T @ kept).mean())
    rows = np.vstack([own, np.sqrt(2.0) * kept, ridge * np.eye(own.shape[1])])
    with edits.apply(pipe, edit) as edited:
        after = projections(pipe)
    assert edited.record["sites"] == sorted(after) and len(after) > 10
    for name, old in before.items():
        wanted = np.vstack([target @ old.T, np.sqrt(2.0) * kept @ old.T, ridge * old.T])
        solution = np.linalg.lstsq(rows, wanted, rcond=None)[0].T
        np.testing.assert_allclose(after[name], solution, rtol=1e-5, atol=1e-6)
        change = np.linalg.norm(solution - old) / np.linalg.norm(old)
        assert edited.record["relative_change"][name] == pytest.approx(change, rel=1e-6)
    assert 0 < edited.record["left_over"]["edited"] < 1 > edited.record["left_over"]["kept"]


def taken(pipe, edit, contexts):
    """Edited states, their targets and kept states of each context, each from its word's token on."""
    said = {word: states(pipe, word, contexts) for word in edit.named_words}
    made = []
    for row, context in enumerate(contexts):
        place = context.split().index("{person}") + 1
        own = said["person"][row, place:]
        moved = sum(share * (said[word][row, place:] - own) for word, share in edit.words["person"].items())
        made.append((own, own + moved, np.concatenate([said[word][row] for word in edit.keep])))
    return made


def test_what_is_left_over_is_also_said_of_contexts_that_are_held_out(pipes):
    pipe, contexts = pipes["sd1"], [*CONTEXTS, "a {person} in the park"]
    edit = CLOSED.model_copy(update={"contexts": contexts, "keep_weight": 2.0})
    of = taken(pipe, edit, contexts)
    missed, asked, changed, length = 0.0, 0.0, 0.0, 0.0
    for held in range(3):
        own, targets, kept = (
            np.concatenate(one) for one in zip(*(one for row, one in enumerate(of) if row != held))
        )
        moments = own.T @ own + 2.0 * kept.T @ kept
        ridge = edit.ridge * np.trace(moments) / len(moments) * np.eye(len(moments))
        mapping = (targets.T @ own + 2.0 * kept.T @ kept + ridge) @ np.linalg.inv(moments + ridge)
        own, targets, kept = of[held]
        missed += ((own @ mapping.T - targets) ** 2).sum()
        asked += ((own - targets) ** 2).sum()
        changed += ((kept @ mapping.T - kept) ** 2).sum()
        length += (kept**2).sum()
    with edits.apply(pipe, edit) as edited:
        record = edited.record
    assert record["left_over_held_out"] == pytest.approx(
        {"edited": missed / asked, "kept": changed / length}, rel=1e-8
    )
    assert record["left_over_held_out"]["edited"] > record["left_over"]["edited"]
    assert record["left_over_held_out"]["kept"] > record["left_over"]["kept"]
    with edits.apply(pipe, edit.model_copy(update={"contexts": contexts[:1], "keep": []})) as edited:
        assert edited.record["left_over_held_out"] == {"edited": None, "kept": None}
        assert edited.record["left_over"]["kept"] is None


def test_chosen_sites_and_parts_alone_are_edited(pipes):
    pipe = pipes["sd1"]
    before = projections(pipe)
    edit = CLOSED.model_copy(update={"sites": ["unet.mid*"], "parts": ["value"]})
    with edits.apply(pipe, edit):
        after = projections(pipe)
    assert [name for name in before if not np.array_equal(before[name], after[name])] == [
        "unet.mid.attn.0.cross.value"
    ]


def test_words_of_several_tokens_are_aligned_from_their_last(pipes):
    pipe, context = pipes["sd1"], "a {person} with a dog"
    pieces = len(pipe.tokenizer("zebra")["input_ids"]) - 2
    assert pieces > 1
    here, there = (states(pipe, word, [context])[0] for word in ("person", "zebra"))
    # one state and nearly no ridge: the target is met
    edit = Edit(words={"person": {"zebra": 1.0}}, contexts=[context], ridge=1e-6, positions="word")
    before = projections(pipe)
    with edits.apply(pipe, edit):
        for name, new in projections(pipe).items():
            np.testing.assert_allclose(new @ here[2], before[name] @ there[1 + pieces], atol=1e-4)


@pytest.mark.parametrize("kind", ["sd1", "sdxl"])
def test_projection_takes_a_direction_out(kind, pipes):
    pipe = pipes[kind]
    before, said = projections(pipe), {word: states(pipe, word) for word in ("woman", "man")}
    spans = [slice(LAST[c], LAST[c] + 1) for c in CONTEXTS]
    apart = np.mean([(said["man"] - said["woman"])[row, span][0] for row, span in enumerate(spans)], axis=0)
    options = {"kind": "project", "direction": ["woman", "man"], "contexts": CONTEXTS, "positions": "word"}
    with edits.apply(pipe, Edit(**options)):
        of_text = projections(pipe)
    with edits.apply(pipe, Edit(**options, sites=["unet.*.cross*"], amount=0.5)):
        of_keys = projections(pipe)
    for name, old in before.items():
        unit = apart / np.linalg.norm(apart)
        np.testing.assert_allclose(of_text[name], old @ (np.eye(len(unit)) - np.outer(unit, unit)), atol=1e-6)
        key = old @ apart / np.linalg.norm(old @ apart)
        np.testing.assert_allclose(of_keys[name], old - 0.5 * np.outer(key, key) @ old, atol=1e-6)


def test_shift_adds_a_difference(pipes):
    pipe = pipes["sd2"]
    said = {word: states(pipe, word) for word in ("woman", "man", "cat")}
    spans = [slice(LAST[c], None) for c in CONTEXTS]
    apart = np.concatenate([(said["man"] - said["woman"])[row, span] for row, span in enumerate(spans)]).mean(
        0
    )
    path = attention_sites(pipe, "cross")[0].module
    state = torch.as_tensor(said["cat"]).float()
    before = module_at(pipe, path).to_k(state).detach().numpy()
    with edits.apply(pipe, Edit(kind="shift", direction=["woman", "man"], amount=2.0, contexts=CONTEXTS)):
        after = module_at(pipe, path).to_k(state).detach().numpy()
    weight = module_at(pipe, path).to_k.weight.detach().numpy()
    assert module_at(pipe, path).to_k.bias is None
    np.testing.assert_allclose(after - before, np.broadcast_to(2 * weight @ apart, before.shape), atol=1e-4)


@pytest.mark.parametrize("kind", ["shift", "project"])
def test_text_states_are_written_at_their_site(kind, pipes):
    pipe = pipes["sd1"]
    texts = [context.replace("{person}", word) for word in ("woman", "man") for context in CONTEXTS]
    ids = pipe.tokenizer(texts, padding="max_length", return_tensors="pt").input_ids

    def layer():
        with torch.no_grad():
            return pipe.text_encoder(ids, output_hidden_states=True).hidden_states[2].double().numpy()

    before = layer()
    apart = np.mean([(before[2:] - before[:2])[row, LAST[c]] for row, c in enumerate(CONTEXTS)], axis=0)
    edit = Edit(
        kind=kind, direction=["woman", "man"], sites=["text.layers.1"], contexts=CONTEXTS, positions="word"
    )
    weights = weight_hash(pipe)
    with edits.apply(pipe, edit) as edited:
        after = layer()
        assert weight_hash(pipe) == weights != edited.model_hash(weights)
    unit = apart / np.linalg.norm(apart)
    wanted = before + apart if kind == "shift" else before - (before @ unit)[..., None] * unit
    np.testing.assert_allclose(after, wanted, atol=1e-4)
    assert np.array_equal(layer(), before) and edited.model_hash(weights) != weights


def test_what_is_undone_draws_the_same_bits():
    pipe = tiny_pipeline("toy")

    def draw():
        noise = torch.Generator().manual_seed(0)
        return pipe("a person with a dog", generator=noise, num_inference_steps=1, output_type="np").images

    image, weights = draw(), weight_hash(pipe)
    shift = Edit(kind="shift", direction=["woman", "man"])
    edited = edits.apply(pipe, CLOSED)
    with (
        edits.apply(pipe, shift),
        edits.apply(pipe, Edit(**{**shift.model_dump(), "sites": ["text.layers.0"]})),
    ):
        assert not np.array_equal(draw(), image) and weight_hash(pipe) != weights
    edited.undo()
    assert np.array_equal(draw(), image) and weight_hash(pipe) == weights
    with edits.apply(pipe, Edit(words={"person": {"woman": 0.0}})):  # what asks for nothing alters nothing
        assert weight_hash(pipe) == weights
    pipe.unet.fuse_qkv_projections()
    fused = pipe.unet.mid_block.attentions[0].transformer_blocks[0].attn2.to_kv.weight.clone()
    with edits.apply(pipe, CLOSED.model_copy(update={"sites": ["unet.mid.attn.0.cross"], "parts": ["key"]})):
        changed = pipe.unet.mid_block.attentions[0].transformer_blocks[0].attn2.to_kv.weight != fused
        assert changed[: len(fused) // 2].any() and not changed[len(fused) // 2 :].any()


def test_weights_that_overflow_are_refused_and_put_back():
    pipe = tiny_pipeline("sd1")
    path = attention_sites(pipe, "cross")[-1].module
    pipe.unet.half()
    weight = module_at(pipe, path).to_v.weight.data
    weight *= 6e4 / weight.abs().max()
    weights = weight_hash(pipe)
    with pytest.raises(
        UserError, match=r"edit: expected finite weights in torch\.float16, got NaN or infinity at"
    ):
        edits.apply(pipe, Edit(words={"person": {"woman": 50.0}}))
    assert weight_hash(pipe) == weights
