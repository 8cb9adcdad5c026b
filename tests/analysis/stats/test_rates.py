"""Recall and precision against counts by hand and scikit-learn."""

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import precision_score, recall_score

from analysis.stats.proportions import wilson_interval
from analysis.stats.rates import COLUMNS, detection_rates


def world(rng, prompts=30, images=4, objects=1, recall=(0.9, 0.8), spread=0.0, false=0.1):
    """Items of two indicators; prompts share how well they are seen."""
    shape = (prompts, images, 2, objects)
    truth = rng.random(shape) < 0.5
    ease = rng.normal(0, spread, (prompts, 1, 1, objects))
    chance = np.clip(np.asarray(recall)[:, None] + ease, 0, 1)
    detected = np.where(truth, rng.random(shape) < chance, rng.random(shape) < false)
    prompt, _, indicator, what = np.indices(shape)
    return pd.DataFrame(
        {
            "prompt": prompt.ravel(),
            "indicator": np.array(["f", "m"])[indicator.ravel()],
            "object": [f"o{w:03d}" for w in what.ravel()],
            "truth": truth.ravel(),
            "detected": detected.ravel(),
        }
    )


def rates_of(items, **options):
    rates = detection_rates(items, indicators=["f", "m"], contrasts=[("m", "f")], **options)
    assert list(rates.columns) == list(COLUMNS)
    return rates.set_index(["quantity", "object", "indicator"])


def test_rates_equal_scikit_learn():
    items = world(np.random.default_rng(0), objects=3)
    rates = rates_of(items)
    for what in ("all", "o000", "o002"):
        for name in ("all", "f", "m"):
            own = items if what == "all" else items[items["object"] == what]
            own = own if name == "all" else own[own["indicator"] == name]
            for quantity, score in (("recall", recall_score), ("precision", precision_score)):
                row = rates.loc[(quantity, what, name)]
                assert row["value"] == pytest.approx(score(own["truth"], own["detected"]))
                assert row["n"] == own["truth" if quantity == "recall" else "detected"].sum()
        gap = rates.loc[("recall", what, "m-f"), "value"]
        assert gap == pytest.approx(
            rates.loc[("recall", what, "m"), "value"] - rates.loc[("recall", what, "f"), "value"]
        )


def test_worked_by_hand():
    # recall of f: prompt 0 sees 1 of 1, prompt 1 sees 1 of 3: 2 of 4
    rows = [(0, True, True), (1, True, True), (1, True, False), (1, True, False)]
    items = pd.DataFrame(
        [(p, "f", "hat", t, d) for p, t, d in rows],
        columns=["prompt", "indicator", "object", "truth", "detected"],
    )
    row = rates_of(items).loc[("recall", "hat", "f")]
    # pulls (1 - 0.5) / 4 and (1 - 1.5) / 4; v = 2 / 1 * (2 / 64) = 1 / 16; effective size 0.25 / v = 4 items
    low, high = wilson_interval(np.array([0.5]), np.array([4.0]), 0.95)
    assert (row["value"], row["n"], row["n_prompts"]) == (0.5, 4, 2)
    assert (row["low"], row["high"]) == pytest.approx((low[0], high[0]))


def test_undefined_says_why():
    items = pd.DataFrame(
        [(0, "f", "hat", True, True), (0, "m", "hat", False, False), (0, "f", "cup", False, True)],
        columns=["prompt", "indicator", "object", "truth", "detected"],
    )
    rates = rates_of(items)
    assert rates.loc[("recall", "hat", "f"), ["value", "reason"]].tolist() == [1.0, "one prompt only"]
    assert np.isnan(rates.loc[("recall", "hat", "f"), "low"])
    for key in (("recall", "hat", "m"), ("recall", "hat", "m-f"), ("recall", "cup", "f")):
        assert (
            np.isnan(rates.loc[key, "value"]) and rates.loc[key, "reason"] == "nothing there to be detected"
        )
    assert rates.loc[("precision", "hat", "m"), "reason"] == "nothing detected"
    assert rates.loc[("precision", "cup", "f"), "value"] == 0.0
    empty = rates_of(items.iloc[:0])
    assert empty["value"].isna().all() and (empty["n"] == 0).all() and len(empty) == 8


def test_always_right_keeps_a_wilson_interval():
    items = world(np.random.default_rng(1), prompts=20, recall=(1.0, 1.0), false=0)
    row = rates_of(items).loc[("recall", "o000", "f")]
    low, _ = wilson_interval(np.array([1.0]), np.array([row["n_prompts"]]), 0.95)
    assert (row["value"], row["high"]) == (1.0, 1.0) and row["low"] == pytest.approx(low[0])
    gap = rates_of(items).loc[("recall", "o000", "m-f")]
    assert gap["value"] == 0 and gap["low"] < 0 < gap["high"]
