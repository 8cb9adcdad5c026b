"""Directions of features as methods find them in activations."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

Matrix = NDArray[np.float64]


def difference_of_means(activations: ArrayLike, there: ArrayLike) -> Matrix:
    """Return the mean activation where an attribute is asked for less that where it is not, ``(attributes, channels)``.

    Parameters
    ----------
    activations : array_like, shape (rows, channels)
    there : array_like of bool, shape (rows, attributes)
    """
    activations, there = np.asarray(activations, float), np.asarray(there, bool)
    return np.stack([activations[one].mean(0) - activations[~one].mean(0) for one in there.T])


def probe_directions(activations: ArrayLike, there: ArrayLike, *, strength: float = 1.0) -> Matrix:
    """Return the normals of linear probes, in the units of the activations, ``(attributes, channels)``.

    L2 logistic regression on standardised channels, one attribute against the rest.

    Parameters
    ----------
    strength : float
        Inverse of the penalty, ``C`` of scikit-learn.
    """
    activations, there = np.asarray(activations, float), np.asarray(there, bool)
    model = make_pipeline(StandardScaler(), LogisticRegression(C=strength, max_iter=1000))
    rows = []
    for one in there.T:
        scaler, fitted = (step for _, step in model.fit(activations, one).steps)
        rows.append(fitted.coef_[0] / scaler.scale_)
    return np.stack(rows)


def principal_components(activations: ArrayLike, number: int) -> Matrix:
    """Return the first principal components, ``(number, channels)``: directions found without any label."""
    return PCA(number, svd_solver="full").fit(np.asarray(activations, float)).components_
