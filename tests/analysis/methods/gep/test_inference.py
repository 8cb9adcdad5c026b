"""What differs by chance in an audit: contexts, images of one, or contexts and seeds; and missing labels."""

import dataclasses
import itertools

import numpy as np
import pytest

from analysis.methods.gep.inference import infer
from analysis.methods.gep.method import _SCORE
from analysis.methods.gep.scores import Audit, score, vector
from analysis.methods.gep.tables import adjust_page, context_table, inferred_tables
from analysis.report.section import lines
from probes.config.schema import Measure

MEASURE = Measure(permutations=1000, bootstrap=300)
PAIR = ("feminine", "masculine")


def audited(values, setting="neutral", noise="own"):
    contexts, attributes = (tuple(map(str, range(values.shape[axis]))) for axis in (0, 3))
    return Audit(np.asarray(values, float), contexts, PAIR, attributes, setting, "human", noise)


def said(one):
    _, score = adjust_page(*inferred_tables([one], [(*PAIR, "contrast")], MEASURE))
    (row,) = score.to_dict("records")
    sentence, *_ = lines(_SCORE, {"rows": [row], "source": "human", "alpha": 0.05})
    return row, sentence


def test_one_weighting_where_labels_are_missing():
    """A fifth of the images labelled, one attribute nowhere in three contexts: one score, and one interval."""
    rng = np.random.default_rng(0)
    values = (rng.random((16, 2, 5, 6)) < np.array([0.6, 0.2])[:, None, None]).astype(float)
    values[rng.random(values.shape) < 0.8] = np.nan
    values[:3, ..., 2] = np.nan
    one = audited(values)
    row, _ = said(one)
    assert row["score"] == pytest.approx(score(vector(one, *PAIR)), abs=1e-12)
    assert row["score"] > row["floor"] > 0
    assert row["reason"] == "" and row["low"] < row["debiased"] < row["high"] and row["p_value"] < 0.05
    rows, _ = inferred_tables([one], [(*PAIR, "contrast")], MEASURE)
    assert rows["difference"].to_numpy() == pytest.approx(vector(one, *PAIR), abs=1e-12)
    assert rows["n_units"].max() > rows["n_units"][2] and rows["low"].notna().all()
    assert ((rows["low"] <= rows["difference"]) & (rows["difference"] <= rows["high"])).all()


def test_of_one_context_the_images_are_the_sample():
    """The paper's Table 10: 20 images of each prompt, four attributes; here three in all images of one word alone."""
    values = np.zeros((1, 2, 20, 4))
    values[0, 0, :, :3] = 1.0
    row, sentence = said(audited(values))
    assert row["unit"] == "images" and row["p_value"] < 0.01 and row["score"] == 0.75
    assert "more than the" in sentence
    alike, sentence = said(audited(np.repeat(values[:, :1], 2, axis=1)))
    assert np.isnan(alike["p_value"]) and "no attribute differs" in sentence


def test_the_lower_end_is_the_least_score_whose_flipped_residuals_reach_the_estimate():
    """Of one attribute by all 2^9 flips; the error spent above falls from 0.05 at 0 to 0.025 at the floor."""
    values = np.zeros((9, 2, 10, 1))
    for context, hits in enumerate([7, 5, 6, -1, 4, 3, 2, 5, 1]):
        values[context, int(hits < 0), : abs(hits)] = 1.0
    differences = np.array([7, 5, 6, -1, 4, 3, 2, 5, 1]) / 10
    signs = np.array(list(itertools.product([-1, 1], repeat=9)))
    raw, floor = differences.mean(), np.abs(signs @ differences / 9).mean()
    scores = np.linspace(0, raw, 5001)
    reached = [(np.abs(s + signs @ (differences - s) / 9) >= raw - 1e-9).mean() for s in scores]
    expected = scores[reached >= 0.025 * (2 - np.minimum(scores / floor, 1))].min()
    row, _ = said(audited(values))
    assert row["low"] == pytest.approx(expected, abs=2e-4) and expected > 0.1
    assert row["p_value"] == reached[0] and row["floor"] == pytest.approx(floor)


def test_two_seeds_that_repeat_are_refused_in_words():
    rng = np.random.default_rng(4)
    row, sentence = said(audited(rng.integers(0, 2, (16, 2, 2, 4)), noise="shared"))
    assert np.isnan([row["p_value"], row["floor"], row["low"]]).all() and "three seeds are needed" in sentence
    assert row["score"] > 0 and "nothing can be said" in sentence


def test_an_audit_without_a_label_has_no_score():
    row, sentence = said(audited(np.full((3, 2, 2, 2), np.nan)))
    assert np.isnan(row["score"]) and "nothing can be said" in sentence
    one = dataclasses.replace(audited(np.full((3, 2, 2, 2), np.nan)), noise="shared")
    assert np.isnan(infer(one, *PAIR, MEASURE)[1]["p_value"])


@pytest.mark.parametrize("noise", ["own", "shared"])
def test_the_interval_of_a_score_holds_0_where_its_test_does_not_reject(noise):
    rng = np.random.default_rng(6)
    rejected = []
    for _ in range(12):
        share = 0.4 + 0.35 * rng.random() * np.array([[1.0], [-1.0]])[:, None] * (np.arange(4) < 2)
        values = (rng.random((16, 2, 5, 4)) < share).astype(float)
        values[rng.random(values.shape) < 0.1] = np.nan
        row, _ = said(audited(values, noise=noise))
        rejected.append(row["p_value"] < 0.05)
        assert (row["low"] > 0) == rejected[-1] and row["low"] <= row["debiased"] <= row["high"]
    assert any(rejected) and not all(rejected)


def test_labels_of_one_words_images_alone_compare_nothing():
    whole = audited(np.ones((3, 2, 2, 2)))
    one = dataclasses.replace(whole, values=whole.values[:, :1], indicators=PAIR[:1])
    compared = [(*PAIR, "contrast")]
    tables = *adjust_page(*inferred_tables([one], compared, MEASURE)), context_table([one], compared)
    assert [len(table) for table in tables] == [0, 0, 0]
