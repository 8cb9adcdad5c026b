"""What may be said of an object: over all words of a side, at a rate of false claims, behind the detector's errors."""

import numpy as np
import pandas as pd
import pytest

from analysis.stats.multiplicity import adjust_p_values
from analysis.stats.object_counts import object_table
from analysis.stats.permutation import flip_p_values
from analysis.stats.word_test import word_test
from analysis.tables.objects.claims import (
    ALIKE,
    CLAIM_COLUMNS,
    DETECTOR,
    HEDGED,
    HINT,
    HOLDS,
    NONE,
    UNTESTED,
    DetectorCounts,
    claim_table,
)
from analysis.tables.objects.detector_error import count_errors

SIDES = {"f": ["f", "f1", "f2"], "m": ["m", "m1", "m2"]}
PAIR = [("f", "m")]


def table_of(present, sides=SIDES):
    """Of presence of shape (n_prompts, 2, n_words, n_objects), and its images."""
    names = [name for side in sides.values() for name in side]
    n = len(present)
    keys = [(prompt, 0, name) for prompt in range(n) for name in names]
    images = pd.DataFrame(keys, columns=["prompt", "seed", "indicator"])
    objects = [f"o{number}" for number in range(present.shape[-1])]
    flat = present.reshape(len(images), -1).astype(int)
    return object_table(images, flat, indicators=names, objects=objects), images


def presence(words, chance, n=16, seed=0):
    """An object with the chances of the words, shape (2, words)."""
    return np.random.default_rng(seed).random((n, 2, words, 1)) < np.array(chance)[None, :, :, None]


EXACT = DetectorCounts(pd.DataFrame(), exact=True)


def claim(present, counts=EXACT, sides=SIDES):
    rows = claim_table(table_of(present, sides)[0], PAIR, sides, counts)
    assert tuple(rows.columns) == CLAIM_COLUMNS
    row = rows.iloc[0]
    assert not (row["p_value"] < 0.05 and row["difference_low"] <= 0 <= row["difference_high"])
    return row


def test_an_object_of_every_word_holds_and_of_one_word_does_not():
    row = claim(presence(3, [[0.0] * 3, [0.9] * 3]))
    assert row["claim"] == HOLDS and row["p_objects"] < 0.05 and row["difference_low"] > 0
    row = claim(presence(3, [[0.0] * 3, [0.0, 0.0, 1.0]]))  # one of three words brings it
    assert row["difference_low"] < 0 < row["difference_high"] and row["p_value"] > 0.05
    assert row["claim"] == HEDGED and "among themselves" in row["reason"]


def test_numbers_are_those_of_the_single_tests():
    present = np.random.default_rng(3).random((20, 2, 3, 7)) < np.linspace(0.02, 0.6, 7)
    rows = claim_table(table_of(present)[0], PAIR, SIDES)
    sides = [np.moveaxis(present[:, side], 1, 0)[None].astype(float) for side in (0, 1)]
    expected = word_test(*sides, apart=True)
    np.testing.assert_allclose(rows["difference_low"], -expected.high)
    sums = present.sum(axis=2)
    np.testing.assert_allclose(rows["difference"], (sums[:, 1] - sums[:, 0]).sum(axis=0) / 60)
    np.testing.assert_allclose(rows["share_second"] - rows["share_first"], rows["difference"])
    differ = (sums[:, 0] != sums[:, 1]).sum(axis=0)
    assert (differ < 6).any() and (differ >= 6).any()
    joined = np.fmax(flip_p_values(sums[:, 1].astype(int) - sums[:, 0].astype(int)), expected.p_value)
    np.testing.assert_allclose(rows["p_value"][differ > 0], joined[differ > 0])
    joined[differ < 6] = np.nan  # 2 / 2^6 < 0.05 < 2 / 2^5
    np.testing.assert_allclose(rows["p_objects"], adjust_p_values(joined))


