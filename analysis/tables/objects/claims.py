"""Claims about objects: presence over all words of a side, tested against words and the detector's errors.

A claim is the intersection of three tests, so its p-value is the largest of theirs (Berger 1982):

- *pooled*: images of the two sides' words differ, by sign flips over prompts. Exact for these words, however few;
- *words*: the difference is more than words of one side differ among themselves
  (`analysis.stats.word_test.word_test`), where each side has `WORDS` words or more;
- *corrected*: it is there behind what the detector misses and invents (`analysis.stats.detector_correction`), where its
  error rates are known.

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

from analysis.stats.detector_correction import Corrected, Labels, corrected_presence
from analysis.stats.multiplicity import adjust_p_values
from analysis.stats.object_counts import ObjectTable
from analysis.stats.sign_flips import flip_p_values
from analysis.stats.word_test import word_test
from analysis.study import Member
from analysis.tables.interval_columns import interval_columns, with_ends

LEVEL = 0.05  # of false claims among the claims
WORDS = 3  # a side; with two, no exact test over words can fall below 1/3
HOLDS, HEDGED, DETECTOR = "holds", "these words", "not behind the detector"
NONE, UNTESTED = "not significant", "not tested"
CLAIMS = (HOLDS, HEDGED, DETECTOR, NONE, UNTESTED)
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
    "p_corrected",
    "p_corrected_adjusted",
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
    """Counts of a detector's errors.

    Attributes
    ----------
    table : DataFrame
        One row per prompt, indicator and object: ``prompt``, ``indicator``, ``object`` and the number of images in
        `COUNTS`; not whole where images are weighted.
    same : bool
        Whether the prompts are those of the table that is corrected.
    """

    table: pd.DataFrame
    same: bool = True


def claim_table(
    table: ObjectTable,
    pairs: Sequence[Sequence[str]],
    sides: Mapping[str, Sequence[str]],
    counts: DetectorCounts | None = None,
    *,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> pd.DataFrame:
    """Return what may be claimed of every object of every pair, tested against words and the detector's errors.

    Parameters
    ----------
    table : ObjectTable
    pairs : sequence of (str, str)
        Indicators (first, second); a difference is the second's less the first's.
    sides : mapping of str to sequence of str
        The indicators of each side, itself and its controls. Pairs with another indicator are left out.
    counts : DetectorCounts, optional
    level : float
        Of the intervals.
    resamples, seed : int
        Of the correction.

    Returns
    -------
    DataFrame
        One row per pair and object, columns `CLAIM_COLUMNS`. ``n_differ``: prompts at which the sides differ.
        ``claim`` is one of `CLAIMS`, and ``claim_reason`` what keeps it from holding. ``_adjusted``: over the objects
        of the pair that can be significant at all, NaN for the others.

    Examples
    --------
    Three words a side, eight prompts; the hat comes with every word of the second side and none of the first.

    >>> from analysis.stats.object_counts import object_table
    >>> keys = [(prompt, 0, word) for prompt in range(8) for word in "abcxyz"]
    >>> images = pd.DataFrame(keys, columns=["prompt", "seed", "indicator"])
    >>> counts = [[int(word in "xyz" and (prompt, word) != (0, "x"))] for prompt, _, word in keys]
    >>> table = object_table(images, counts, indicators="abcxyz", objects=["hat"])
    >>> rows = claim_table(table, [("a", "x")], {"a": "abc", "x": "xyz"})
    >>> rows[["object", "difference_words", "p_pooled", "claim"]].round(4).to_numpy().tolist()
    [['hat', 0.9583, 0.0078, 'holds']]
    """
    options = {"level": level, "resamples": resamples, "seed": seed}
    tables = [
        _pair(table, sides[first], sides[second], counts, options).assign(first=first, second=second)
        for first, second in pairs
        if first in sides and second in sides
    ]
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=list(CLAIM_COLUMNS))


def sides_of(members: Sequence[Member]) -> dict[str, list[str]]:
    """The indicators of each side by its first: itself, then its controls.

    Examples
    --------
    >>> sides_of([Member("f", "woman"), Member("m", "man"), Member("lady", "lady", "f")])
    {'f': ['f', 'lady'], 'm': ['m']}
    """
    return {
        member.name: [member.name, *(other.name for other in members if other.control == member.name)]
        for member in members
        if not member.control
    }


def _pair(table, first, second, counts, options) -> pd.DataFrame:
    words = (list(first), list(second))
    sizes = [len(side) for side in words]
    presence = [_presence(table, side) for side in words]  # (n_words, n_prompts, n_objects)
    sums = np.stack([side.sum(axis=0) for side in presence], axis=1)  # (n_prompts, 2, n_objects)
    differences = sizes[0] * sums[:, 1] - sizes[1] * sums[:, 0]
    differ = (differences != 0).sum(axis=0)
    family = (2.0 ** (1 - np.minimum(differ, 60)) <= LEVEL) & (len(table.prompts) > 1)
    nearness = [(side / table.seeds[:, None])[None] for side in presence]
    over = word_test(*nearness, level=options["level"])
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
    if counts is not None:
        columns |= _corrected_columns(_corrected(table, words, sums, counts, options))
    rows = pd.DataFrame(columns).reindex(columns=list(CLAIM_COLUMNS))
    for name in ("p_pooled", "p_words", "p_corrected"):
        rows[f"{name}_adjusted"] = _adjusted(rows[name].to_numpy(np.float64), family)
    return _decided(rows, family, min(sizes) >= WORDS, counts is not None)


def _presence(table: ObjectTable, names: Sequence[str]) -> NDArray[np.float64]:
    """Images with the object by word, prompt and object."""
    images = np.zeros((len(names), len(table.prompts), len(table.objects)))
    for place, name in enumerate(names):
        images[place, table.prompt, table.object] = table.presence[:, table.column(name)]
    return images


def _corrected(table, words, sums, counts: DetectorCounts, options) -> Corrected:
    known = counts.table
    prompts = pd.Index(table.prompts if counts.same else known["prompt"].unique())
    row, what = prompts.get_indexer(known["prompt"]), pd.Index(table.objects).get_indexer(known["object"])
    side = np.select([known["indicator"].isin(names) for names in words], [0, 1], -1)
    keep = (row >= 0) & (what >= 0) & (side >= 0)
    cells = []
    for name in COUNTS:
        cell = np.zeros((len(prompts), 2, len(table.objects)))
        np.add.at(cell, (row[keep], side[keep], what[keep]), known[name].to_numpy(np.float64)[keep])
        cells.append(cell)
    images = np.stack([table.seeds * len(names) for names in words], axis=1)
    return corrected_presence(sums, images, Labels(*cells, aligned=counts.same), **options)


def _corrected_columns(corrected: Corrected) -> dict[str, NDArray[np.float64]]:
    return {
        **interval_columns(
            "difference_corrected",
            corrected.difference,
            corrected.difference_low,
            corrected.difference_high,
        ),
        **interval_columns(
            "bias_score_corrected", corrected.score, corrected.score_low, corrected.score_high
        ),
        "sensitivity_first": corrected.sensitivity[0],
        "sensitivity_second": corrected.sensitivity[1],
        "specificity_first": corrected.specificity[0],
        "specificity_second": corrected.specificity[1],
        "p_corrected": corrected.p_value,
    }


def _adjusted(p_value: NDArray[np.float64], family: NDArray[np.bool_]) -> NDArray[np.float64]:
    return adjust_p_values(np.where(family, p_value, np.nan))


def _decided(rows: pd.DataFrame, family, enough_words: bool, checked: bool) -> pd.DataFrame:
    """Return the three tests joined, and what may be claimed."""
    pooled, words, corrected = (
        rows[name].to_numpy(np.float64) for name in ("p_pooled", "p_words", "p_corrected")
    )
    turned = rows["difference_corrected"] * rows["difference_words"] <= 0
    behind = np.where(turned, 1.0, corrected) if checked else np.full(len(rows), np.nan)
    over = np.where(np.isnan(words), 1.0, words) if enough_words else np.full(len(rows), np.nan)
    joined = {  # a test that is not there takes no part
        "all": _largest(pooled, over, behind),
        "words": _largest(pooled, behind),
        "detector": _largest(pooled, over),
    }
    passed = {name: np.nan_to_num(_adjusted(p, family), nan=1.0) < LEVEL for name, p in joined.items()}
    alone = rows["p_pooled_adjusted"].fillna(1.0).to_numpy() < LEVEL
    claim = np.select(
        [passed["all"] & enough_words, passed["words"], passed["detector"] | alone, ~np.isnan(pooled)],
        [HOLDS, HEDGED, DETECTOR if checked else NONE, NONE],
        UNTESTED,
    )
    unknown = np.isnan(corrected) if checked else np.ones(len(rows), bool)
    reason = np.select(
        [claim == HEDGED, claim == DETECTOR, (claim == HOLDS) & unknown, (claim == NONE) & ~family],
        [NOT_WORDS if enough_words else FEW_WORDS, NOT_CORRECTED, NOT_CHECKED, RARE],
        "",
    )
    return rows.assign(
        p_claim=joined["all"],
        p_claim_adjusted=_adjusted(joined["all"], family),
        claim=claim.astype(object),
        claim_reason=reason.astype(object),
    )


def _largest(*p_values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The largest p-value of those there are; NaN where the first is not there."""
    return np.where(np.isnan(p_values[0]), np.nan, np.fmax.reduce(p_values))
