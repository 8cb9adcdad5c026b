"""Which words stand for which, and the columns of ``tables/gap`` that hold a gap against words that mean the same.

A control is interchangeable with one of the indicators: with the reference, or with a side of a contrast. The words of
a side are then the indicator and its controls, those of the reference the reference and its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np
from numpy.typing import NDArray

from analysis.stats.bootstrap import prompt_means
from analysis.stats.cautions import unequal_sides
from analysis.stats.resampling import NOTHING, ONE_PROMPT, moments
from analysis.stats.word_test import ALL_ALIKE, word_test

ROUNDING = 8 * float(np.finfo(np.float32).eps)  # similarities are stored in float32
CONTROLS = "controls: "  # begins a reason that speaks of them
NONE = "controls: none"
ONE = "controls: one of the reference's, two are needed"
APART = "controls: no prompt has two"

Nearness = Callable[
    [str, str], NDArray[np.float64]
]  # of two words: (n_prompts, n_seeds, n_columns), NaN if not compared


@dataclass(frozen=True)
class SideWords:
    """The words of one contrast: those of each side, and those that mean the same as the reference, itself first."""

    first: list[str]
    second: list[str]
    reference: list[str]


def words_of(contrast: Sequence[str], reference: str, controls: Mapping[str, str]) -> SideWords:
    """Sort the controls to what they stand for.

    >>> words_of(("man", "woman"), "person", {"lady": "woman", "human": "person"})
    SideWords(first=['man'], second=['woman', 'lady'], reference=['person', 'human'])
    """
    return SideWords(
        *(
            [name, *(control for control, of in controls.items() if of == name and control not in contrast)]
            for name in (*contrast, reference)
        )
    )


WORD_COLUMNS = (
    *(
        "word_gap",
        "word_correction",
        "word_low",
        "word_high",
        "word_error",
        "p_control",
        "p_permutation",
        "p_floor",
    ),
    *("share_words", "share_references", "share_prompts"),
)
COUNTS = ("n_words_first", "n_words_second", "n_references", "word_df")


def control_columns(
    near: Nearness, words: SideWords, level: float, *, shared_noise: bool = False, nearest: float = 1.0
) -> dict[str, NDArray | list]:
    """Columns of the gap table that speak of control words, of shape (n_columns,); ``controls`` (why), ``unequal``.

    `near` gives the nearness of two words, ``(n_prompts, n_seeds, n_columns)``; `nearest` is that of two that do not
    differ.
    """
    reference, controls = words.reference[0], words.reference[1:]
    groups = [[near(reference, name) for name in group] for group in (words.first, words.second, controls)]
    n_columns = groups[0][0].shape[-1]
    added = [word for group in (groups[0][1:], groups[1][1:], groups[2]) for word in group]
    n_controls = sum((~np.isnan(word).all(axis=(0, 1)) for word in added), np.zeros(n_columns, np.int64))
    means = [
        np.abs(moments(prompt_means(one - other))[1])
        for group in groups
        for one, other in combinations(group, 2)
    ]
    largest = np.fmax.reduce(means) if means else np.full(n_columns, np.nan)
    reason = [
        "" if np.isfinite(top) else NONE if not count else APART if means else ONE
        for count, top in zip(n_controls, largest)
    ]
    columns, spread, untested = _against_words(near, words, level, shared_noise)
    apart = np.array([_apart(near, side, nearest, n_columns) for side in (words.first, words.second)])
    sizes = (len(words.first), len(words.second))
    nothing = below_rounding([word for group in groups[:2] for word in group])
    for name in WORD_COLUMNS:
        if name not in ("word_gap", "word_correction", "p_floor"):
            columns[name] = np.where(nothing, np.nan, columns[name])
    several = ~np.isin(untested, [NOTHING, ONE_PROMPT])  # of which the gap's own reason speaks
    untested = np.where(several, np.where(nothing, ALL_ALIKE, untested), "")
    reason = [
        why or (test and f"{CONTROLS}{test.removeprefix(CONTROLS)}") for why, test in zip(reason, untested)
    ]
    columns["word_gap"] = np.where(nothing & ~np.isnan(columns["word_gap"]), 0.0, columns["word_gap"])
    return columns | {
        "control_gap": largest,
        "control_low": 0.0 - largest,  # a plain minus would make -0.0 of 0
        "control_high": largest,
        "n_controls": n_controls,
        "controls": reason,
        "unequal": unequal_sides(spread, sizes, apart) & np.isnan(columns["word_correction"]),
    }


def _apart(near: Nearness, side: Sequence[str], nearest: float, n_columns: int) -> NDArray[np.float64]:
    """Mean distance of the words of a side from each other."""
    pairs = [nearest - moments(prompt_means(near(*both)))[1] for both in combinations(side, 2)]
    with np.errstate(invalid="ignore", divide="ignore"):
        count = sum((~np.isnan(pair)).astype(np.int64) for pair in pairs)
        return sum(np.nan_to_num(pair) for pair in pairs) / count if pairs else np.full(n_columns, np.nan)


def _against_words(
    near: Nearness, words: SideWords, level: float, shared_noise: bool
) -> tuple[dict[str, NDArray], NDArray[np.float64], NDArray[np.object_]]:
    """`word_test` of every column with the words compared there, their counts, their spread, and why there is no p."""
    names = (*words.first, *words.second)
    values = {(own, name): prompt_means(near(own, name)) for own in words.reference for name in names}
    inside = {
        both: prompt_means(near(*both))
        for side in (words.first, words.second)
        for both in combinations(side, 2)
    }
    spare = {name: prompt_means(near(words.reference[0], name)) for name in words.reference[1:]}
    n_columns = values[words.reference[0], words.first[0]].shape[1]
    columns = {name: np.full(n_columns, np.nan) for name in WORD_COLUMNS}
    columns |= {name: np.zeros(n_columns, np.int64) for name in COUNTS}
    spread, reason = np.full((2, n_columns), np.nan), np.full(n_columns, "", dtype=object)
    for chosen, first, second, references, corrected in _compared(values, inside, words, n_columns):
        sides = [
            np.array([[values[own, name][:, chosen] for name in side] for own in references])
            for side in (first, second)
        ]
        others = [spare[name][:, chosen] for name in spare]
        others = [word for word in others if not np.isnan(word).all()]
        within = None
        if corrected:
            within = [_table(side, inside)[:, :, :, chosen] for side in (first, second)]
        gaps = None
        if shared_noise:
            gaps = sum(
                sum(near(own, name)[..., chosen] for name in first) / len(first)
                - sum(near(own, name)[..., chosen] for name in second) / len(second)
                for own in references
            ) / len(references)
            if corrected:
                one, two = (
                    sum(near(*both)[..., chosen] for both in combinations(side, 2)) / comb(len(side), 2)
                    for side in (first, second)
                )
                gaps = gaps - 0.5 * (one - two)
        result = word_test(
            *sides, np.array(others) if others else None, within=within, shared=gaps, level=level
        )
        found = (
            *(result.gap, result.correction, result.low, result.high, result.error),
            *(result.p_value, result.p_permutation, result.p_floor),
            *(result.share_words, result.share_references, result.share_prompts),
            *(len(first), len(second), len(references), result.freedom),
        )
        for name, column in zip((*WORD_COLUMNS, *COUNTS), found):
            columns[name][chosen] = column
        spread[:, chosen], reason[chosen] = result.spread, result.reason
    return columns, spread, reason


def _table(side: Sequence[str], inside: Mapping[tuple[str, str], NDArray[np.float64]]) -> NDArray[np.float64]:
    """Nearness of the words of a side to each other, shape (n_words, n_words, n_prompts, n_columns)."""
    values = np.full((len(side), len(side), *inside[side[0], side[1]].shape), np.nan)
    for a, b in combinations(range(len(side)), 2):
        values[a, b] = values[b, a] = inside[side[a], side[b]]
    return values


def _compared(
    values: Mapping[tuple[str, str], NDArray[np.float64]],
    inside: Mapping[tuple[str, str], NDArray[np.float64]],
    words: SideWords,
    n_columns: int,
) -> Iterator[tuple[NDArray[np.int64], list[str], list[str], list[str], bool]]:
    """Columns in which the same words were compared, with those of each side and those of the reference.

    The words of a side are those compared with the reference itself; a further reference word counts where it was
    compared with all of them. The two words of the contrast always stand for their sides. Last, whether the gap can be
    corrected: each side has two words or more, and all of them were compared with each other.
    """
    names = (*words.first, *words.second)
    there = {key: ~np.isnan(value).all(axis=0) for key, value in (*values.items(), *inside.items())}
    used = np.array([there[words.reference[0], name] for name in names]).reshape(len(names), n_columns)
    used[[0, len(words.first)]] = True
    further = [
        np.all([there[own, name] | ~row for name, row in zip(names, used)], axis=0)
        for own in words.reference[1:]
    ]
    row_of = dict(zip(names, used))
    all_pairs = [there[a, b] | ~row_of[a] | ~row_of[b] for a, b in inside]
    pairs = np.all(
        [used[: len(words.first)].sum(axis=0) > 1, used[len(words.first) :].sum(axis=0) > 1], axis=0
    )
    corrected = np.all([pairs, *all_pairs], axis=0)
    patterns, which = np.unique(np.array([*used, *further, corrected]).T, axis=0, return_inverse=True)
    for number, pattern in enumerate(patterns):
        kept = dict(zip((*names, *words.reference[1:]), pattern))
        sides = ([name for name in side if kept[name]] for side in (words.first, words.second))
        references = [words.reference[0], *(name for name in words.reference[1:] if kept[name])]
        yield np.flatnonzero(which.ravel() == number), *sides, references, bool(pattern[-1])


def below_rounding(words: Sequence[NDArray[np.float64]]) -> NDArray[np.bool_]:
    """Say for each column whether all differences between words are what float32 leaves of no difference."""
    largest, scale = (
        np.max([np.nan_to_num(np.abs(part)).max(axis=(0, 1), initial=0.0) for part in parts], axis=0)
        for parts in ([words[0] - word for word in words[1:]], words)
    )
    return largest <= ROUNDING * scale


def changed_prompts(sides: Sequence[NDArray[np.float64]]) -> NDArray[np.int64]:
    """Count for each column the prompts at which two words differ by more than what float32 leaves of no difference."""
    scale = np.max([np.nan_to_num(np.abs(side)).max(axis=(0, 1), initial=0.0) for side in sides], axis=0)
    return (np.nan_to_num(np.abs(sides[0] - sides[1])) > ROUNDING * scale).any(axis=1).sum(axis=0)
