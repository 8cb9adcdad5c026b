"""Presence behind a detector that errs: by hand, against loops, and where the detector makes a difference itself."""

import numpy as np
import pytest
from scipy import special, stats

from analysis.stats.detector_correction import (
    BLIND,
    NO_LABELS,
    OBJECT_WEIGHT,
    SIDE_WEIGHT,
    Labels,
    corrected_presence,
)
from analysis.stats.sign_flips import flip_p_values


def brute(differences):
    """All signs by loops."""
    n = len(differences)
    signs = 1 - 2 * ((np.arange(2**n)[:, None] >> np.arange(n)) & 1)
    return np.mean(np.abs(signs @ differences) >= abs(differences.sum()))


def test_sign_flips_are_all_counted():
    rng = np.random.default_rng(0)
    differences = rng.integers(-3, 4, (11, 40))
    expected = [brute(column) for column in differences.T]
    np.testing.assert_allclose(flip_p_values(differences), expected, atol=1e-12)
    pure = rng.choice([-1, 1], (40, 20), p=[0.2, 0.8])
    expected = [stats.binomtest(int((c > 0).sum()), 40).pvalue for c in pure.T]
    np.testing.assert_allclose(flip_p_values(pure), expected, atol=1e-12)
    assert flip_p_values(np.zeros((5, 1)))[0] == 1.0
    large = rng.integers(-9, 12, (400, 3))
    z = large.sum(axis=0) / np.sqrt((large**2).sum(axis=0))
    np.testing.assert_allclose(flip_p_values(large), 2 * stats.norm.sf(np.abs(z)), atol=1e-12)


def test_matrix_method_by_hand():
    """p = 0.3 and 0.55; s = 0.8 and 0.9, f = 0.1 and 0.2: π = 0.2 / 0.7 and 0.35 / 0.7."""
    n = np.full((10, 2), 100)
    x = np.repeat([[[30], [55]]], 10, axis=0)
    cells = [np.repeat([[[a], [b]]], 50, axis=0) * 1e6 for a, b in ((8, 9), (2, 1), (1, 2), (9, 8))]
    result = corrected_presence(x, n, Labels(*cells, aligned=False), resamples=200, imputations=10)
    np.testing.assert_allclose(result.presence[:, 0], [2 / 7, 1 / 2], atol=1e-6)
    assert result.difference[0] == pytest.approx(3 / 14, abs=1e-6)
    assert result.score[0] == pytest.approx(0.5 / (0.5 + 2 / 7), abs=1e-6)
    assert result.difference_low[0] < result.difference[0] < result.difference_high[0]


def crossed(x, n, cells):
    """Leave-one-prompt-out by loops: the module's folds are single prompts up to twelve of them."""
    rows, _, width = x.shape
    hits, missed, false, rejected = cells

    s0 = (hits.sum() + 0.5) / (hits.sum() + missed.sum() + 1)
    f0 = (false.sum() + 0.5) / (false.sum() + rejected.sum() + 1)
    found = np.zeros((2, width))
    for o in range(width):
        # what a side is drawn towards is what both sides of all prompts say
        s_all = (hits[:, :, o].sum() + OBJECT_WEIGHT * s0) / (
            hits[:, :, o].sum() + missed[:, :, o].sum() + OBJECT_WEIGHT
        )
        f_all = (false[:, :, o].sum() + OBJECT_WEIGHT * f0) / (
            false[:, :, o].sum() + rejected[:, :, o].sum() + OBJECT_WEIGHT
        )
        for g in range(2):
            for i in range(rows):
                left = np.arange(rows) != i
                yes, no = hits[left, g, o].sum(), missed[left, g, o].sum()
                s = (yes + SIDE_WEIGHT * s_all) / (yes + no + SIDE_WEIGHT)
                yes, no = false[left, g, o].sum(), rejected[left, g, o].sum()
                f = (yes + SIDE_WEIGHT * f_all) / (yes + no + SIDE_WEIGHT)
                found[g, o] += (x[i, g, o] - f * n[i, g]) / (s - f) / n[:, g].sum()
    return np.clip(found, 0, 1)


def world(n, words, frequency, s, f, rng, *, clustered=0.5):
    """Truth and detections of shape (n_prompts, 2, n_words, n_objects), dependent within a prompt."""
    shape = (n, 2, words, frequency.shape[-1])
    shared = np.sqrt(0.3) * rng.standard_normal((n, 1, 1, shape[3]))
    shared = shared + np.sqrt(0.2) * rng.standard_normal((n, 2, 1, shape[3]))
    truth = shared + np.sqrt(0.5) * rng.standard_normal(shape) < special.ndtri(frequency)[None, :, None]
    error = np.sqrt(clustered) * rng.standard_normal((n, 2, 1, shape[3]))
    error = error + np.sqrt(1 - clustered) * rng.standard_normal(shape)
    return truth, error < special.ndtri(np.where(truth, s[None, :, None], f[None, :, None]))


