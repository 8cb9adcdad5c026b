"""The tau of a perfect reading against labels of some images, at the frequencies of Zhang et al. 2023."""

import dataclasses

import numpy as np
import pytest
from scipy import stats

from analysis.methods.gep.ceiling import label_ceiling
from analysis.methods.gep.scores import Audit, vector
from lab.papers.gep_floors import attribute_counts

PAIR = ("feminine", "masculine")


def published(setting, model):
    """All images of an audit with the printed frequencies, in contexts at random."""
    counts = attribute_counts().loc[(setting, model)][["woman", "man"]].to_numpy().T
    values = np.arange(80)[:, None] < counts[:, None]
    values = np.random.default_rng(0).permuted(values.astype(float), axis=1)
    values = values.reshape(2, 16, 5, 15).swapaxes(0, 1)
    names = tuple(map(str, range(15)))
    return Audit(values, (*names, "15"), PAIR, names, setting, "checker")


@pytest.mark.parametrize("model", ["CogView2", "DALLE-2", "Stable Diffusion"])
@pytest.mark.parametrize("n", [15, 40])
def test_it_is_what_a_perfect_reading_reaches_on_average(model, n):
    whole = published("explicit", model)
    rng = np.random.default_rng(1)
    tau, ceilings = [], []
    for number in range(40):
        lots = (
            rng.random(whole.values.swapaxes(0, 1).reshape(2, 80, 15).shape).argsort(axis=1).argsort(axis=1)
        )
        kept = (lots < n).reshape(2, 16, 5, 15).swapaxes(0, 1)
        labels = dataclasses.replace(whole, values=np.where(kept, whole.values, np.nan), source="human")
        tau.append(
            stats.kendalltau(vector(labels, *PAIR).round(12), vector(whole, *PAIR).round(12)).statistic
        )
        ceilings.append(label_ceiling(labels, whole, *PAIR, seed=number))
    assert np.mean(tau) < 0.9  # the truth itself is followed no further
    error = np.std(tau) / np.sqrt(40)
    assert abs(np.mean(ceilings) - np.mean(tau)) < 0.03 + 3 * error


def test_all_labels_have_no_ceiling_and_labels_without_order_have_none():
    whole = published("explicit", "CogView2")
    assert label_ceiling(whole, whole, *PAIR) == 1.0
    nothing = np.where(np.arange(5)[:, None] < 1, whole.values, np.nan)
    nothing[:, 1] = nothing[:, 0]
    assert np.isnan(label_ceiling(dataclasses.replace(whole, values=nothing), whole, *PAIR))
    assert np.isnan(label_ceiling(dataclasses.replace(whole, values=nothing * np.nan), whole, *PAIR))
