"""The training of `toyworld-skills`, two steps of it: what is stored is what is drawn with, also on the way."""

import re

import pytest
import torch
from diffusers import AutoencoderKL

from probes.errors import UserError
from probes.prompts import sets
from probes.prompts.paintskills import prompts
from probes.toyworld.located.teach import Course
from probes.toyworld.skills.assemble import (
    BASE,
    DELTA,
    changed_layers,
    new_tokenizer,
    skills_pipeline,
    taught_words,
)
from probes.toyworld.skills.lessons import make_lessons, training_scenes
from probes.toyworld.skills.scenes import SET
from probes.toyworld.skills.train import averaged, export, train
from probes.toyworld.training.loop import Log
from probes.toyworld.work.assemble import base_parts
from probes.toyworld.work.lowrank import merge


def test_shares_of_the_training_scenes():
    few = training_scenes(1.0, 58)
    assert [one.asked.skill for one in few] == ["object"] * 23 + ["count"] * 21 + ["spatial"] * 13
    tenth = training_scenes(0.001, 10**6)
    assert len(tenth) == 59 and tenth[: len(few) // 3] == few[: len(few) // 3]


def test_the_longest_prompt_fits():
    tokenizer = new_tokenizer()
    said = [one["prompt"] for one in prompts(sets.read(SET), ["spatial"])[:30]]
    said += [one["prompt"] for one in prompts(sets.read(SET), ["count"])[:200]]
    read = [tokenizer(text).input_ids for text in said]
    assert max(map(len, read)) <= 25 < tokenizer.model_max_length
    # every word is a token of its own, and so is every mark
    spaced = [re.sub(r"([?:.,])", r" \1", text).split() for text in said]
    assert [len(numbers) - 2 for numbers in read] == list(map(len, spaced))


def test_what_is_stored_is_what_was_learnt(tmp_path):
    tokenizer = new_tokenizer()
    vae = AutoencoderKL.from_pretrained(BASE / "vae", torch_dtype=torch.float32)
    lessons = make_lessons(vae, tokenizer, training_scenes(1.0, 8), 8, say=lambda text: None)
    assert lessons.noisy.shape == lessons.taught.shape == (8, 4, 16, 16)
    course = Course(steps=2, batch=2, rate=1e-2, warmup=1)
    delta = train(lessons, tokenizer, course, 2, Log(tmp_path / "log.jsonl"), None)
    export(tmp_path / "out", delta, tokenizer, {})
    pipe = skills_pipeline(tmp_path / "out")
    encoder, unet = base_parts(tokenizer, BASE)
    before, after = changed_layers(unet, encoder), changed_layers(pipe.unet, pipe.text_encoder)
    assert before.keys() == after.keys() and len(before) > 100
    moved = 0
    for name, layer in after.items():
        up, down = (delta[f"{name}.{half}"].float() for half in ("up", "down"))
        assert torch.equal(layer.weight, merge(before[name].weight, up, down))
        moved += int(not torch.equal(layer.weight, before[name].weight))
    assert moved > 100 and "dogs" in taught_words()
    (tmp_path / "out" / DELTA).unlink()
    with pytest.raises(UserError, match=r"expected .*delta"):
        skills_pipeline(tmp_path / "out")


def test_what_a_checkpoint_holds_is_what_would_be_stored(tmp_path, monkeypatch):
    from probes.toyworld.skills import train as module

    asked = {}

    def teach(part, predict, lessons, course, log, *, checkpoint, save_every):
        asked.update(checkpoint=checkpoint, every=save_every)
        from probes.toyworld.located.teach import _keep
        from probes.toyworld.training.loop import MovingAverage

        values = [value for value in part.parameters() if value.requires_grad]
        optimiser = torch.optim.AdamW(values)
        for value in values:
            value.grad = torch.ones_like(value)
        optimiser.step()
        average = MovingAverage(part, 0.9)
        _keep(checkpoint, 1, part, average, optimiser)

    monkeypatch.setattr(module, "teach", teach)
    path = tmp_path / "c.safetensors"
    delta = train(None, new_tokenizer(), Course(), 2, Log(tmp_path / "log.jsonl"), path)
    assert asked == {"checkpoint": path, "every": 50}
    under_way = averaged(path)
    assert under_way.keys() == delta.keys()
    assert all(torch.equal(under_way[name], delta[name]) for name in delta)
