"""Recovery of known features and steering, against numbers made in other ways."""

import json
from itertools import permutations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import optimize, stats

from lab.validate.tracing.feature_page import page, steering
from lab.validate.tracing.feature_recovery import (
    difference_of_means,
    matched,
    principal_components,
    probe_directions,
    recovery,
)
from lab.validate.tracing.feature_steering import (
    PAIRS,
    Trial,
    activations,
    amount,
    endings,
    known,
    labelled_prompts,
)
from lab.validate.tracing.features import main, scored
from probes.models import loading
from probes.toyworld import KNOWN_FEATURES
from probes.toyworld.checker import read_images
from probes.toyworld.known_features.truth import CHANNELS, SITE, THINGS, asked_for, directions, prompt
from probes.toyworld.located.truth import block_of
from probes.toyworld.scene import parse
from probes.toyworld.world import load_world

STORED = Path(__file__).parents[4] / "docs/validation/features.json"


@pytest.fixture(scope="module")
def pipe():
    made = loading.load(loading.resolve(KNOWN_FEATURES), device="cpu").pipe
    made.set_progress_bar_config(disable=True)
    return made


def cosine(first, second):
    return abs(float(first @ second)) / float(np.sqrt((first @ first) * (second @ second)))


@pytest.mark.parametrize(("number", "seed"), [(3, 0), (5, 1), (2, 2)])
def test_matching_is_the_best_of_all_assignments(number, seed):
    rng = np.random.default_rng(seed)
    found, true = rng.standard_normal((number, 4)), rng.standard_normal((3, 4))
    table = np.array([[cosine(one, other) for other in true] for one in found])
    size = min(number, 3)
    best = max(
        sum(table[row, column] for row, column in zip(rows, columns, strict=True))
        for rows in permutations(range(number), size)
        for columns in permutations(range(3), size)
    )
    result = recovery(found, true)
    there = result.match >= 0
    assert there.sum() == size and len(set(result.match[there])) == size
    assert result.cosine.sum() == pytest.approx(best)
    for place in range(3):
        others = [table[result.match[place], other] for other in range(3) if other != place]
        assert result.other[place] == pytest.approx(max(others) if there[place] else 0)
        near = [
            row for row in range(number) if table[row].argmax() == place and table[row, place] > 0.7071068
        ]
        assert result.near[place] == len(near)


def test_split_missed_and_turned_directions_are_told():
    true = directions()
    found = np.vstack([-3 * true[0], true[0] + 0.1 * true[4], true[1:6], np.zeros(6)])
    result = recovery(found, true)
    assert result.near.tolist() == [2, 1, 1, 1, 1, 1, 0, 0]
    assert result.match[0] == 0 and result.cosine[:6] == pytest.approx(np.ones(6))
    assert matched(found, true, result)[0] == pytest.approx(true[0])  # points as the known one
    assert result.other[0] == pytest.approx(1 / 3)
    few = recovery(true[:2], true)
    assert (few.match >= 0).sum() == 2 and few.cosine[few.match < 0].tolist() == [0] * 6
    with pytest.raises(ValueError, match="expected 6 channels, got 5"):
        recovery(np.ones((2, 5)), true)
    with pytest.raises(ValueError, match="one for each attribute, got 2"):
        recovery(true[:2], true, labelled=True)


def test_directions_of_methods_are_those_of_other_implementations():
    rng = np.random.default_rng(5)
    there = rng.random((60, 2)) < 0.4
    values = there @ rng.standard_normal((2, 5)) + rng.standard_normal((60, 5)) * [1, 2, 0.5, 1, 3]
    frame = pd.DataFrame(values).groupby(there[:, 1]).mean()
    np.testing.assert_allclose(difference_of_means(values, there)[1], frame.loc[True] - frame.loc[False])
    scale = values.std(0)
    scaled, sign = (values - values.mean(0)) / scale, np.where(there[:, 0], 1, -1)

    def loss(weights):
        return (
            np.logaddexp(0, -sign * (scaled @ weights[:-1] + weights[-1])).sum()
            + weights[:-1] @ weights[:-1] / 2
        )

    best = optimize.minimize(loss, np.zeros(6), method="BFGS", tol=1e-8).x[:-1]
    np.testing.assert_allclose(probe_directions(values, there)[0], best / scale, atol=2e-3)
    _, vectors = np.linalg.eigh(np.cov(values.T))
    for row, expected in zip(principal_components(values, 3), vectors.T[::-1], strict=False):
        assert cosine(row, expected) == pytest.approx(1)


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


