"""Values of single images, and ratios of what an estimate says of words to what it says of the attribute."""

import numpy as np
import pandas as pd
import pytest

from analysis.methods.gep.predictions import ratio_table
from analysis.methods.gep.scores import Audit
from lab.papers.tables import FOLDER
from probes.config.schema import Measure

PAIR, MEASURE = [("woman", "man", "contrast")], Measure(bootstrap=300)


def audits(labels, values, setting="neutral", noise="own"):
    """Labels and one estimate of the same images, shape (contexts, words, images, attributes)."""
    names = [
        tuple(f"{kind} {n}" for n in range(labels.shape[axis])) for kind, axis in (("at", 0), ("hat", 3))
    ]
    return [
        Audit(array, names[0], ("woman", "man"), names[1], setting, source, noise)
        for array, source in ((labels.astype(float), "human"), (values, "CLS"))
    ]


def world(rng, *, contexts=16, images=10, attributes=4, between=0.1, apart=0.5):
    """Attributes of every frequency, an estimate that adds something for the first word, and noise of each context."""
    shape = (contexts, 2, images, attributes)
    labels = rng.random(shape) < rng.uniform(0.3, 0.7, attributes)
    of_context = rng.normal(0, 0.1, (contexts, 2, 1, attributes))
    words = np.array([between, 0.0])[:, None, None]
    return audits(labels, labels * (apart + words) + of_context + rng.normal(0, 0.1, shape))


def test_the_ratio_is_that_of_the_papers_means():
    """By pandas, over two settings, with images that were not read."""
    rng = np.random.default_rng(0)
    both = [*world(rng), *world(rng)]
    both = [*both[:2], *(audits(both[2].values, both[3].values, "explicit"))]
    both[0].values[rng.random(both[0].values.shape) < 0.1] = np.nan
    table = ratio_table(both, PAIR, MEASURE).set_index("attribute")
    frames = []
    for labels, estimate in (both[:2], both[2:]):
        places = np.indices(labels.values.shape).reshape(4, -1)
        said = {"word": places[1], "attribute": places[3]}
        frames.append(
            pd.DataFrame({**said, "there": labels.values.ravel(), "value": estimate.values.ravel()})
        )
    images = pd.concat(frames).dropna()
    for number, own in images.groupby("attribute"):
        row = table.loc[f"hat {number}"]
        mean = own.groupby(["there", "word"])["value"].mean()
        assert row["between"] == pytest.approx(mean[1, 0] - mean[1, 1])
        of_all = own.groupby("there")["value"].mean()
        assert row["apart"] == pytest.approx(of_all[1] - of_all[0])
        assert row["ratio"] == pytest.approx(row["between"] / row["apart"])
        assert row["low"] < row["ratio"] < row["high"]
        sizes = own.groupby(["there", "word"]).size()
        assert (row["n_first"], row["n_second"]) == (sizes[1, 0], sizes[1, 1])
        assert row["n_without"] == sizes[0].sum() and row["n_contexts"] == 16
    assert table.loc["", "raw"] == pytest.approx(table["ratio"].drop("").abs().mean())
    assert table.loc["", "low"] < table.loc["", "ratio"] < table.loc["", "raw"] <= table.loc["", "high"]


def test_figure_7_of_the_paper():
    """One image without jeans, one of each word with: the estimate by similarity depends more on the word."""
    printed = pd.read_csv(FOLDER / "gep2023_figure7_jeans.csv").set_index("estimator")
    found = {}
    for name, row in printed.iterrows():
        labels = np.array([[[1.0, 0.0]], [[1.0, np.nan]]])[None].swapaxes(2, 3)  # (1, 2, 2, 1)
        values = np.array([[row["woman_in_jeans"], row["no_jeans"]], [row["man_in_jeans"], np.nan]])
        (jeans, _) = ratio_table(audits(labels, values[None, :, :, None]), PAIR, MEASURE).to_dict("records")
        found[name] = jeans
    cc, cls = found["CC"], found["CLS"]
    assert (cc["between"], cls["between"]) == pytest.approx((0.022, 0.116))
    assert (cc["apart"], cls["apart"]) == pytest.approx((0.012 + 0.019, 0.679 - 0.322))
    assert cc["ratio"] > 2 * cls["ratio"] and np.isnan(cc["low"])
    assert cc["reason"] == "images with the attribute in fewer than three contexts"


def test_a_word_without_the_attribute_has_no_ratio():
    labels, estimate = world(np.random.default_rng(3))
    labels.values[:, 0, :, 1] = 0
    table = ratio_table([labels, estimate], PAIR, MEASURE)
    row, whole = table.iloc[1], table.iloc[-1]
    assert (
        np.isnan(row["ratio"]) and row["reason"] == "no image of a word with the attribute, or none without"
    )
    assert whole["reason"] == "without 1 of 4 attributes" and np.isfinite(whole["ratio"])
