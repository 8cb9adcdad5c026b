"""Cosines against SciPy."""

import numpy as np
from scipy.spatial.distance import cosine

from analysis.metrics.vectors import cosines


def test_equal_to_scipy():
    rng = np.random.default_rng(0)
    first, second = (rng.normal(size=(50, 384)).astype(np.float32) for _ in range(2))
    second[:10] += 3 * first[:10]
    expected = [1 - cosine(a.astype(float), b.astype(float)) for a, b in zip(first, second)]
    np.testing.assert_allclose(cosines(first, second), expected, rtol=0, atol=1e-14)


def test_its_ends_and_what_has_no_direction():
    vectors = np.random.default_rng(1).normal(size=(200, 7)).astype(np.float32)
    assert cosines(vectors, 3 * vectors).max() <= 1 and cosines(vectors, -vectors).min() >= -1
    np.testing.assert_allclose(cosines(vectors, 3 * vectors), 1, atol=1e-6)
    odd = vectors[:2].copy()
    odd[0], odd[1, 3] = 0, np.nan
    assert np.isnan(cosines(odd, vectors[:2])).all()
    assert cosines(vectors[:0], vectors[:0]).shape == (0,)
