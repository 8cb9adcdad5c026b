"""Probes on simulated activations whose answer is known, and against scikit-learn put together by hand."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, log_loss, roc_auc_score
from sklearn.model_selection import PredefinedSplit, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from analysis.methods.decoding import scores
from analysis.methods.decoding.scores import (
    Choice,
    PlaceRows,
    decode,
    decoding_step,
    description_length,
    fitted,
    fold_of_prompts,
)

PROMPTS, SEEDS, CHANNELS = 24, 2, 10
FAST = Choice(resamples=300)


def world(strength, *, seed=0, prompts=PROMPTS, seeds=SEEDS, channels=CHANNELS, noise=1.0):
    """Activations to which a prompt, its seed and, with a strength, the word of the prompt add."""
    rng = np.random.default_rng(seed)
    prompt = np.repeat(np.arange(prompts), 2 * seeds)
    drawn = np.tile(np.repeat(np.arange(seeds), 2), prompts)
    label = np.tile([0.0, 1.0], prompts * seeds)
    x = rng.normal(size=(len(label), channels)) * noise + rng.normal(size=(prompts, channels))[prompt]
    x[:, 0] += strength * (label - 0.5)
    return PlaceRows(x, prompt, drawn, label)


def scikit_learn():
    return make_pipeline(StandardScaler(), LogisticRegression(C=scores.STRENGTH, max_iter=2000))


def test_held_out_scores_are_scikit_learns():
    rows = world(1.5)
    fold = fold_of_prompts(PROMPTS, 5, 0)[rows.prompt]
    odds = cross_val_predict(
        scikit_learn(), rows.x, rows.label, cv=PredefinedSplit(fold), method="decision_function"
    )
    result = decode(rows, {}, FAST)
    assert result["accuracy"].value == pytest.approx(accuracy_score(rows.label, odds > 0), abs=1e-12)
    each = [
        (roc_auc_score(rows.label[fold == one], odds[fold == one]), (fold == one).sum() ** 2)
        for one in range(5)
    ]
    by_hand = np.average([auc for auc, _ in each], weights=[pairs for _, pairs in each])
    assert result["auc"].value == pytest.approx(by_hand, abs=1e-3)
    assert 0.5 < result["auc"].low < by_hand < result["auc"].high <= 1


def test_transfer_is_of_the_probe_and_of_prompts_that_it_was_not_fitted_to():
    rows = world(4.0)
    turned = PlaceRows(rows.x * np.r_[-1.0, np.ones(CHANNELS - 1)], rows.prompt, rows.seed, rows.label)
    neutral = world(0.0, seed=5)
    outcome = PlaceRows(neutral.x, neutral.prompt, neutral.seed, (neutral.x[:, 0] > 0).astype(float))
    unknown = PlaceRows(outcome.x, outcome.prompt, outcome.seed, np.full(len(outcome.label), np.nan))
    result = decode(rows, {"turned": turned, "outcome": outcome, "unknown": unknown}, FAST)
    assert result["turned"].value < 0.1
    assert result["outcome"].value > 0.8
    assert np.isnan(result["unknown"].value) and result["unknown"].reason
    leak = PlaceRows(rows.x, rows.prompt, rows.seed, rows.label)  # the very rows are scored as held-out ones
    again = decode(rows, {"leak": leak}, FAST)
    assert again["leak"].value == again["auc"].value


def test_with_one_seed_the_control_holds_prompts_out():
    result = decode(world(4.0, seeds=1), {}, FAST)
    assert result["selectivity"].reason == scores.ONE_SEED
    assert abs(result["accuracy"].value - result["selectivity"].value - 0.5) < 0.25
    assert decode(world(4.0), {}, FAST)["selectivity"].reason == ""


def test_description_length_by_hand():
    rows = world(2.0, prompts=8)
    order = np.random.default_rng([3, 13]).permutation(8)[rows.prompt]
    bits = float((order < 1).sum())
    for before, end in ((1, 2), (2, 4), (4, 8)):
        model = scikit_learn().fit(rows.x[order < before], rows.label[order < before])
        new = (order >= before) & (order < end)
        bits += log_loss(rows.label[new], model.predict_proba(rows.x[new])[:, 1], normalize=False) / np.log(2)
    assert description_length(rows, seed=3) == pytest.approx(bits / 32, rel=1e-3)


def test_channels_that_differ_in_their_last_bits_are_not_read():
    """The place of a row in its batch alters last bits, and goes with its word."""
    rng = np.random.default_rng(0)
    label = np.tile([0.0, 1.0], 20)
    x = np.repeat(rng.normal(size=(1, 5)), 40, axis=0) * (1 + 1e-7 * label[:, None])
    assert np.ptp(fitted(x, label)(x)) == 0
    x[:, 0] += label
    assert roc_auc_score(label, fitted(x, label)(x)) == 1
    assert np.all(fitted(x, np.ones(40))(x) == 0)  # labels of one kind


def test_decoding_step():
    assert decoding_step([0.5, 0.95, 1.0], [0.4, 0.9, 1.0]) == 1
    assert decoding_step([0.95, 0.5, 1.0], [0.3, 0.4, 0.9]) == 2  # the first is not surely above chance
    assert decoding_step([0.55, 0.8, 0.85], [0.51, 0.7, 0.8]) == 1  # the first is short of 90 %
    assert decoding_step([0.5, 0.55], [0.4, 0.45]) is None is decoding_step([], [])
