"""Presence behind a detector's errors, compared with enumeration and simulation."""

import numpy as np
from scipy import special, stats

from analysis.stats.detector_correction import FEW_LABELS, NO_LABELS, Labels, corrected_presence

WORDS = 3


def world(n, words, frequency, s, f, rng, *, clustered=0.5):
    """Truth and detections of shape (n_prompts, 2, n_words, n_objects), dependent within a prompt."""
    shape = (n, 2, words, frequency.shape[-1])
    shared = np.sqrt(0.3) * rng.standard_normal((n, 1, 1, shape[3]))
    shared = shared + np.sqrt(0.2) * rng.standard_normal((n, 2, 1, shape[3]))
    truth = shared + np.sqrt(0.5) * rng.standard_normal(shape) < special.ndtri(frequency)[None, :, None]
    error = np.sqrt(clustered) * rng.standard_normal((n, 2, 1, shape[3]))
    error = error + np.sqrt(1 - clustered) * rng.standard_normal(shape)
    return truth, error < special.ndtri(np.where(truth, s[None, :, None], f[None, :, None]))


def labelled(truth, detected, rows=slice(None)):
    cells = [np.zeros((len(truth), 2, truth.shape[3])) for _ in range(4)]
    for cell, chosen in zip(
        cells, (truth & detected, truth & ~detected, ~truth & detected, ~truth & ~detected)
    ):
        cell[rows] = chosen.sum(axis=2)[rows]
    return Labels(*cells)


def corrected(truth, detected, rows=slice(None)):
    n = np.full((len(truth), 2), truth.shape[2])
    return corrected_presence(detected.sum(axis=2), n, labelled(truth, detected, rows))


def alone(truth, rows):
    """The labels' own difference and p-value: of the labelled prompts, and two of which an image differs."""
    words = truth.shape[2]
    d = (truth[rows, 1].sum(axis=1) - truth[rows, 0].sum(axis=1)) / words
    n, mean = len(d), d.mean(axis=0)
    # the mean square of the n + 2, whose variance the sample's unbiased one stands for
    square = (n * d.var(axis=0, ddof=1) + n * mean**2 + 2 / words**2) / (n + 2)
    middle = n * mean / (n + 2)
    return mean, 2 * stats.t.sf(np.abs(middle) / np.sqrt((square - middle**2) / (n + 2)), n - 1)


def drawn(seed, n, frequency, sees, invents, objects=40):
    wide = (np.array(pair)[:, None] * np.ones(objects) for pair in (frequency, sees, invents))
    return world(n, WORDS, *wide, np.random.default_rng(seed))


def test_all_labels_are_the_labels_alone_whatever_was_detected():
    truth, _ = drawn(3, 24, (0.1, 0.3), (1, 1), (0, 0))
    for sees in ((0.95, 0.95), (0.2, 0.9)):
        detected = drawn(4, 24, (0.1, 0.3), sees, (0.1, 0))[1]
        result = corrected(truth, detected)
        value, p_value = alone(truth, slice(None))
        np.testing.assert_allclose(result.difference, value, atol=1e-12)
        np.testing.assert_allclose(result.p_value, p_value, atol=1e-12)


def test_few_labels_by_hand():
    """Least squares of the other prompts, one object that is labelled at 6 of 20 prompts."""
    truth, detected = drawn(5, 20, (0.3, 0.5), (0.7, 0.9), (0.1, 0.05), objects=1)
    rows, result = np.arange(6), corrected(truth, detected, np.arange(6))
    y, x = (a[..., 0].astype(float) for a in (truth, detected))
    weights = np.zeros((6, 2))
    for left in rows:
        others = np.delete(rows, left)
        of_side = []
        for side in (0, 1):
            b, a = (v[others, side].ravel() - v[others, side].mean() for v in (y, x))
            of_side.append(((a * b).sum(), (a * a).sum()))
        whole = sum(p for p, _ in of_side) / sum(q for _, q in of_side)
        weights[left] = [(p + whole) / (q + 1) for p, q in of_side]
    mean = weights.mean(axis=0)
    used = mean + (1 - 6 / 20) * (weights - mean)
    expected = [
        (y[rows, s] - used[:, s, None] * x[rows, s]).mean() + mean[s] * x[:, s].mean() for s in (0, 1)
    ]
    np.testing.assert_allclose(result.difference, expected[1] - expected[0], atol=1e-12)
    assert result.labelled.tolist() == [6]


def test_what_cannot_be_corrected_is_not_a_number():
    n, x = np.full((5, 2), 3), np.ones((5, 2, 4), int)
    some, none = np.zeros((5, 2, 4)), np.zeros((5, 2, 4))
    some[:, :, 0] = 1
    some[0, :, 1] = 1
    some[:, 0, 2] = 1
    result = corrected_presence(x, n, Labels(some, none, none, some))
    assert result.reason.tolist() == ["", FEW_LABELS, FEW_LABELS, NO_LABELS]
    assert (
        np.isnan(result.difference).tolist() == np.isnan(result.p_value).tolist() == [False, True, True, True]
    )
