"""Agreement of GEP vectors against SciPy and scikit-learn; artificial sets by what they promise."""

import itertools
from dataclasses import replace

import numpy as np
import pandas as pd
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
    kept = labelled != 0
    assert kept.sum() < 30
    _, (mcc,), *_ = evaluation.agreements([estimated], [labelled], zero="left out")
    assert mcc == pytest.approx(matthews_corrcoef(labelled[kept] >= 0, estimated[kept] >= 0), abs=1e-12)


def test_what_is_constant_or_missing_has_no_order():
    tau, mcc, pearson, n = evaluation.agreements([[0.1, 0.2, np.nan]], [[0.5, 0.5, 0.1]])
    assert np.isnan(tau) and np.isnan(pearson) and (mcc, n) == (0.0, 2)
    _, mcc, _, n = evaluation.agreements([[np.nan]], [[1.0]])
    assert np.isnan(mcc) and n == 0


def by_hand(table, attribute, model):
    """Kendall's tau-b over the pairs of a type, counted one by one."""
    agree = disagree = first = second = 0
    for a, b in itertools.combinations(table.itertuples(), 2):
        if ((a.attribute == b.attribute) != attribute) or ((a.model == b.model) != model):
            continue
        x, y = np.sign(a.estimated - b.estimated), np.sign(a.labelled - b.labelled)
        agree, disagree = agree + (x * y > 0), disagree + (x * y < 0)
        first, second = first + (x != 0), second + (y != 0)
    return (agree - disagree) / np.sqrt(first * second)


def test_pair_types_are_counted_one_by_one():
    rng = np.random.default_rng(2)
    table = pd.DataFrame(
        {
            "attribute": rng.choice(["hat", "tie"], 40),
            "model": rng.choice(["x", "y"], 40),
            "labelled": rng.integers(-4, 5, 40) / 10,
        }
    )
    table["estimated"] = np.round(table["labelled"] + rng.normal(size=40) / 3, 1)
    got = artificial.Examples(table).measures()
    kinds = {"SA_SM": (True, True), "DA_SM": (False, True), "SA_DM": (True, False), "DA_DM": (False, False)}
    expected = [by_hand(table, *kind) for kind in kinds.values()]
    np.testing.assert_allclose([got[name][0] for name in kinds], expected, atol=1e-12)


def test_examples_agree_as_scipy_and_scikit_learn_have_it():
    rng = np.random.default_rng(4)
    table = pd.DataFrame(
        {
            "attribute": rng.choice(["hat", "tie", "suit"], 60),
            "model": "x",
            "labelled": rng.integers(-4, 5, 60) / 10,
        }
    )
    table["estimated"] = np.round(table["labelled"] + rng.normal(size=60) / 3, 1)
    table.loc[3, "estimated"] = np.nan
    examples = artificial.Examples(table)
    known = table.dropna()
    got = {name: float(value[0]) for name, value in examples.measures().items()}
    both = known["estimated"], known["labelled"]
    assert got["tau"] == pytest.approx(stats.kendalltau(*both).statistic, abs=1e-6)
    assert got["pearson"] == pytest.approx(np.corrcoef(*both)[0, 1], abs=1e-12)
    assert got["mcc"] == pytest.approx(matthews_corrcoef(both[1] >= 0, both[0] >= 0), abs=1e-12)
    kept = both[1] != 0
    assert got["mcc_nonzero"] == pytest.approx(
        matthews_corrcoef(both[1][kept] >= 0, both[0][kept] >= 0), abs=1e-12
    )
    assert examples.n == 59 and np.isnan(got["SA_DM"])

    # attributes drawn again: one left out
    drawn = examples.measures(np.array([[name != "tie" for name in examples.attributes]]))
    rest = known[known["attribute"] != "tie"]
    assert drawn["tau"][0] == pytest.approx(
        stats.kendalltau(rest["estimated"], rest["labelled"]).statistic, abs=1e-6
    )


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
    got = evaluation.artificial_set([labels], {"same": [labels], "tenfold": [tenfold]}, "woman", "man")
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
