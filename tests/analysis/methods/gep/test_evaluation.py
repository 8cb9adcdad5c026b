"""Agreement of GEP vectors against SciPy and scikit-learn."""

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import matthews_corrcoef

from analysis.methods.gep import evaluation


@pytest.mark.parametrize("seed", range(3))
def test_agreement_is_that_of_scipy_and_scikit_learn(seed):
    rng = np.random.default_rng(seed)
    labelled = rng.integers(-3, 4, 30) / 8
    estimated = np.round(labelled + rng.normal(size=30) / 3, 1)
    (tau,), (mcc,), (pearson,), _ = evaluation.agreements([estimated], [labelled])
    assert tau == pytest.approx(stats.kendalltau(estimated, labelled, variant="b").statistic, abs=1e-12)
    assert pearson == pytest.approx(np.corrcoef(estimated, labelled)[0, 1], abs=1e-12)
    assert mcc == pytest.approx(matthews_corrcoef(labelled >= 0, estimated >= 0), abs=1e-12)


def test_what_is_constant_or_missing_has_no_order():
    tau, mcc, pearson, n = evaluation.agreements([[0.1, 0.2, np.nan]], [[0.5, 0.5, 0.1]])
    assert np.isnan(tau) and np.isnan(pearson) and (mcc, n) == (0.0, 2)
    _, mcc, _, n = evaluation.agreements([[np.nan]], [[1.0]])
    assert np.isnan(mcc) and n == 0