def test_activations_hold_what_is_told_and_its_amount(pipe):
    texts = labelled_prompts(6, together=False)
    values, there = activations(pipe, texts, 2)
    assert values.shape == (6, Trial(pipe, 2, 1, 2).channels) and there.shape == (6, 8)
    told = values[:, -CHANNELS:]
    per_word = [
        row @ (one @ directions()) / ((one @ directions()) ** 2).sum()
        for row, one in zip(told, there)
        if one.any()
    ]
    assert amount(values, there) == pytest.approx(np.mean(per_word), abs=0.01)
    np.testing.assert_allclose(told, amount(values, there) * there @ directions(), atol=0.02)


def test_steering_is_what_a_hook_written_by_hand_does(pipe):
    trial, factor = Trial(pipe, prompts=2, seeds=2, steps=3), 1.4
    chosen = np.random.default_rng(0).standard_normal((8, trial.channels))
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
    only = np.where(np.arange(8)[:, None] == 3, chosen, known(trial.channels))
    assert trial.added(only, factor)[3].tolist() == added
    assert trial.removed(only)[3].tolist() == removed


def test_scores_of_steering_are_those_of_scipy():
    rng = np.random.default_rng(1)
    added, removed = (rng.integers(-2, 3, (24, 8, 8)) / 2 for _ in range(2))
    scores = steering(added, removed)
    own = np.array([np.diag(one).mean() for one in added])
    ends = stats.ttest_1samp(own, 0).confidence_interval(0.95)
    assert [scores["added"][key] for key in ("mean", "low", "high")] == pytest.approx([own.mean(), *ends])
    cells = {
        (way, steered, read): values[:, steered, read]
        for way, values in (("added", added), ("removed", removed))
        for steered in range(8)
        for read in range(8)
        if steered != read
    }
    assert len(cells) == 112
    assert scores["side"] == pytest.approx(np.mean([abs(values.mean()) for values in cells.values()]))
    way, steered, read = max(cells, key=lambda cell: abs(cells[cell].mean()))
    largest = scores["largest"]
    assert (largest["way"], largest["steered"], largest["read"]) == (way, THINGS[steered], THINGS[read])
    ends = stats.ttest_1samp(cells[way, steered, read], 0).confidence_interval(1 - 0.05 / 112)
    assert [largest["low"], largest["high"]] == pytest.approx([*ends])
    apart = [
        stats.ttest_1samp(values, 0).pvalue < 0.05 / 112 for values in cells.values() if values.std() > 0
    ]
    assert scores["told"] == sum(apart)


def test_the_page_is_made_of_what_is_stored():
    stored = json.loads(STORED.read_text())
    assert STORED.with_suffix(".md").read_text() == page(stored)
    assert (stored["prompts"], stored["seeds"]) == (24, 2)
    truth = stored["methods"]["truth"]
    assert truth["whole"]["cosine"] == [1] * 8 and truth["whole"]["near"] == [1] * 8
    row = next(line for line in page(stored).splitlines() if line.startswith("| hat |") and "hatted" in line)
    for cell, key in zip(row.split("|")[3:5], ("plain", "words"), strict=True):
        counts = np.array(stored[key])
        counts = counts[:, 1] if key == "plain" else counts[1, :, 1]
        assert float(cell) == pytest.approx(counts.sum() / 48, abs=0.0051)


def test_directions_from_elsewhere_are_scored_like_the_truth(pipe):
    trial = Trial(pipe, prompts=2, seeds=1, steps=2)
    shuffled = -directions()[::-1]
    ours, theirs = (
        scored(trial, rows, labelled, 1.3)
        for rows, labelled in ((known(trial.channels), True), (np.vstack([shuffled, shuffled[:1]]), False))
    )
    assert theirs["whole"]["cosine"] == pytest.approx([1] * 8) and theirs["directions"] == 9
    assert theirs["whole"]["near"] == [1] * 7 + [2]
    assert (ours["added"], ours["removed"]) == (theirs["added"], theirs["removed"])


def test_wrong_files_are_one_line(capsys, tmp_path):
    out = ["--out", str(tmp_path / "page.md")]
    np.save(tmp_path / "flat.npy", np.ones(3))
    (tmp_path / "text.npy").write_text("no array")
    for given, message in (
        (str(tmp_path / "flat.npy"), "expected NAME=FILE.npy"),
        (f"a={tmp_path / 'flat.npy'}", "got shape (3,)"),
        (f"a={tmp_path / 'text.npy'}", "expected an array of numpy"),
        (f"a={tmp_path / 'none.npy'}", "expected an array of numpy"),
    ):
        assert main([*out, "--directions", given]) == 2
        assert message in capsys.readouterr().err
    assert main(out) == 2
    assert "expected --measure, or results in" in capsys.readouterr().err
