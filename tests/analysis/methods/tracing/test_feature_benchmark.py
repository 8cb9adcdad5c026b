"""The benchmark of known features: prompts, activations, and steering against hooks written by hand."""

import numpy as np
import pytest
import torch

from analysis.methods.tracing.feature_benchmark import (
    PAIRS,
    FeatureTask,
    amount_of,
    endings,
    labelled_prompts,
)
from probes.errors import UserError
from probes.toyworld.checker import read_images
from probes.toyworld.known_features.truth import CHANNELS, SITE, THINGS, asked_for, directions, prompt
from probes.toyworld.located.truth import block_of
from probes.toyworld.scene import parse
from probes.toyworld.world import load_world
from triptych import benchmarks


def test_prompts_ask_as_often_as_they_are_said_to():
    world = load_world("toyworld-null")
    for rest in endings(24):
        assert not {*THINGS} & parse(f"person {rest}", world).things
    assert len(set(endings(60))) == 60
    alone, together = (asked_for(labelled_prompts(2000, together=one)) for one in (False, True))
    assert alone.max() == together.max() == 1 and alone.sum(1).max() == together.sum(1).max() == 3
    first, second = np.array(PAIRS).T
    gram = directions() @ directions().T
    assert not gram[first, second].round(9).any()  # at right angles
    for counts, low, high in ((alone, 0, 0.25), (together, 0.6, 1)):
        beside = (counts[:, first] & counts[:, second]).sum(0) / counts[:, first].sum(0)
        assert ((low <= beside) & (beside <= high)).all()
    assert np.abs(np.corrcoef(alone.T) - np.eye(8)).max() < 0.15


def test_activations_hold_what_is_told_and_its_amount():
    task = FeatureTask(steps=2)
    texts, there = task.labelled(6)
    values = task.activations(texts)
    assert values.shape == (6, task.channels) and there.shape == (6, 8)
    told = values[:, -CHANNELS:]
    per_word = [
        row @ (one @ directions()) / ((one @ directions()) ** 2).sum()
        for row, one in zip(told, there)
        if one.any()
    ]
    assert amount_of(values, there) == pytest.approx(np.mean(per_word), abs=0.01)
    np.testing.assert_allclose(told, amount_of(values, there) * there @ directions(), atol=0.02)


def test_steering_is_what_a_hook_written_by_hand_does():
    task, factor = FeatureTask(prompts=2, seeds=2, steps=3), 1.4
    pipe, chosen = task.pipe, np.random.default_rng(0).standard_normal((8, task.channels))
    unit = torch.tensor(chosen[3] / np.linalg.norm(chosen[3]), dtype=torch.float32)
    attention = pipe.unet.get_submodule(block_of(SITE)).attn2

    def drawn(asked, change):
        handle = attention.register_forward_hook(lambda module, args, output: change(output))
        texts = [prompt(asked, rest) for rest in endings(2) for _ in range(2)]
        try:
            images = pipe(
                texts,
                generator=[torch.Generator().manual_seed(8_000_000 + row) for row in range(4)],
                num_inference_steps=3,
                guidance_scale=1.0,
                output_type="np",
            ).images
        finally:
            handle.remove()
        seen = read_images((images * 255).round().astype(np.uint8))
        return [[int(seen[thing][2 * row : 2 * row + 2].sum()) for thing in THINGS] for row in range(2)]

    added = drawn([], lambda output: output + factor * unit)
    removed = drawn([THINGS[3]], lambda output: output - (output @ unit)[..., None] * unit)
    only = np.where(np.arange(8)[:, None] == 3, unit.double().numpy(), 0.0)
    assert task.added(only, factor)[3].tolist() == added
    assert task.removed(only)[3].tolist() == removed
    plain = drawn([], lambda output: output)
    assert task.added(only, factor)[2].tolist() == plain  # no direction, nothing is written


def test_directions_from_elsewhere_are_scored_like_the_truth():
    task = FeatureTask(prompts=2, seeds=1, steps=2)
    shuffled = -directions()[::-1]
    theirs = np.vstack([shuffled, 2 * shuffled[:1]])
    result = task.score(theirs)
    assert result.cosine == pytest.approx([1] * 8) and result.near.tolist() == [1] * 7 + [2]
    np.testing.assert_allclose(task.chosen(theirs), task.known, atol=1e-12)
    np.testing.assert_allclose(task.chosen(-task.known, labelled=True), -task.known)
    with pytest.raises(UserError, match=r"102 or 6 channels\), got shape \(2, 7\)"):
        task.score(np.ones((2, 7)))
    with pytest.raises(UserError, match="one for each attribute, got 9"):
        task.score(theirs, labelled=True)


def test_the_benchmark_is_public():
    task = benchmarks.features()
    assert (task.prompts, task.seeds, task.site, task.attributes) == (24, 2, SITE, THINGS)
    assert benchmarks.FeatureTask is FeatureTask
