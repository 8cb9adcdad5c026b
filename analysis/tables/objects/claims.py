"""Claims about objects: presence over all words of a side, tested against words and the detector's errors.

A claim is the intersection of two tests, so its p-value is the larger of theirs (Berger 1982):

- *corrected*: the difference is there behind what the detector misses and invents
  (`analysis.stats.detector_correction`), by labels of some images. Where only some words of a side have labels, it is
  the difference of these words;
- *words*: the difference is more than words of one side differ among themselves
  (`analysis.stats.word_test.word_test`), where each side has `WORDS` words or more.

Without labels the first is *pooled*: images of the two sides' words differ as detected, by sign flips over prompts.
That is exact for these words, but what a detector sees less of on one side differs too: it is a hint, with the tipping
point (`analysis.stats.tipping_points`) from which the detector alone would make it. A detector whose detections
are the truth (the toy world's checker) needs no labels.

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
from analysis.stats.tipping_points import tipping_points
from analysis.stats.word_test import word_test
from analysis.study import Member
from analysis.tables.interval_columns import interval_columns, with_ends
from probes.config.measurement import significance_level

WORDS = 3  # a side; with two, no exact test over words can fall below 1/3
HOLDS, HEDGED, DETECTOR = "holds", "these words", "not behind the detector"
HINT, NONE, UNTESTED = "detector not checked", "not significant", "not tested"
CLAIMS = (HOLDS, HEDGED, HINT, DETECTOR, NONE, UNTESTED)
COUNTS = ("hits", "missed", "false", "rejected")
TEXTS = ("claim", "claim_reason")
CLAIM_COLUMNS = (
    "first",
    "second",
    "object",
    "n_prompts",
    "n_differ",
    "words_first",
    "words_second",
    "presence_words_first",
    "presence_words_second",
    *with_ends("difference_words"),
    "p_pooled",
    "p_pooled_adjusted",
    "p_words",
    "p_words_adjusted",
    "words_freedom",
    *with_ends("difference_corrected"),
    *with_ends("bias_score_corrected"),
    "sensitivity_first",
    "sensitivity_second",
    "specificity_first",
    "specificity_second",
    "labelled_prompts",
    "p_corrected",
    "p_corrected_adjusted",
    "tipping_sensitivity",
    "tipping_sensitivity_bound",
    "tipping_false",
    "tipping_false_bound",
    "p_claim",
    "p_claim_adjusted",
    *TEXTS,
)
FEW_WORDS = f"fewer than {WORDS} words a side"
NOT_WORDS = "no more than words of one side differ among themselves"
NOT_CHECKED = "the detector's errors on it are not known"
NOT_CORRECTED = "not significant behind the detector's errors"
RARE = "too few prompts differ for any test to be significant"


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
    """Return what may be claimed of every object of every pair, tested against words and the detector's errors.

    Pairs are (first, second), a difference is the second's less the first's; `sides` are the indicators of each side,
    itself and its controls, and pairs with another are left out; without `counts` nobody knows the detector's errors.

    One row per pair and object, columns `CLAIM_COLUMNS`. ``n_differ``: prompts at which the sides differ. ``claim`` is
    one of `CLAIMS`, and ``claim_reason`` what keeps it from holding. ``_adjusted``: over the objects of the pair that
    can be significant at all, NaN for the others. ``tipping_``: see `analysis.stats.detector_correction`, of the
    difference as detected and its interval over words and prompts, or over prompts where a side has fewer than `WORDS`
    words.

    Three words a side, eight prompts; the hat comes with every word of the second side and none of the first.

    >>> from analysis.stats.object_counts import object_table
    >>> keys = [(prompt, 0, word) for prompt in range(8) for word in "abcxyz"]
    >>> images = pd.DataFrame(keys, columns=["prompt", "seed", "indicator"])
    >>> counts = [[int(word in "xyz" and (prompt, word) != (0, "x"))] for prompt, _, word in keys]
    >>> table = object_table(images, counts, indicators="abcxyz", objects=["hat"])
    >>> rows = claim_table(table, [("a", "x")], {"a": "abc", "x": "xyz"})
    >>> rows[["object", "difference_words", "p_pooled", "claim"]].round(4).to_numpy().tolist()
    [['hat', 0.9583, 0.0078, 'detector not checked']]
    """
    tables = [
        _pair(table, sides[first], sides[second], counts, level).assign(first=first, second=second)
        for first, second in pairs
        if first in sides and second in sides
    ]
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=list(CLAIM_COLUMNS))


def sides_of(members: Sequence[Member]) -> dict[str, list[str]]:
    """The indicators of each side by its first: itself, then its controls."""
    return {
        member.name: [member.name, *(other.name for other in members if other.control == member.name)]
        for member in members
        if not member.control
    }


def _pair(table, first, second, counts, level) -> pd.DataFrame:
    words = (list(first), list(second))
    sizes = [len(side) for side in words]
    presence = [_presence(table, side) for side in words]  # (n_words, n_prompts, n_objects)
    sums = np.stack([side.sum(axis=0) for side in presence], axis=1)  # (n_prompts, 2, n_objects)
    differences = sizes[0] * sums[:, 1] - sizes[1] * sums[:, 0]
    differ = (differences != 0).sum(axis=0)
    alpha = significance_level(level)  # of false claims among the claims
    family = (2.0 ** (1 - np.minimum(differ, 60)) <= alpha) & (len(table.prompts) > 1)
    nearness = [(side / table.seeds[:, None])[None] for side in presence]
    # kept apart: of many objects the smallest p counts, far out where degrees of freedom that are added up do not hold
    over = word_test(*nearness, level=level, apart=True)
    share = [sums[:, place].sum(axis=0) / max(table.n_images * sizes[place], 1) for place in (0, 1)]
    low, high = np.clip(-over.high, -1, 1), np.clip(-over.low, -1, 1)
    columns = {
        "object": table.objects,
        "n_prompts": len(table.prompts),
        "n_differ": differ,
        "words_first": sizes[0],
        "words_second": sizes[1],
        "presence_words_first": share[0],
        "presence_words_second": share[1],
        **interval_columns("difference_words", share[1] - share[0], low, high),
        "p_pooled": np.where(differ > 0, flip_p_values(differences), np.nan),
        "p_words": over.p_value,
        "words_freedom": over.freedom,
    }
    images = np.stack([table.seeds * size for size in sizes], axis=1)
    none = np.zeros(sums.shape)  # a detector that does not err
    plain = corrected_presence(sums, images, Labels(sums, none, none, images[:, :, None] - sums), level=level)
    enough = min(sizes) >= WORDS
    ends = (low, high) if enough else (plain.difference_low, plain.difference_high)
    columns |= {f"tipping_{name}": value for name, value in vars(tipping_points(*share, *ends)).items()}
    checked = counts is not None and not counts.exact
    if checked:
        columns |= _corrected_columns(table, words, presence, counts.table, level)
    rows = pd.DataFrame(columns).reindex(columns=list(CLAIM_COLUMNS))
    for name in ("p_pooled", "p_words", "p_corrected"):
        rows[f"{name}_adjusted"] = _adjusted(rows[name].to_numpy(np.float64), family)
    return _decided(rows, family, enough, checked, alpha, known=counts is not None and counts.exact)


def _presence(table: ObjectTable, names: Sequence[str]) -> NDArray[np.float64]:
    """Images with the object by word, prompt and object."""
    images = np.zeros((len(names), len(table.prompts), len(table.objects)))
    for place, name in enumerate(names):
        images[place, table.prompt, table.object] = table.presence[:, table.column(name)]
    return images


def _corrected_columns(table, words, presence, known: pd.DataFrame, level: float) -> dict[str, NDArray]:
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
    found = corrected_presence(sums, images, Labels(*cells), level=level)
    return {
        **interval_columns(
            "difference_corrected", found.difference, found.difference_low, found.difference_high
        ),
        **interval_columns("bias_score_corrected", found.score, found.score_low, found.score_high),
        "sensitivity_first": found.sensitivity[0],
        "sensitivity_second": found.sensitivity[1],
        "specificity_first": found.specificity[0],
        "specificity_second": found.specificity[1],
        "labelled_prompts": found.labelled,
        "p_corrected": found.p_value,
    }


def _adjusted(p_value: NDArray[np.float64], family: NDArray[np.bool_]) -> NDArray[np.float64]:
    return adjust_p_values(np.where(family, p_value, np.nan))


def _decided(
    rows: pd.DataFrame, family, enough_words: bool, checked: bool, alpha: float, *, known: bool
) -> pd.DataFrame:
    """Return the tests joined, and what may be claimed."""
    pooled, words, corrected = (
        rows[name].to_numpy(np.float64) for name in ("p_pooled", "p_words", "p_corrected")
    )
    turned = rows["difference_corrected"] * rows["difference_words"] <= 0
    behind = np.where(np.isnan(corrected) | np.isnan(pooled), pooled, np.where(turned, 1.0, corrected))
    over = np.where(np.isnan(words), 1.0, words) if enough_words else np.full(len(rows), np.nan)
    joined = _largest(behind, over)
    passed = {
        name: np.nan_to_num(_adjusted(p, family), nan=1.0) < alpha
        for name, p in (("all", joined), ("words", behind), ("detected", _largest(pooled, over)))
    }
    alone = rows["p_pooled_adjusted"].fillna(1.0).to_numpy() < alpha
    unknown = np.isnan(corrected) & (not known)
    beyond = passed["all"] & enough_words
    claim = np.select(
        [
            (beyond | passed["words"]) & unknown,
            beyond,
            passed["words"],
            (passed["detected"] | alone) & checked,
            ~np.isnan(pooled),
        ],
        [HINT, HOLDS, HEDGED, DETECTOR, NONE],
        UNTESTED,
    )
    of_words = NOT_WORDS if enough_words else FEW_WORDS
    reason = np.select(
        [
            (claim == HINT) & beyond,
            claim == HINT,
            claim == HEDGED,
            claim == DETECTOR,
            (claim == NONE) & ~family,
        ],
        [NOT_CHECKED, f"{NOT_CHECKED}; {of_words}", of_words, NOT_CORRECTED, RARE],
        "",
    )
    return rows.assign(
        p_claim=joined,
        p_claim_adjusted=_adjusted(joined, family),
        claim=claim.astype(object),
        claim_reason=reason.astype(object),
    )


def _largest(*p_values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The largest p-value of those there are; NaN where the first is not there."""
    return np.where(np.isnan(p_values[0]), np.nan, np.fmax.reduce(p_values))
