"""Shares from labels of some pictures and readings of all, against Wilson and the difference's module."""

from __future__ import annotations

import numpy as np
import pytest
from statsmodels.stats.proportion import proportion_confint

from analysis.stats.powered_shares import FEW_LABELS, NONE_DECIDED, powered_shares
from analysis.stats.prediction_powered import prediction_powered

RIGHT = ((0.75, 0.95), (0.95, 0.8))  # of each group: pictures with the answer, and those without


def drawn(rng, shares, pictures=60, labelled=20, undecided=0.1):
    """Labels and readings of groups, shape (n_groups, n_pictures, 2), labels of a random part."""
    labels, readings = [], []
    for share, (sensitive, specific) in zip(shares, RIGHT * len(shares)):
        hit, decided = rng.random(pictures) < share, rng.random(pictures) >= undecided
        read = np.where(hit, rng.random(pictures) < sensitive, rng.random(pictures) >= specific)
        said = rng.random(pictures) >= 0.05
        y = np.stack([hit & decided, decided], axis=1).astype(float)
        y[rng.permutation(pictures)[labelled:]] = np.nan
        labels.append(y)
        readings.append(np.stack([read & said, said], axis=1).astype(float))
    return np.array(labels), np.array(readings)


def test_with_every_picture_labelled_it_is_wilsons():
    labels, readings = drawn(np.random.default_rng(0), (0.1, 0.7, 1.0), labelled=60)
    found = powered_shares(labels, readings)
    hits, decided = labels.sum(axis=1).T
    assert found.share == pytest.approx(hits / decided, abs=1e-12)
    assert found.effective == pytest.approx(decided, abs=1e-9)
    ends = proportion_confint(hits, decided, method="wilson")
    assert found.low == pytest.approx(ends[0], abs=1e-9) and found.high == pytest.approx(ends[1], abs=1e-9)


def test_the_difference_of_two_groups_is_that_of_the_prediction_powered_module():
    labels, readings = drawn(np.random.default_rng(1), (0.3, 0.6), undecided=0)
    readings[..., 1] = 1
    found = powered_shares(labels, readings)
    other = prediction_powered(labels[..., :1], readings[..., :1])
    assert found.share[0] - found.share[1] == pytest.approx(other.difference[0], abs=1e-12)
    assert (found.labelled == 20).all() and (found.pictures == 60).all()


def test_too_few_labels_say_nothing():
    labels, readings = drawn(np.random.default_rng(4), (0.4, 0.5, 0.6))
    labels[0, np.flatnonzero(~np.isnan(labels[0, :, 0]))[4:]] = np.nan
    labels[1, ~np.isnan(labels[1, :, 0])] = 0.0
    found = powered_shares(labels, readings)
    assert list(found.reason) == [FEW_LABELS, NONE_DECIDED, ""]
    assert np.isnan(found.share[:2]).all() and np.isnan(found.low[:2]).all() and np.isfinite(found.high[2])
    assert len(powered_shares(np.empty((0, 5, 2)), np.empty((0, 5, 2))).share) == 0
