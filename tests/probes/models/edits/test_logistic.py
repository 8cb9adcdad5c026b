"""Logistic regressions against scikit-learn's."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import LeaveOneGroupOut

from probes.models.edits import logistic


def made(images, channels, gap, fits=3, rare=3):
    draw = torch.Generator().manual_seed(images)
    rows = 3 * torch.randn(fits, images, channels, generator=draw, dtype=torch.float64) + 7
    labels = torch.arange(images) % rare == 0
    rows[:, labels, : channels // 2] += gap
    return rows, labels


def theirs(**options):
    return LogisticRegression(class_weight="balanced", max_iter=10_000, tol=1e-11, **options)


def scale(rows):
    values = rows.numpy()
    return np.sqrt(((values - values.mean(0)) ** 2).mean())


@pytest.mark.parametrize(("images", "channels", "gap"), [(20, 96, 0.5), (120, 8, 1.0), (12, 30, 40.0)])
def test_weights_are_scikit_learns(images, channels, gap):
    rows, labels = made(images, channels, gap)
    weights, intercepts = logistic.fit(rows, labels)
    for one, weight, intercept in zip(rows, weights, intercepts, strict=True):
        found = theirs().fit(one.numpy() / scale(one), labels.numpy())
        np.testing.assert_allclose(weight * scale(one), found.coef_[0], atol=1e-4 * np.abs(found.coef_).max())
        assert float(intercept) == pytest.approx(found.intercept_[0], abs=1e-3)


def test_the_unit_of_the_features_does_not_matter_and_equal_ones_have_no_direction():
    rows, labels = made(20, 10, 1.0)
    plain, scaled = logistic.fit(rows, labels), logistic.fit(1000 * rows, labels)
    torch.testing.assert_close(plain[0], 1000 * scaled[0])
    torch.testing.assert_close(plain[1], scaled[1])
    weights, intercepts = logistic.fit(torch.full((2, 20, 10), 3.7), labels)
    assert (weights == 0).all() and intercepts.abs().max() < 1e-9


def test_accuracy_is_that_of_groups_left_out():
    rows, labels = made(40, 6, 1.5)
    groups = torch.arange(40) % 5
    found = logistic.accuracy(rows, labels, groups)
    for one, share in zip(rows, found, strict=True):
        said = np.empty(40, bool)
        for kept, out in LeaveOneGroupOut().split(one, groups=groups):
            of = scale(one[kept])
            model = theirs().fit(one[kept].numpy() / of, labels[kept].numpy())
            said[out] = model.predict(one[out].numpy() / of)
        assert float(share) == pytest.approx(balanced_accuracy_score(labels.numpy(), said))
    assert 0.6 < found.mean() < 0.95
    # a group that alone has a label is said to have the other
    assert float(logistic.accuracy(rows[:1], groups == 0, groups)[0]) <= 0.5
