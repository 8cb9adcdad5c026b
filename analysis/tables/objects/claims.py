"""Claims about objects: presence over all words of a side, tested against words and the detector's errors.

A claim is the intersection of two tests, so its p-value is the larger of theirs (Berger 1982):

- the difference is there behind what the detector misses and invents (`analysis.stats.detector_correction`), by labels
  of some images. Where only some words of a side have labels, it is the difference of these words. Without labels
  images of the two sides' words differ as detected, by sign flips over prompts: exact for these words, but what a
  detector sees less of on one side differs too, so that it is a hint. A detector whose detections are the truth (the
  toy world's checker) needs no labels;
- the difference is more than words of one side differ among themselves (`analysis.stats.word_test.word_test`), where
  each side has `WORDS` words or more.

The interval of a claim is that of the second test, so that it leaves out 0 wherever the p-value is significant; with
fewer words that over prompts, behind the detector's errors where it has labels.

Benjamini–Hochberg over the objects of a comparison that can be significant at all keeps the expected share of false
claims among the claims at 5 %. Whether an object can be follows from the number of prompts at which the sides differ,
not from how (Tarone 1990, Gilbert 2005). Fewer than three words a side license a hedged sentence alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.stats.detector_correction import Labels, corrected_presence
from analysis.stats.multiplicity import adjust_p_values
from analysis.stats.object_counts import ObjectTable
from analysis.stats.permutation import flip_p_values
from analysis.stats.word_test import word_test
from analysis.study import Member
from probes.config.measurement import significance_level

WORDS = 3  # a side; with two, no exact test over words can fall below 1/3
HOLDS, HEDGED, DETECTOR = "holds", "these words", "not behind the detector"
HINT, NONE, UNTESTED = "detector not checked", "not significant", "not tested"
CLAIMS = (HOLDS, HEDGED, HINT, DETECTOR, NONE, UNTESTED)
COUNTS = ("hits", "missed", "false", "rejected")
CLAIM_COLUMNS = (
    *("first", "second", "object", "share_first", "share_second"),
    *(
        "difference",
        "difference_low",
        "difference_high",
        "p_value",
        "p_objects",
        "n_prompts",
        "claim",
        "reason",
    ),
)
FEW_WORDS = f"fewer than {WORDS} words a side"
NOT_WORDS = "no more than words of one side differ among themselves"
NOT_CHECKED = "the detector's errors on it are not known"
NOT_CORRECTED = "not significant behind the detector's errors"
RARE = "too few prompts differ for any test to be significant"
ALIKE = "in as many images of both sides at every prompt"


@dataclass(frozen=True)
class DetectorCounts:
    """Counts of a detector's errors: one row per prompt, indicator and object, with the number of images in `COUNTS`.

    Not whole numbers where images are weighted. ``exact``: detections are the truth, and the table is empty.
    """

    table: pd.DataFrame
    exact: bool = False


def claim_table(
    table: ObjectTable,
    pairs: Sequence[Sequence[str]],
    sides: Mapping[str, Sequence[str]],
    counts: DetectorCounts | None = None,
    *,
    level: float = 0.95,
) -> pd.DataFrame:
    """Return what may be claimed of every object of every pair: one row per pair and object, with `CLAIM_COLUMNS`.

    Pairs are (first, second), a difference is the second's less the first's; `sides` are the indicators of each side,
    itself and its controls, and pairs with another are left out; without `counts` nobody knows the detector's errors.
    ``claim`` is one of `CLAIMS`, and ``reason`` what keeps it from holding; ``p_objects`` is adjusted over the objects
    of the pair that can be significant at all, NaN for the others.

    Three words a side, eight prompts; the hat comes with every word of the second side and none of the first.

    >>> from analysis.stats.object_counts import object_table
    >>> keys = [(prompt, 0, word) for prompt in range(8) for word in "abcxyz"]
    >>> images = pd.DataFrame(keys, columns=["prompt", "seed", "indicator"])
    >>> counts = [[int(word in "xyz" and (prompt, word) != (0, "x"))] for prompt, _, word in keys]
    >>> table = object_table(images, counts, indicators="abcxyz", objects=["hat"])
    >>> rows = claim_table(table, [("a", "x")], {"a": "abc", "x": "xyz"})
    >>> rows[["object", "difference", "p_value", "claim"]].round(4).to_numpy().tolist()
    [['hat', 0.9583, 0.0078, 'detector not checked']]
    """
    found = [
        _pair(table, (list(sides[first]), list(sides[second])), counts, level).assign(
            first=first, second=second
        )
        for first, second in pairs
        if first in sides and second in sides
    ]
    columns = list(CLAIM_COLUMNS)
    return pd.concat(found, ignore_index=True)[columns] if found else pd.DataFrame(columns=columns)


def sides_of(members: Sequence[Member]) -> dict[str, list[str]]:
    """Return the indicators of each side by its first: itself, then its controls."""
    return {
        member.name: [member.name, *(other.name for other in members if other.control == member.name)]
        for member in members
        if not member.control
    }


def _pair(
    table: ObjectTable, words: Sequence[list[str]], counts: DetectorCounts | None, level: float
) -> pd.DataFrame:
    """The rows of a pair of sides, each with its words."""
    sizes = [len(side) for side in words]
    enough, checked = min(sizes) >= WORDS, counts is not None and not counts.exact
    presence = [_presence(table, side) for side in words]  # (n_words, n_prompts, n_objects)
    sums = np.stack([side.sum(axis=0) for side in presence], axis=1)  # (n_prompts, 2, n_objects)
    shares = [sums[:, side].sum(axis=0) / max(table.n_images * sizes[side], 1) for side in (0, 1)]
    differences = sizes[0] * sums[:, 1] - sizes[1] * sums[:, 0]
    differ = (differences != 0).sum(axis=0)
    pooled = np.where(differ > 0, flip_p_values(differences), np.nan)
    difference = shares[1] - shares[0]
    if enough:
        nearness = [(side / table.seeds[:, None])[None] for side in presence]
        # kept apart: of many objects the smallest p counts, far out where added degrees of freedom do not hold
        over = word_test(*nearness, level=level, apart=True)
        low, high, p_words = np.clip(-over.high, -1, 1), np.clip(-over.low, -1, 1), over.p_value
        p_words = np.where(np.isnan(p_words), 1.0, p_words)
    else:  # these words alone, over prompts
        images, none = np.stack([table.seeds * size for size in sizes], axis=1), np.zeros(sums.shape)
        exact = Labels(sums, none, none, images[:, :, None] - sums)
        over = corrected_presence(sums, images, exact, level=level)
        low, high, p_words = over.difference_low, over.difference_high, over.p_value
    behind, unknown = pooled, np.full(len(pooled), counts is None)
    if checked:
        corrected = _corrected(table, words, presence, counts.table, level)
        unknown, turned = np.isnan(corrected.p_value), corrected.difference * difference <= 0
        behind = np.where(unknown | np.isnan(pooled), pooled, np.where(turned, 1.0, corrected.p_value))
        if not enough:  # what is claimed of these words is the difference behind the detector's errors
            labelled = ~unknown & ~np.isnan(pooled)
            own = (
                corrected.difference,
                corrected.difference_low,
                corrected.difference_high,
                corrected.p_value,
            )
            difference, low, high, p_words = (
                np.where(labelled, of_labels, plain)
                for of_labels, plain in zip(own, (difference, low, high, p_words))
            )
    alpha = significance_level(level)  # of false claims among the claims
    family = (2.0 ** (1 - np.minimum(differ, 60)) <= alpha) & (len(table.prompts) > 1)

    def adjusted(p_value: NDArray[np.float64]) -> NDArray[np.float64]:
        return adjust_p_values(np.where(family, p_value, np.nan))

    joined = np.maximum(behind, p_words)  # NaN where the first is
    all_words, these_words, detected, alone = (
        np.nan_to_num(adjusted(p), nan=1.0) < alpha
        for p in (joined, behind if enough else joined, np.maximum(pooled, p_words), pooled)
    )
    beyond, tested = all_words & enough, ~np.isnan(pooled)
    claim = np.select(
        [(beyond | these_words) & unknown, beyond, these_words, (detected | alone) & checked, tested],
        [HINT, HOLDS, HEDGED, DETECTOR, NONE],
        UNTESTED,
    )
    of_words = NOT_WORDS if enough else FEW_WORDS
    reason = np.select(
        [
            (claim == HINT) & beyond,
            claim == HINT,
            claim == HEDGED,
            claim == DETECTOR,
            (claim == NONE) & ~family,
            (claim == UNTESTED) & (differ == 0),
        ],
        [NOT_CHECKED, f"{NOT_CHECKED}; {of_words}", of_words, NOT_CORRECTED, RARE, ALIKE],
        "",
    )
    columns = {
        **{"object": table.objects, "share_first": shares[0], "share_second": shares[1]},
        **{"difference": difference, "difference_low": low, "difference_high": high},
        **{"p_value": joined, "p_objects": adjusted(joined), "n_prompts": len(table.prompts)},
        **{"claim": claim.astype(object), "reason": reason.astype(object)},
    }
    return pd.DataFrame(columns)


def _presence(table: ObjectTable, names: Sequence[str]) -> NDArray[np.float64]:
    """Images with the object by word, prompt and object."""
    images = np.zeros((len(names), len(table.prompts), len(table.objects)))
    for place, name in enumerate(names):
        images[place, table.prompt, table.object] = table.presence[:, table.column(name)]
    return images


def _corrected(
    table: ObjectTable,
    words: Sequence[Sequence[str]],
    presence: Sequence[NDArray[np.float64]],
    known: pd.DataFrame,
    level: float,
) -> pd.DataFrame:
    """Differences behind the detector, of those words of each side that have labels."""
    there = set(known["indicator"].unique())
    labelled = [[name in there for name in names] for names in words]
    sums = np.stack([side[chosen].sum(axis=0) for side, chosen in zip(presence, labelled)], axis=1)
    images = np.stack([table.seeds * sum(chosen) for chosen in labelled], axis=1)
    row, what = (
        pd.Index(own).get_indexer(known[name])
        for name, own in (("prompt", table.prompts), ("object", table.objects))
    )
    side = np.select([known["indicator"].isin(names) for names in words], [0, 1], -1)
    keep = (row >= 0) & (what >= 0) & (side >= 0)
    cells = []
    for name in COUNTS:
        cell = np.zeros(sums.shape)
        np.add.at(cell, (row[keep], side[keep], what[keep]), known[name].to_numpy(np.float64)[keep])
        cells.append(cell)
    return corrected_presence(sums, images, Labels(*cells), level=level)
