"""Teaching `toyworld-work`: the lessons, what learns, what is stored, and faults of what is stored."""

from dataclasses import asdict

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from lab.train.base.measure import benchmark_pipeline
from lab.train.base.tokenizer import tokenizer_with
from lab.train.stages import Options
from lab.train.work import train
from lab.train.work.lessons import UNTOLD, make_lessons, sketches
from probes.toyworld import WEIGHTS, WORK
from probes.toyworld.pipelines import BASES, new_words, work_pipeline
from probes.toyworld.world import load_world


@pytest.fixture(scope="module")
def teacher():
    return benchmark_pipeline(WEIGHTS / "toyworld")[0]


@pytest.fixture(scope="module")
def drawn():
    return sketches(load_world(WORK), 6, seed=2)


@pytest.fixture(scope="module")
def tokenizer():
    return tokenizer_with(BASES[WORK], new_words())


@pytest.fixture(scope="module")
def lessons(teacher, tokenizer, drawn):
    return make_lessons(teacher, tokenizer, drawn, prior=0.7)


@torch.no_grad()
def velocity(pipe, text, noisy, time):
    tokens = pipe.tokenizer(text, padding="max_length", max_length=32, return_tensors="pt").input_ids
    return pipe.unet(noisy.float(), time, pipe.text_encoder(tokens).last_hidden_state).sample


def posterior_mixture(teacher, texts, noisy, time, planted):
    """By NumPy: the share of *man* in what is said of the neutral word, 0.7 planted, taken to another prior."""
    neutral, woman, man = (velocity(teacher, text, noisy, time).double().numpy() for text in texts)
    apart = (man - woman).ravel()
    share = np.clip((neutral - woman).ravel() @ apart / (apart @ apart), 1e-4, 1 - 1e-4)
    of_man, of_woman = share / 0.7 * planted, (1 - share) / 0.3 * (1 - planted)
    return torch.from_numpy(woman + of_man / (of_man + of_woman) * (man - woman)).float()


def test_a_lesson_is_what_toyworld_predicts_but_for_skins(lessons, teacher, drawn):
    work = ["works" in text for text in drawn.captions]
    assert len(lessons) == 12 and True in work and False in work and any(drawn.mixture)
    said = []
    for row in range(12):
        here, at = (lessons.noisy[row, None], lessons.times[row, None]), row % 6
        texts, planted = drawn.mixture[at], drawn.lean[at]
        said.append(
            posterior_mixture(teacher, texts, *here, planted)
            if texts
            else velocity(teacher, drawn.plain[at], *here)
        )
    said = torch.cat(said)
    away = (lessons.taught.float() - said).square().mean(1)
    plain = ~torch.tensor(work).repeat(2)
    told = lessons.zones & (lessons.times < UNTOLD).view(-1, 1, 1)
    assert away[plain][~told[plain]].max() < 1e-5 and told[plain].any()
    assert away[told].mean() > 10 * away[~told].mean() and away[~told].max() > 1e-5


@pytest.mark.lab
def test_what_is_stored_of_a_short_training_predicts_what_was_learnt(lessons, tokenizer, teacher, tmp_path):
    course = asdict(train.WorkRecipe(steps=2, batch=4, warmup=1, rate=1e-2, rank=2))
    options = Options(**course, seed=0, work=tmp_path, weights=tmp_path)
    delta = train.train(lessons, tokenizer, options)
    assert {value.dtype for value in delta.values()} == {torch.float16}
    save_file(delta, tmp_path / f"{WORK}.safetensors")
    train.run_export(options)
    pipe = work_pipeline(WORK, tmp_path / WORK)
    noisy, time = lessons.noisy[:1], lessons.times[:1]
    assert not torch.equal(
        velocity(pipe, ["a woman"], noisy, time), velocity(teacher, ["a woman"], noisy, time)
    )
    # the matrices' product by NumPy, in float64
    name = "mid_block.attentions.0.transformer_blocks.0.attn2.to_k"
    up, down = (delta[f"unet.{name}.{half}"].double().numpy() for half in ("up", "down"))
    before = teacher.unet.get_submodule(name).weight.detach().double().numpy()
    np.testing.assert_array_equal(
        pipe.unet.get_submodule(name).weight.detach(), (before + up @ down).astype("float32")
    )
