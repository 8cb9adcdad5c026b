"""Steering of choices against hooks and probes written by hand; where it works, where it does not, what it leaves."""

import functools

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from sklearn.linear_model import LogisticRegression

from hooks.sites import attention_sites
from lab.train.base.measure import sample
from lab.validate.tracing.edited import templates
from probes.errors import UserError
from probes.models import edits, loading
from probes.models.edits import Edit
from probes.models.edits.choice import LEAST, SEEDS, measured
from probes.models.edits.rows import STEPS
from probes.models.edits.states import written
from probes.models.edits.word_gate import WordGate
from probes.models.weights import weight_hash
from probes.toyworld.checker import read_images
from probes.toyworld.verdict import verdict
from probes.toyworld.world import load_world
from tests.tiny import tiny_pipeline

WOMAN, MAN = {"woman": 1.0, "man": 0.0}, {"woman": 0.0, "man": 1.0}
CONTEXTS = ["a photo of a {person}", "a {person} with a dog in the park", "a {person} sitting at a table"]
CALLS = 3


@functools.cache
def model(name):
    pipe = loading.load(loading.resolve(name), device="cpu").pipe
    pipe.set_progress_bar_config(disable=True)
    return pipe


def choice(shares=WOMAN, **options):
    return Edit(kind="steer_choice", words={"person": shares}, **options)


def latents(pipe, prompts, seeds, scale=1.0, steps=CALLS):
    noise = [torch.Generator("cpu").manual_seed(seed) for seed in seeds]
    found = pipe(
        prompts, generator=noise, num_inference_steps=steps, guidance_scale=scale, output_type="latent"
    )
    return found.images.double().numpy()


def fitted(rows, labels):
    """A probe of scikit-learn and the scale of its features."""
    scale = np.sqrt(((rows - rows.mean(0)) ** 2).mean())
    probe = LogisticRegression(class_weight="balanced", max_iter=10_000, tol=1e-11)
    return probe.fit(rows / scale, labels), scale


def outputs_by_hand(pipe):
    """Outputs of all self-attentions, mean over pixels, by word: (images, calls, sites, channels), channels padded.

    At the last call the denoiser reads the text of *person* in all images.
    """
    blocks = [part for name, part in pipe.unet.named_modules() if name.endswith("attn1")]
    kept = []
    handles = [
        one.register_forward_hook(lambda module, args, output: kept.append(output.double().mean(1).numpy()))
        for one in blocks
    ]
    forward, found = pipe.unet.forward, {}
    neutral = pipe.encode_prompt([c.replace("{person}", "person") for c in CONTEXTS], "cpu", 1, False)[0]
    for word in ("person", "woman", "man"):
        batches = []
        for number in range(SEEDS):
            kept.clear()
            calls = iter(range(STEPS))

            def called(*args, calls=calls, **kwargs):
                if next(calls) == STEPS - 1:
                    kwargs["encoder_hidden_states"] = neutral
                return forward(*args, **kwargs)

            pipe.unet.forward = called
            texts = [c.replace("{person}", word) for c in CONTEXTS]
            latents(pipe, texts, range(number * len(texts), (number + 1) * len(texts)), steps=STEPS)
            each = [kept[start : start + len(blocks)] for start in range(0, len(kept), len(blocks))]
            batches.append([np.stack(site, 1) for site in zip(*each)])
        found[word] = [np.concatenate(site) for site in zip(*batches)]  # in the order in which they run
    pipe.unet.forward = forward
    for handle in handles:
        handle.remove()
    return found