def labelled(truth, detected, aligned, rows=slice(None)):
    cells = [np.zeros((len(truth), 2, truth.shape[3])) for _ in range(4)]
    for cell, chosen in zip(
        cells, (truth & detected, truth & ~detected, ~truth & detected, ~truth & ~detected)
    ):
        cell[rows] = chosen.sum(axis=2)[rows]
    return Labels(*cells, aligned=aligned)


def test_a_prompt_is_corrected_by_the_others():
    rng = np.random.default_rng(3)
    frequency = np.array([[0.2, 0.5, 0.3], [0.4, 0.5, 0.1]])
    truth, detected = world(9, 3, frequency, np.full((2, 3), 0.8), np.full((2, 3), 0.05), rng, clustered=0.0)
    labels, n = labelled(truth, detected, True), np.full((9, 2), 3)
    x = detected.sum(axis=2)
    result = corrected_presence(x, n, labels, resamples=20, imputations=5)
    cells = (labels.hits, labels.missed, labels.false, labels.rejected)
    np.testing.assert_allclose(result.presence, crossed(x, n, cells), atol=1e-12)


def test_a_difference_of_the_detector_does_not_survive():
    """One frequency on both sides; the detector misses 40 % on the first and invents 12 % on the second."""
    rng, raw, behind = np.random.default_rng(1), [], []
    frequency = np.full((2, 8), 0.3)
    s, f = np.array([[0.6], [0.95]]) * np.ones(8), np.array([[0.005], [0.12]]) * np.ones(8)
    for seed in range(6):
        truth, detected = world(60, 3, frequency, s, f, rng)
        x, n = detected.sum(axis=2), np.full((60, 2), 3)
        other = world(100, 1, frequency, s, f, rng)
        for labels in (labelled(truth, detected, True), labelled(*other, False)):
            result = corrected_presence(x, n, labels, resamples=200, imputations=40, seed=seed)
            raw.append(flip_p_values(x[:, 1] - x[:, 0]))
            behind.append(result.p_value)
    raw, behind = np.array(raw), np.array(behind)
    assert (raw < 0.05).mean() > 0.5
    # 48 objects and two ways, in pairs: at 5 % more than 6 of 48 have a chance below 2 %
    assert all((behind[way::2] < 0.05).sum() <= 6 for way in (0, 1))


def test_real_differences_survive():
    rng = np.random.default_rng(2)
    frequency = np.array([[0.05, 0.6], [0.6, 0.05]])
    truth, detected = world(24, 3, frequency, np.full((2, 2), 0.9), np.full((2, 2), 0.01), rng)
    result = corrected_presence(
        detected.sum(axis=2), np.full((24, 2), 3), labelled(truth, detected, True), resamples=300
    )
    assert (result.p_value < 0.01).all() and result.difference[0] > 0.3 and result.difference[1] < -0.3


def test_intervals_cover_the_truth():
    """Of a detector that errs by side: at least 93 %, less three standard errors of 25 worlds of 8 objects."""
    rng, hits, bare = np.random.default_rng(4), [], []
    frequency = np.array([[0.1, 0.3, 0.5, 0.2] * 2, [0.3, 0.1, 0.5, 0.4] * 2])
    s = np.array([[0.6, 0.9] * 4, [0.95, 0.7] * 4])
    f = np.array([[0.08, 0.01] * 4, [0.005, 0.05] * 4])
    score = frequency[1] / frequency.sum(axis=0)
    for seed in range(25):
        truth, detected = world(60, 3, frequency, s, f, rng)
        options = {"resamples": 300, "imputations": 1, "seed": seed}
        x, n = detected.sum(axis=2), np.full((60, 2), 3)
        result = corrected_presence(x, n, labelled(truth, detected, True), **options)
        hits.append((result.score_low <= score) & (score <= result.score_high))
        perfect = Labels(*(np.full((9, 2, 8), v) for v in (1e6, 0.0, 0.0, 1e6)), aligned=False)
        plain = corrected_presence(x, n, perfect, **options)
        bare.append((plain.score_low <= score) & (score <= plain.score_high))
    assert np.mean(hits) >= 0.93 - 3 * np.sqrt(0.95 * 0.05 / 200)
    assert np.mean(bare) < np.mean(hits) - 0.1


def test_what_cannot_be_corrected_is_not_a_number():
    n, x = np.full((5, 2), 3), np.ones((5, 2, 2), int)
    many, none = np.full((5, 2, 2), 40.0), np.zeros((5, 2, 2))
    blind = Labels(many * 0.01, many, none, many, aligned=True)
    result = corrected_presence(x, n, blind, resamples=20)
    assert result.reason.tolist() == [BLIND] * 2 and np.isnan(result.difference).all()
    assert (result.p_value == 1).all()  # what it shows is no evidence, unlike an object that nobody labelled
    labels = Labels(many * [1, 0], none, none, many * [1, 0], aligned=True)
    result = corrected_presence(x, n, labels, resamples=20)
    assert result.reason.tolist() == ["", NO_LABELS]
    assert np.isnan(result.difference).tolist() == np.isnan(result.p_value).tolist() == [False, True]
