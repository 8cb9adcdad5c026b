"""The benchmark for methods from outside."""

import pytest
import torch

import triptych
from analysis.methods.tracing.benchmark import LocatedTask, located
from probes.errors import UserError
from probes.toyworld.scene import parse
from probes.toyworld.world import load_world

TASKS = {task.name: task for task in located()}


def test_it_holds_models_with_one_place_with_several_and_with_none():
    assert triptych.benchmarks.located() == located()
    places = {name.removeprefix("toyworld-"): len(task.true_sites) for name, task in TASKS.items()}
    assert places == {"coded-null": 0, "cross-4": 1, "cross-5": 1, "redundant": 2, "opposing": 2}
    assert TASKS["toyworld-cross-4"].true_sites == ("unet.up.1.attn.0.cross",)
    assert {task.kind for task in TASKS.values()} == {"null", "cross-attention", "redundant", "opposing"}


def test_its_sentences_are_read_by_the_world():
    prompts = next(iter(TASKS.values())).prompts
    assert len({one.noise_seed for one in prompts}) == len(prompts) == 24
    named = [parse(text, load_world()) for one in prompts for text in one.texts.values()]
    assert all(one.slots or one.objects or one.place for one in named)


def test_a_method_from_outside_is_scored():
    task = TASKS["toyworld-redundant"]
    scores = dict.fromkeys(task.sites, 0.1)
    first, second = task.true_sites
    scores |= {first: -3.0, second: 2.0, "unet.mid.attn.0.cross": float("nan")}
    found = task.score(scores)
    assert (found.rank, found.recall, found.auroc) == (1, 1, 1)
    assert found.leakage == pytest.approx(0.1)
    with pytest.raises(UserError, match=r"expected a score for each of its sites, which differ in unet\.mid"):
        task.score({site: 1.0 for site in task.sites if "mid" not in site})


def test_its_verdict_tells_the_words_apart():
    task: LocatedTask = TASKS["toyworld-cross-4"]
    prompt = task.prompts[0]
    images = task.pipe(
        [prompt.texts["feminine"], prompt.texts["masculine"]],
        generator=[torch.Generator().manual_seed(prompt.noise_seed) for _ in range(2)],
        num_inference_steps=task.steps,
        output_type="np",
    ).images
    feminine, masculine = task.verdict(
        (images * 255).round().astype("uint8"), list(prompt.texts.values())[1:]
    )
    assert feminine < 0 < masculine


def test_models_are_asked_for_by_name():
    names = ("toyworld-opposing", "toyworld-coded-null")
    assert located(*names) == tuple(TASKS[name] for name in names)
    with pytest.raises(UserError, match=r"a causal structure, got 'toyworld': `triptych models`"):
        located("toyworld")
