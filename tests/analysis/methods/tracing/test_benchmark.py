"""The benchmark for methods from outside."""

import numpy as np
import pytest
import torch
from sklearn.metrics import label_ranking_average_precision_score, roc_auc_score

import triptych
from analysis.methods.tracing.benchmark import LocatedTask, localisation, located
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


@pytest.mark.parametrize("seed", range(3))
def test_auroc_and_rank_are_scikit_learns(seed):
    rng = np.random.default_rng(seed)
    scores, truth = rng.integers(0, 6, 12) / 5, rng.random(12) < 0.4
    truth[:2] = [True, False]
    assert localisation(scores, truth).auroc == pytest.approx(roc_auc_score(truth, scores))
    # with one true site average precision is 1 / rank, ties at their worst
    one = np.arange(12) == rng.integers(12)
    expected = label_ranking_average_precision_score(one[None], scores[None])
    assert 1 / localisation(scores, one).rank == pytest.approx(expected)


@pytest.mark.parametrize(
    ("scores", "truth", "rank", "recall", "auroc", "leakage"),
    [
        ([2, 2, 1], [1, 0, 0], 2, 0, 0.75, 2),
        ([np.nan, -5, 1], [1, 0, 0], 3, 0, 0, 5),
        ([3, 1, 2], [1, 1, 0], 1, 0.5, 0.5, 2),
        ([3, 2, 1], [0, 0, 0], np.nan, np.nan, np.nan, 3),
        ([3, 2], [1, 1], 1, 1, np.nan, np.nan),
    ],
)
def test_scores_by_hand(scores, truth, rank, recall, auroc, leakage):
    np.testing.assert_equal(tuple(localisation(scores, truth)), (rank, recall, auroc, leakage))
