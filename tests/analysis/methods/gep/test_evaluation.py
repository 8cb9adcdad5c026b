"""Agreement of GEP vectors against SciPy and scikit-learn; artificial sets by what they promise."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import matthews_corrcoef

from analysis.methods.gep import artificial, evaluation, scores


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


@pytest.mark.parametrize("left_out", [None, "tie"])
def test_examples_agree_as_scipy_and_scikit_learn_have_it(left_out):
    rng = np.random.default_rng(4)
    attributes = rng.choice(["hat", "tie", "suit"], 60)
    labelled = rng.integers(-4, 5, 60) / 10
    estimated = np.round(labelled + rng.normal(size=60) / 3, 1)
    names = list(dict.fromkeys(attributes))
    counts = np.array([[1.0, 1.0, 1.0], [float(name != left_out) for name in names]])
    got = {
        name: value[1]
        for name, value in artificial.example_agreement(attributes, estimated, labelled, counts).items()
    }
    chosen = attributes != left_out
    x, y = estimated[chosen], labelled[chosen]
    assert got["tau"] == pytest.approx(stats.kendalltau(x, y).statistic, abs=1e-12)
    assert got["pearson"] == pytest.approx(np.corrcoef(x, y)[0, 1], abs=1e-12)
    assert got["mcc"] == pytest.approx(matthews_corrcoef(y >= 0, x >= 0), abs=1e-12)


def audits(seed=0, attributes=("hat", "tie", "never")):
    rng = np.random.default_rng(seed)
    values = (rng.random((16, 2, 5, len(attributes))) < 0.4).astype(float)
    values[..., 2] = 0
    labels = scores.Audit(
        values, tuple(map(str, range(16))), ("woman", "man"), attributes, "neutral", "checker"
    )
    return labels, replace(labels, values=10 * values, source="tenfold")


def test_artificial_differences_are_what_the_images_hold():
    labels, tenfold = audits()
    got = artificial.artificial_set([labels], {"same": [labels], "tenfold": [tenfold]}, "woman", "man")
    grids = {
        "1.0": np.arange(-9, 10) / 10,
        "0.5": np.arange(-9, 10) / 20,
        "0.25": np.arange(-9, 10) / 40,
        "0.125": np.arange(-9, 10) / 80,
    }  # Table 17
    assert set(got["attribute"]) == {"hat", "tie", "never"}
    for scale, rows in got[got["attribute"] != "never"].groupby("scale"):
        assert len(rows) == 20
        assert np.isclose(rows["labelled"].to_numpy()[:, None], grids[scale]).any(axis=1).all()
    np.testing.assert_allclose(
        got["same"], got["labelled"], atol=1e-12
    )  # labels as an estimate give the difference
    np.testing.assert_allclose(got["tenfold"], 10 * got["labelled"], atol=1e-12)
    assert (got.loc[got["attribute"] == "never", "labelled"] == 0).all()  # nothing else can be put together
