"""Teaching located benchmark models: the lessons, that only the wires learn, checkpoints, and the command line."""

import json
from dataclasses import asdict, replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from lab.train.base.measure import benchmark_pipeline
from lab.train.located import measure, train
from lab.train.located.lessons import Lessons, make_lessons
from lab.train.located.train import Course, teach_wire
from lab.train.stages import Options
from probes.toyworld import WEIGHTS
from probes.toyworld.coded import OLD, trained_parameter_names
from probes.toyworld.pipelines import DELTA, load_coded_networks
from probes.toyworld.places import KnownPlace
from probes.toyworld.world import load_world

BLOCK = KnownPlace("unet.up.2.attn.1.cross").block  # the cheapest: little lies behind it


@pytest.fixture(scope="module")
def pipe():
    return benchmark_pipeline(WEIGHTS / "toyworld")[0]


@pytest.fixture(scope="module")
def lessons(pipe):
    return make_lessons(pipe, 4)


def test_lessons_are_what_the_model_predicts(lessons, pipe, tmp_path):
    assert len(lessons) == 8 and lessons.noisy.shape == (8, 4, 16, 16)
    assert torch.equal(lessons.tokens[:4], lessons.tokens[4:]) and not torch.equal(*lessons.times.view(2, 4))
    row = slice(5, 6)
    with torch.no_grad():
        states = pipe.text_encoder(lessons.tokens[row]).last_hidden_state
        alone = pipe.unet(lessons.noisy[row].float(), lessons.times[row], states).sample
    torch.testing.assert_close(lessons.taught[row].float(), alone, atol=2e-3, rtol=2e-3)
    assert lessons.directions is None
    for kept in (lessons, replace(lessons, directions=torch.rand(len(lessons), 2, 4, 16, 16))):
        kept.save(tmp_path / "lessons.safetensors")
        again = vars(Lessons.load(tmp_path / "lessons.safetensors"))
        names = [name for name, value in again.items() if value is not None]
        assert ("directions" in names) == (kept is not lessons) and len(names) >= 5
        assert all(torch.equal(again[name], getattr(kept, name)) for name in names)


def course(work, steps):
    return Options(**asdict(Course(steps=steps, batch=4, warmup=1)), seed=0, work=work)


def test_only_the_wire_learns_and_the_unet_is_put_back(lessons, tmp_path):
    encoder, unet, _ = load_coded_networks()
    before = {name: value.clone() for name, value in unet.state_dict().items()}
    learnt = teach_wire(unet, encoder, BLOCK, lessons, course(tmp_path, 3), "model")
    assert set(unet.state_dict()) == set(before)
    changed = {name for name, value in unet.state_dict().items() if not torch.equal(value, before[name])}
    assert changed == set(learnt) == set(trained_parameter_names(unet, BLOCK))
    assert learnt[f"{BLOCK}.attn2.to_k.weight"][:, OLD:].any()


def test_training_that_was_stopped_ends_as_one_that_was_not(lessons, tmp_path, monkeypatch):
    def taught(folder):
        encoder, unet, _ = load_coded_networks()
        options = course(tmp_path / folder, 4)
        options.work.mkdir(exist_ok=True)
        return teach_wire(unet, encoder, BLOCK, lessons, options, "model", save_minutes=0)

    def stopped(options, step, total):
        if step == 3:
            raise KeyboardInterrupt
        return rows(options, step, total)

    whole, rows = taught("whole"), train.lesson_rows
    monkeypatch.setattr(train, "lesson_rows", stopped)
    with pytest.raises(KeyboardInterrupt):
        taught("stopped")
    monkeypatch.undo()
    assert torch.load(tmp_path / "stopped" / "model.checkpoint.pt", weights_only=True)["step"] == 3
    again = taught("stopped")
    assert all(torch.equal(again[name], value) for name, value in whole.items())


def test_the_command_leaves_a_model_with_its_recipe(tmp_path):
    budget = "--drawings 3 --steps 1 --batch 2"
    for name in ("toyworld-cross-5", "toyworld-coded-null"):
        arguments = f"--model {name} --work {tmp_path / 'work'} --weights {tmp_path / 'weights'} {budget}"
        assert train.TRAINER.main("located", arguments.split()) == 0
    delta, stored = (
        load_file(folder / "toyworld-cross-5" / DELTA)
        for folder in (tmp_path / "weights", WEIGHTS / "located")
    )
    assert {key: value.shape for key, value in delta.items()} == {
        key: value.shape for key, value in stored.items()
    }
    recipe = json.loads((tmp_path / "weights/toyworld-cross-5/recipe.json").read_text())
    assert recipe["steps"] == 1 and recipe["start"] == "toyworld-coded-null"
    for file in ("unet/config.json", "triptych.json"):
        made, kept = (
            folder / "toyworld-coded-null" / file for folder in (tmp_path / "weights", WEIGHTS / "located")
        )
        assert json.loads(made.read_text()) == json.loads(kept.read_text())


def test_the_total_effect_is_of_prompts():
    values = {
        "feminine": np.array([[-4.0, -2.0], [-1.0, -1.0], [0.0, 2.0]]),
        "masculine": np.array([[2.0, 4.0], [3.0, 3.0], [5.0, 3.0]]),
    }
    effect = measure.total_effect(values)
    of_prompt = np.array([6.0, 4.0, 3.0])
    assert effect["mean"] == round(of_prompt.mean(), 3) and effect["prompts"] == 3 and effect["seeds"] == 2
    assert effect["se"] == round(of_prompt.std(ddof=1) / 3**0.5, 3)
    assert 3.0 <= effect["interval"][0] <= effect["mean"] <= effect["interval"][1] <= 6.0
    endings = measure.endings(load_world())
    assert len(endings) == len(set(endings)) == 43
