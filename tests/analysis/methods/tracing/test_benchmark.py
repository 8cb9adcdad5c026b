"""The benchmark for methods from outside."""

import numpy as np
import pytest
import torch

import triptych
from analysis.methods.tracing.benchmark import ChoiceTask, LocatedTask, SetScore, located
from probes.errors import UserError
from probes.toyworld.scene import parse
from probes.toyworld.world import load_world

TASKS = {task.name: task for task in located()}


def test_it_holds_models_with_one_place_with_several_and_with_none():
    assert triptych.benchmarks.located() == located()
    assert TASKS["toyworld-decoy"].true_sites == ()
    assert TASKS["toyworld-cross-3"].sufficient == (("unet.mid.attn.0.cross",),)
    assert len(TASKS["toyworld-redundant"].sufficient) == 2 and len(TASKS["toyworld-redundant"].needed) == 1
    assert len(TASKS["toyworld-distributed"].true_sites) == 5


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


def test_sets_of_places_are_scored():
    task = TASKS["toyworld-both"]
    first, second = task.true_sites
    assert task.score_sets([[second, first]]) == SetScore(1.0, 1.0)
    assert task.score_sets([[first], [second], [first, second]]) == SetScore(1 / 3, 1.0)
    assert task.score_sets([[first], [second]], "needed") == SetScore(1.0, 1.0)
    nothing = task.score_sets([])
    assert np.isnan(nothing.precision) and nothing.recall == 0
    for name in ("toyworld-distributed", "toyworld-decoy"):
        with pytest.raises(UserError, match=r"sets of places that are known \(sufficient\), got one without"):
            TASKS[name].score_sets([[first]])


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
    assert located("toyworld-both", "toyworld-decoy") == (TASKS["toyworld-both"], TASKS["toyworld-decoy"])
    with pytest.raises(
        UserError, match=r"a causal structure or toyworld-choice, got 'toyworld': `triptych models`"
    ):
        located("toyworld")


@pytest.mark.parametrize(
    ("name", "sites", "place", "pairs"),
    [
        ("toyworld-choice", 7, "unet.mid.attn.0.self", 48),
        ("toyworld-dit-choice", 6, "dit.block.1.self", 24),  # and five joint attentions
    ],
)
def test_a_choice_is_a_task_of_its_own(name, sites, place, pairs):
    assert name not in TASKS
    (task,) = located(name)
    assert isinstance(task, ChoiceTask) and task.kind == "choice"
    assert len(task.sites) == sites and task.true_sites == (place,)
    assert task.score({site: float(site == place) for site in task.sites}).rank == 1
    assert len(task.pairs) == pairs and len({pair[0].texts["neutral"] for pair in task.pairs}) == 24
    assert all(first.texts == second.texts for first, second in task.pairs)
    some = [prompt for pair in task.pairs[:6] for prompt in pair]
    texts = [prompt.texts["neutral"] for prompt in some]
    images = task.pipe(
        texts,
        generator=[torch.Generator().manual_seed(prompt.noise_seed) for prompt in some],
        num_inference_steps=task.steps,
        guidance_scale=1.0,
        output_type="np",
    ).images
    feminine, masculine = task.verdict((images * 255).round().astype("uint8"), texts).reshape(-1, 2).T
    assert feminine.mean() < -1 and masculine.mean() > 1
