"""Estimates of whether an attribute is in an image, from embeddings of CLIP alone (Zhang et al. 2023, section 4).

``C`` is the similarity of an image to the attribute's name; ``CC`` the same less the similarity to a reference string;
``CLS`` the mean probability of ten logistic regressions that were trained on sentences and are shown images. The
first two are on a scale of their own each, so that only their order can be compared (section 4).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

SEEDS = tuple(range(10))


def unit(embeddings: ArrayLike) -> NDArray[np.float64]:
    """Return embeddings (n, n_dimensions) of length 1 in float64; one that is 0 or not finite is a ValueError."""
    values = np.asarray(embeddings, np.float64)
    length = np.linalg.norm(values, axis=1, keepdims=True)
    if not (np.isfinite(length) & (length > 0)).all():
        raise ValueError("embeddings: expected finite numbers that are not all 0, got another row")
    return values / length


def similarity(images: ArrayLike, attributes: ArrayLike) -> NDArray[np.float64]:
    """Return the cosine of every image with every attribute's name, shape (n_images, n_attributes): C of Eq. 4."""
    return unit(images) @ unit(attributes).T


def calibrated_similarity(
    images: ArrayLike, attributes: ArrayLike, references: ArrayLike
) -> NDArray[np.float64]:
    """Return `similarity` less the one to a reference string, shape (n_images, n_attributes): CC of Eq. 5.

    `references` is its embedding (the paper's is *an object*, after Bansal et al. 2022), or one an attribute.
    """
    return similarity(images, attributes) - similarity(images, np.atleast_2d(np.asarray(references)))


def classified(
    images: ArrayLike, positive: ArrayLike, negative: ArrayLike, *, seeds: Sequence[int] = SEEDS
) -> NDArray[np.float64]:
    """Return the mean probability that an attribute is in each image, shape (n_images,): CLS of Eq. 6.

    By logistic regressions on embeddings of sentences with the attribute and without it, one a seed:

    `sklearn.linear_model.SGDClassifier` with log loss, at most 5,000 iterations, a tenth of the sentences held back and
    five iterations without progress to stop (section 6, experiment details). Embeddings are set to length 1; rows are
    read in the order given, the positive ones first. The paper's 1e-3 is read as the tolerance, not as a constant step
    of the gradient. Its ablation without ensemble takes one seed.
    """
    from sklearn.linear_model import SGDClassifier  # most runs are no audit, and it takes a second to load

    sides = [unit(positive), unit(negative)]
    sentences = np.concatenate(sides)
    labels = np.repeat([1, 0], [len(side) for side in sides])
    fitted = [
        SGDClassifier(
            loss="log_loss",
            max_iter=5000,
            tol=1e-3,
            early_stopping=True,
            validation_fraction=0.1,
            n_iter_no_change=5,
            random_state=seed,
        ).fit(sentences, labels)
        for seed in seeds
    ]
    weights, intercepts = (
        np.concatenate([getattr(one, name) for one in fitted]) for name in ("coef_", "intercept_")
    )
    return expit(unit(images) @ weights.T + intercepts).mean(axis=1)
