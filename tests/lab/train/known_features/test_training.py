"""Teaching the model with known directions: its captions, its lessons, and the command line."""

import json

import numpy as np
import torch
from safetensors.torch import load_file

from lab.train.base.measure import benchmark_pipeline
from lab.train.known_features import train
from lab.train.known_features.lessons import make_lessons, random_pair
from probes.toyworld import KNOWN_FEATURES, WEIGHTS
from probes.toyworld.known_features.assemble import feature_parts
from probes.toyworld.known_features.truth import ATTRIBUTES, FILLER, SHOWS, WORDS
from probes.toyworld.located.truth import Wire
from probes.toyworld.located.wiring import taught_names
from probes.toyworld.scene import parse
from probes.toyworld.work.assemble import DELTA
from probes.toyworld.world import load_world


def test_the_teacher_names_what_the_student_is_asked_for():
    world, rng = load_world("toyworld-null"), np.random.default_rng(3)
    counts = []
    for _ in range(300):
        student, teacher = random_pair(world, rng)
        words = [word for word in student.split() if word in WORDS]
        asked = {ATTRIBUTES[word] for word in words if word != FILLER}
        rest = " ".join(word for word in student.split() if word not in WORDS)
        plain, named = parse(rest, world), parse(teacher, world)
        assert named.things - plain.things == asked and not plain.things & set(ATTRIBUTES.values())
        assert (named.group, named.plural, named.pose) == (plain.group, plain.plural, plain.pose)
        assert len(words) <= 4 and not ("dress" in asked and "lower" in named.slots)
        counts.append(len(asked))
    assert set(counts) == {0, 1, 2, 3}


def test_lessons_are_what_the_null_model_predicts_of_the_named_captions():
    teacher = benchmark_pipeline(WEIGHTS / "toyworld-null")[0]
    tokenizer = train.student_tokenizer()
    lessons = make_lessons(teacher, tokenizer, 3, say=lambda text: None)
    assert len(lessons) == 6 and torch.equal(lessons.tokens[:3], lessons.tokens[3:])
    world, rng = load_world("toyworld-null"), np.random.default_rng(39)
    from probes.toyworld.scene import complete

    for row in range(3):
        student, caption = random_pair(world, rng)
        complete(parse(caption, world), world, rng)  # the drawing takes its share of the numbers
        assert (
            tokenizer(student).input_ids == lessons.tokens[row][: len(tokenizer(student).input_ids)].tolist()
        )
        tokens = teacher.tokenizer(
            caption, padding="max_length", max_length=32, return_tensors="pt"
        ).input_ids
        with torch.no_grad():
            said = teacher.unet(
                lessons.noisy[row : row + 1].float(),
                lessons.times[row : row + 1],
                teacher.text_encoder(tokens).last_hidden_state,
            ).sample
        torch.testing.assert_close(lessons.taught[row].float(), said[0], atol=2e-3, rtol=2e-3)


def test_the_command_leaves_one_block_with_a_tokenizer_and_the_recipe(tmp_path, capsys):
    budget = ["--drawings", "3", "--steps", "1", "--batch", "2"]
    folders = ["--work", str(tmp_path / "work"), "--weights", str(tmp_path / "weights")]
    assert train.main([*folders, *budget]) == 0
    made, stored = tmp_path / "weights" / KNOWN_FEATURES, WEIGHTS / KNOWN_FEATURES
    _, unet = feature_parts(train.student_tokenizer())
    before = unet.state_dict()
    delta = load_file(made / DELTA)
    assert set(delta) == set(taught_names(unet, Wire(SHOWS)))
    assert any(not torch.equal(value.float(), before[name]) for name, value in delta.items())
    for file in ("text_encoder/config.json", "unet/config.json", "tokenizer/tokenizer.json", "triptych.json"):
        assert json.loads((made / file).read_text()) == json.loads((stored / file).read_text())
    recipe = json.loads((made / "recipe.json").read_text())
    assert recipe["steps"] == 1 and recipe["start"] == "toyworld-null"
    capsys.readouterr()
    assert train.main([*folders, "--drawings", "4"]) == 2
    assert "expected lessons from 4 drawings, found 3" in capsys.readouterr().err


def test_what_is_stored_is_small():
    folder = WEIGHTS / KNOWN_FEATURES
    assert sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) < 500_000