def counts_of(truth, detected):
    """Through the same door as a run's: images with what is there, and rows of detections."""
    _, images = table_of(truth)
    images = images.rename(columns={"prompt": "triplet"}).assign(
        sample_id=[f"i{n}" for n in range(len(images))]
    )
    flat = detected.reshape(len(images), -1)
    image, what = np.nonzero(flat)
    objects = images.iloc[image].assign(object=0, lemma=[f"o{number}" for number in what])
    seen = pd.DataFrame(truth.reshape(len(images), -1), index=images["sample_id"])
    seen.columns = [f"o{number}" for number in range(flat.shape[1])]
    return DetectorCounts(count_errors(images, objects, seen))


def test_what_the_detector_makes_is_marked():
    truth = np.concatenate([presence(3, [[0.3] * 3] * 2, 24, s) for s in range(6)], axis=3)
    detected = truth.copy()
    detected[:, 0] &= np.random.default_rng(9).random(detected[:, 0].shape) < 0.15
    real = np.concatenate([presence(3, [[0.05] * 3, [0.8] * 3], 24, 50 + s) for s in range(2)], axis=3)
    truth, detected = (np.concatenate([part, real], axis=3) for part in (truth, detected))
    table = table_of(detected)[0]
    bare = claim_table(table, PAIR, SIDES)
    rows = claim_table(table, PAIR, SIDES, counts_of(truth, detected))
    assert (bare["claim"] == HINT).sum() >= 6 and not (bare["claim"] == HOLDS).any()
    assert (rows["claim"][:6] != HOLDS).all() and (rows["claim"][:6] == DETECTOR).sum() >= 4
    assert (rows["claim"][6:] == HOLDS).all()


def test_without_a_checked_detector_a_difference_is_a_hint():
    present = presence(3, [[0.2] * 3, [0.8] * 3], 24)
    row = claim(present, None)
    assert row["claim"] == HINT and row["reason"] == "the detector's errors on it are not known"
    assert (row["share_first"], row["share_second"]) == pytest.approx(present.mean(axis=(0, 2))[:, 0])
    assert claim(present)["claim"] == HOLDS  # the same, of a detector that is the truth
    few = {name: own[:1] for name, own in SIDES.items()}
    row = claim(present[:, :, :1], None, few)
    assert row["claim"] == HINT and "fewer than 3 words" in row["reason"]
    assert row["difference_low"] > 0  # over prompts, where words allow no interval


def test_of_few_words_that_have_labels_the_difference_is_that_behind_the_detector():
    few = {name: own[:1] for name, own in SIDES.items()}
    truth = presence(1, [[0.1], [0.8]], 24)
    detected = truth.copy()
    detected[:, 1] &= np.random.default_rng(9).random(detected[:, 1].shape) < 0.6
    names = few["f"] + few["m"]
    keys = [(prompt, 0, name) for prompt in range(24) for name in names]
    images = pd.DataFrame(keys, columns=["triplet", "seed", "indicator"]).assign(sample_id=range(48))
    image = np.flatnonzero(detected.reshape(48))
    objects = images.iloc[image].assign(object=0, lemma="o0")
    seen = pd.DataFrame(truth.reshape(48, 1), index=images["sample_id"], columns=["o0"])
    counts = DetectorCounts(count_errors(images, objects, seen))
    rows = claim_table(table_of(detected, few)[0], PAIR, few, counts)
    assert rows.loc[0, "difference"] == pytest.approx(truth[:, 1].mean() - truth[:, 0].mean())
    assert rows.loc[0, "claim"] == HEDGED


def test_nothing_to_test_says_so():
    row = claim(np.zeros((8, 2, 3, 1), bool))
    assert row["claim"] == UNTESTED and np.isnan(row["p_value"]) and row["reason"] == ALIKE
    one = np.zeros((8, 2, 3, 1), bool)
    one[:3, 1] = True
    row = claim(one)  # p can be no less than 2 / 2^3
    assert row["claim"] == NONE and "too few prompts" in row["reason"]
    assert claim_table(table_of(one)[0], [("f", "other")], SIDES).empty