def test_labels_probes_and_what_is_written_are_those_by_hand():
    pipe = model("toyworld-choice")
    by_hand = outputs_by_hand(pipe)

    def last(word):
        return [site[:, -1] for site in by_hand[word]]

    lengths = [
        np.mean([np.linalg.norm(last(word)[n], axis=1).mean() for word in by_hand])
        for n in range(len(last("person")))
    ]
    scaled = {
        word: np.concatenate([one / length for one, length in zip(last(word), lengths)], 1)
        for word in by_hand
    }
    words = np.repeat([False, True], len(scaled["woman"]))
    probe, scale = fitted(np.concatenate([scaled["woman"], scaled["man"]]), words)
    labels = probe.predict(scaled["person"] / scale)

    site = attention_sites(pipe, "self")[2]
    assert site.address == "unet.mid.attn.0.self"
    edit = choice(MAN, contexts=CONTEXTS, sites=[site.address], amount=0.7)
    texts = written(edit, [pipe.tokenizer])
    with torch.no_grad():
        found = measured(pipe, edit, texts, attention_sites(pipe, "self"))
    assert found.labels.tolist() == labels.tolist() and LEAST <= labels.sum() <= len(labels) - LEAST
    np.testing.assert_allclose(found.rows[site.address], by_hand["person"][2], atol=1e-4)

    units, wanted = [], []
    for rows in by_hand["person"][2].swapaxes(0, 1):
        weights = fitted(rows, labels)[0].coef_[0]
        units.append(weights / np.linalg.norm(weights))
        wanted.append((rows[labels] @ units[-1]).mean())
    pipe.scheduler.set_timesteps(STEPS)
    times = np.array([float(t) for t in pipe.scheduler.timesteps])
    pipe.scheduler.set_timesteps(CALLS)
    number = iter([int(np.abs(times - float(t)).argmin()) for t in pipe.scheduler.timesteps])

    def steer(module, args, output):
        call, values = next(number), output.double().numpy()
        missing = wanted[call] - values.mean(1) @ units[call]
        return torch.from_numpy(values + 0.7 * missing[:, None, None] * units[call]).to(output)

    prompts, seeds = ["a person with a dog", "a person"], [3, 4]
    plain = latents(pipe, prompts, seeds)
    handle = pipe.unet.mid_block.attentions[0].transformer_blocks[0].attn1.register_forward_hook(steer)
    expected = latents(pipe, prompts, seeds)
    handle.remove()
    with edits.apply(pipe, edit) as edited:
        steered = latents(pipe, prompts, seeds)
    assert np.abs(expected - plain).max() > 0.01
    np.testing.assert_allclose(steered, expected, atol=2e-3)
    assert edited.record["sites"] == [site.address] and [*edited.record["probe_accuracy"]] == [site.address]
    assert edited.record["labelled"] == {"woman": int((~labels).sum()), "man": int(labels.sum())}
    assert np.array_equal(latents(pipe, prompts, seeds), plain)  # undone bit for bit


def test_other_words_are_left_alone_and_a_row_is_steered_alike_in_any_batch():
    pipe = model("toyworld-choice")
    prompts, seeds = ["a person", "a woman", "a man", "a person with a dog", "a gentleman"], [5, 6, 7, 8, 9]
    plain, guided_plain = (latents(pipe, prompts, seeds, scale) for scale in (1.0, 2.0))
    before = weight_hash(pipe)
    with edits.apply(pipe, choice(layers=1, contexts=CONTEXTS)) as edited:
        found = latents(pipe, prompts, seeds)
        alone = latents(pipe, prompts[3:4], seeds[3:4])
        guided = latents(pipe, prompts, seeds, 2.0)
        assert edited.hash(before) != before == weight_hash(pipe)
        first = edited.hash(before)
    same = [False, True, True, False, True]
    assert [np.array_equal(*pair) for pair in zip(found, plain)] == same
    assert [np.array_equal(*pair) for pair in zip(guided, guided_plain)] == same
    np.testing.assert_allclose(found[3], alone[0], atol=1e-4)
    # the place that is known to choose has the best probe
    assert edited.record["sites"] == ["unet.mid.attn.0.self"] and edited.record["gate_told"] == 1
    assert edited.record["probe_accuracy"]["unet.mid.attn.0.self"] > 0.9
    assert edited.record["words_told"] > 0.6
    with edits.apply(pipe, choice(layers=1, contexts=CONTEXTS)) as again:
        assert again.hash(before) == first


@pytest.mark.slow
@pytest.mark.parametrize(("name", "best"), [("toyworld-choice", "steer_choice"), ("toyworld", "steer")])
def test_it_moves_what_is_chosen_where_no_word_decides_and_little_where_one_does(name, best):
    pipe, world = model(name), load_world()
    prompts = [text.replace("{person}", "person") for text in templates(16)]

    def read():
        images = sample(pipe, prompts, range(16), steps=5, guidance_scale=1.0, progress=False)
        return verdict(read_images(images), prompts, world)

    def between(kind, **options):
        """How far masculine and feminine edits draw the verdict apart."""
        found = []
        for word, other in (("woman", "man"), ("man", "woman")):
            shares = {word: 1.0} if kind == "keys_and_values" else {word: 1.0, other: 0.0}
            with edits.apply(pipe, Edit(kind=kind, words={"person": shares}, contexts=CONTEXTS, **options)):
                found.append(read())
        return (found[1] - found[0]).mean()

    moved = {
        "steer_choice": between("steer_choice"),
        "steer": between("steer"),
        "keys_and_values": between("keys_and_values", keep=["woman", "man"]),
    }
    print(name, {kind: round(float(value), 1) for kind, value in moved.items()})
    if best == "steer_choice":
        assert moved[best] > 3 * max(moved["steer"], moved["keys_and_values"])
    else:
        assert min(moved["steer"], moved["keys_and_values"]) > 3 * moved["steer_choice"]


