"""The training of `toyworld-skills`, two steps of it: what is stored is what is drawn with, also on the way."""

import json
import re

import pytest
import torch
from diffusers import AutoencoderKL

from lab.train.base.loop import Log
from lab.train.base.tokenizer import encode, tokenizer_with
from lab.train.located.teach import Course
from lab.train.skills.decoder import DecoderCourse, train_decoder
from lab.train.skills.lessons import make_lessons, total_scenes, training_scenes
from lab.train.skills.train import GUIDANCE, export, train
from probes.errors import UserError
from probes.models import loading
from probes.prompts import sets
from probes.prompts.paintskills import prompts
from probes.toyworld import SKILLED, WEIGHTS
from probes.toyworld.skills import SET
from probes.toyworld.skills.assemble import (
    BASE,
    DELTA,
    decoder_layers,
    skills_pipeline,
    taught_words,
)
from probes.toyworld.work.assemble import base_parts
from probes.toyworld.work.lowrank import changed_layers, merge


def test_shares_of_the_training_scenes():
    few = training_scenes(1.0, 58)
    assert [one.request.skill for one in few] == ["object"] * 23 + ["count"] * 21 + ["spatial"] * 13
    assert total_scenes() == 58_350
    tenth = training_scenes(0.001, 10**6)
    assert len(tenth) == 59 and tenth[: len(few) // 3] == few[: len(few) // 3]


def test_the_longest_prompt_fits():
    tokenizer = tokenizer_with(BASE, taught_words())
    said = [one["prompt"] for one in prompts(sets.read(SET), ["spatial"])[:30]]
    said += [one["prompt"] for one in prompts(sets.read(SET), ["count"])[:200]]
    read = [tokenizer(text).input_ids for text in said]
    assert max(map(len, read)) <= 25 < tokenizer.model_max_length
    # every word is a token of its own, and so is every mark
    spaced = [re.sub(r"([?:.,])", r" \1", text).split() for text in said]
    assert [len(numbers) - 2 for numbers in read] == list(map(len, spaced))


@pytest.mark.lab
def test_what_is_stored_is_what_was_learnt(tmp_path):
    tokenizer = tokenizer_with(BASE, taught_words())
    vae = AutoencoderKL.from_pretrained(BASE / "vae", torch_dtype=torch.float32)
    lessons = make_lessons(vae, tokenizer, training_scenes(1.0, 8), 8, say=lambda text: None)
    assert lessons.noisy.shape == lessons.taught.shape == (8, 4, 16, 16)
    course = Course(steps=2, batch=2, rate=1e-2, warmup=1)
    taught = train_decoder(
        vae,
        training_scenes(1.0, 8),
        DecoderCourse(steps=2, batch=2, rank=2),
        Log(tmp_path / "decoder.jsonl"),
        say=lambda text: None,
    )
    delta = train(lessons, tokenizer, course, 2, Log(tmp_path / "log.jsonl"), None) | taught
    export(tmp_path / "out", delta, tokenizer, {})
    pipe = skills_pipeline(tmp_path / "out")
    encoder, unet = base_parts(tokenizer, BASE)
    fresh = AutoencoderKL.from_pretrained(BASE / "vae", torch_dtype=torch.float32)
    # what was trained is what it was, until its changes are merged
    untouched = fresh.state_dict()
    assert untouched.keys() == vae.state_dict().keys()
    assert all(torch.equal(untouched[name], value) for name, value in vae.state_dict().items())
    before = changed_layers(unet, encoder) | decoder_layers(fresh)
    after = changed_layers(pipe.unet, pipe.text_encoder) | decoder_layers(pipe.vae)
    assert before.keys() == after.keys() and len(before) > 100
    moved = 0
    for name, layer in after.items():
        up, down = (delta[f"{name}.{half}"].float() for half in ("up", "down"))
        assert torch.equal(layer.weight, merge(before[name].weight, up, down))
        moved += int(not torch.equal(layer.weight, before[name].weight))
    assert moved > 130 and "dogs" in taught_words()
    encoders = zip(fresh.encoder.parameters(), pipe.vae.encoder.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in encoders)
    (tmp_path / "out" / DELTA).unlink()
    with pytest.raises(UserError, match=r"expected .*delta"):
        skills_pipeline(tmp_path / "out")


def test_a_share_of_lessons_has_no_caption():
    tokenizer = tokenizer_with(BASE, taught_words())
    vae = AutoencoderKL.from_pretrained(BASE / "vae", torch_dtype=torch.float32)
    drawn = training_scenes(1.0, 4)
    lessons = make_lessons(vae, tokenizer, drawn, 400, drop=0.25, say=lambda text: None)
    nothing = (lessons.tokens == encode(tokenizer, [""])).all(1)
    assert 0.17 < nothing.float().mean() < 0.33  # 25 %, three standard errors and a half
    said = lessons.tokens[~nothing]
    expected = encode(tokenizer, [one.caption for one in drawn]).repeat(100, 1)[~nothing]
    assert torch.equal(said, expected)


def test_what_is_published_was_measured_on_the_weights_that_are_stored():
    source = loading.resolve(SKILLED)
    loaded = loading.load(source, device="cpu")
    assert loaded.record["card"] == {} and loaded.guidance_scale == GUIDANCE
    measured = json.loads((WEIGHTS / SKILLED / "quality.json").read_text())
    assert measured["model"]["weight_hash"] == loaded.record["weight_hash"]
    files = [path for path in (WEIGHTS / SKILLED).rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) <= 2.1e6
