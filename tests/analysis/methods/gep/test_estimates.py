"""C, CC and CLS against SciPy and scikit-learn."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.linear_model import SGDClassifier

from analysis.methods.gep import estimates

RNG = np.random.default_rng(0)
IMAGES, ATTRIBUTES = RNG.normal(size=(20, 8)), RNG.normal(size=(3, 8))


def test_similarities_are_scipys_cosines():
    expected = 1 - cdist(IMAGES, ATTRIBUTES, "cosine")
    np.testing.assert_allclose(estimates.similarity(IMAGES, ATTRIBUTES), expected, atol=1e-12)
    for references in (RNG.normal(size=8), RNG.normal(size=(3, 8))):
        other = 1 - cdist(IMAGES, np.atleast_2d(references), "cosine")
        got = estimates.calibrated_similarity(IMAGES, ATTRIBUTES, references)
        np.testing.assert_allclose(got, expected - other, atol=1e-12)


def sentences(shift=1.5):
    positive, negative = RNG.normal(size=(2, 48, 8))
    return positive + shift * np.eye(8)[0], negative


def test_classifiers_are_scikit_learns_own():
    positive, negative = sentences()
    text = np.concatenate([positive, negative])
    text = text / np.linalg.norm(text, axis=1, keepdims=True)
    image = IMAGES / np.linalg.norm(IMAGES, axis=1, keepdims=True)
    expected = np.zeros(len(IMAGES))
    for seed in range(10):
        model = SGDClassifier(
            loss="log_loss", max_iter=5000, tol=1e-3, early_stopping=True, random_state=seed
        )
        expected += model.fit(text, [1] * 48 + [0] * 48).predict_proba(image)[:, 1] / 10
    got = estimates.classified(IMAGES, positive, negative)
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-12)


def test_an_ensemble_of_one_and_what_it_finds():
    positive, negative = sentences(shift=6)
    there, absent = (
        estimates.classified(side, positive, negative, seeds=[3]) for side in (positive, negative)
    )
    assert there.mean() > 0.9 > 0.1 > absent.mean()


def test_what_cannot_be_compared_or_trained_on_is_refused():
    with pytest.raises(ValueError, match="finite numbers that are not all 0"):
        estimates.unit(np.zeros((2, 3)))