@pytest.mark.parametrize(  # of random weights, some images of a word are like either of two others
    ("kind", "word", "pair"),
    [
        ("sd1", "people", ("woman", "man")),
        ("sd2", "person", ("woman", "man")),
        ("sdxl", "people", ("nurse", "doctor")),
    ],
)
def test_every_layout_is_steered_and_undone(kind, word, pair):
    pipe = tiny_pipeline(kind)
    pipe.set_progress_bar_config(disable=True)
    prompts, seeds = [one.replace("{person}", word) for one in CONTEXTS], [1, 2, 3]
    plain = latents(pipe, prompts, seeds)
    before = {name: value.clone() for name, value in pipe.unet.state_dict().items()}
    edit = Edit(kind="steer_choice", words={word: dict(zip(pair, (0.5, 0.5)))}, layers=2, contexts=CONTEXTS)
    with edits.apply(pipe, edit) as edited:
        found = latents(pipe, prompts, seeds)
    assert len(edited.record["sites"]) == 2 and not np.array_equal(found, plain)
    assert [*edited.record["probe_accuracy"]] == [site.address for site in attention_sites(pipe, "self")]
    assert np.array_equal(latents(pipe, prompts, seeds), plain)
    assert all(torch.equal(value, before[name]) for name, value in pipe.unet.state_dict().items())


def test_the_gate_is_open_to_the_word_alone():
    pipe = model("toyworld-choice")
    gate = WordGate(pipe, written(choice(keep=["human"]), [pipe.tokenizer]))
    assert 0.5 < gate.told < 1  # person and human mean the same
    gate = WordGate(pipe, written(choice(), [pipe.tokenizer]))
    assert gate.told == 1
    texts = ["a person on a chair", "two women and a person", "a man", "a dog", ""]
    with torch.no_grad():
        states = pipe.encode_prompt(texts, "cpu", 1, False)[0]
    assert gate.names(states).tolist()[::2] == [True, False, False] and not gate.names(states)[3]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"words": {"person": {"woman": 1.0}}}, "expected two words with their shares"),
        ({"words": {"person": {"woman": 0.7, "man": 0.6}}}, "expected shares of images"),
        ({"words": {"person": WOMAN, "human": MAN}}, "expected one word with kind steer_choice"),
        ({"words": {"person": WOMAN}, "ridge": 0.5}, "expected nothing with kind steer_choice"),
        ({"words": {"person": WOMAN}, "layers": 0}, "greater than or equal to 1"),
        ({"words": {"person": {"woman": 1.0}}, "kind": "steer", "layers": 1}, "nothing with kind steer, got"),
    ],
)
def test_what_it_does_not_take_is_refused(options, said):
    with pytest.raises(ValidationError, match=said):
        Edit(**{"kind": "steer_choice", **options})


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (choice(sites=["unet.mid.attn.0.cross"]), "edit.sites: expected a self-attention, got"),
        (choice(sites=["text.final"]), "edit.sites: expected a self-attention, got 'text.final', which is"),
        (
            Edit(kind="steer_choice", words={"lady": WOMAN}, contexts=CONTEXTS),
            "images of 'lady' like those of 'man', got 0: add contexts, or use kind steer",
        ),
    ],
)
def test_what_the_model_cannot_take_is_one_line(edit, said):
    pipe = model("toyworld")
    hooks = [len(part._forward_hooks) + len(part._forward_pre_hooks) for part in pipe.unet.modules()]
    with pytest.raises(UserError) as error:
        edits.apply(pipe, edit)
    assert said in str(error.value) and len(str(error.value).splitlines()) == 1
    assert hooks == [len(part._forward_hooks) + len(part._forward_pre_hooks) for part in pipe.unet.modules()]
