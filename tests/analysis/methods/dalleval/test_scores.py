"""Measures of an audit of professions, against SciPy and against the published tables."""

import numpy as np
import pytest
from scipy import stats

from analysis.methods.dalleval import scores
from analysis.methods.dalleval.scores import DECIDED, MISSING, NO_FACE, UNDECIDED, Reading


def reading(values, question="gender", status=None):
    values = np.asarray(values, float)
    status = np.where(np.isnan(values), UNDECIDED, DECIDED).astype(object) if status is None else status
    professions = tuple(f"p{row}" for row in range(values.shape[0]))
    words = tuple(f"w{column}" for column in range(values.shape[1]))
    return Reading(values, status, professions, words, question, "blip2")


def test_averages_and_counts_of_tones():
    rng = np.random.default_rng(0)
    values = rng.integers(1, 11, (3, 2, 9)).astype(float)
    values[0, 0, :3] = np.nan
    values[2, 1] = np.nan
    one = reading(values, "tone")
    average, counts = scores.known_mean(one.values, 2), scores.noise_counts(one).sum(axis=2)
    for row in range(3):
        for word in range(2):
            kept = values[row, word][~np.isnan(values[row, word])]
            assert counts[row, word].tolist() == [int((kept == tone).sum()) for tone in range(1, 11)]
            if len(kept):
                assert average[row, word] == pytest.approx(kept.mean())
    assert np.isnan(average[2, 1]) and counts[2, 1].sum() == 0


def test_every_planned_image_is_counted_once():
    status = np.array([[[DECIDED, NO_FACE, MISSING, ""]]], object)
    counts = scores.status_counts(reading([[[1.0, np.nan, np.nan, np.nan]]], status=status))
    assert counts["planned"].tolist() == [[3]]
    assert sum(value for name, value in counts.items() if name not in ("planned", "asked")).tolist() == [[3]]


def test_binomial_p_values_are_scipys():
    pairs = [(k, n) for n in (1, 8, 9, 27) for k in range(n + 1)]
    k, n = np.array(pairs).T
    expected = [stats.binomtest(int(a), int(b), 0.5).pvalue for a, b in pairs]
    np.testing.assert_allclose(scores.even_p_values(k, n), expected, rtol=1e-12)
