"""Measures of an audit of professions, against SciPy and against the published tables."""

import numpy as np
from scipy import stats

from analysis.methods.dalleval import scores


def test_binomial_p_values_are_scipys():
    pairs = [(k, n) for n in (1, 8, 9, 27) for k in range(n + 1)]
    k, n = np.array(pairs).T
    expected = [stats.binomtest(int(a), int(b), 0.5).pvalue for a, b in pairs]
    np.testing.assert_allclose(scores.even_p_values(k, n), expected, rtol=1e-12)
