"""Is a gap more than words that mean the same make? Table ``word_gap``, the one that speaks of bias.

A control is interchangeable with one of the indicators: with the reference, or with a side of a contrast. The words of
a side are then the indicator and its controls, those of the reference the reference and its own; the test over words,
references and prompts is `analysis.stats.word_test`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.metrics.registry import definition
from analysis.stats.bootstrap import prompt_means
from analysis.stats.cautions import unequal_sides, word_cautions
from analysis.stats.multiplicity import adjust_p_values
from analysis.stats.resampling import moments
from analysis.stats.word_test import ALL_ALIKE, word_test
from analysis.tables.similarities.gap import KEYS, GapChoices, below_rounding
from analysis.tables.similarities.similarities import Similarities

WORD_COLUMNS = (
    *(*KEYS, "word_gap", "word_low", "word_high", "word_error", "p_control", "p_control_sites", "n_prompts"),
    *("n_words_first", "n_words_second", "n_references", "share_words", "share_references"),
    *("reason", "warning", "version"),
)
NO_WORDS = "no word of the same meaning as another was run"

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


def word_rows(family: Similarities, contrast: Sequence[str], choices: GapChoices) -> pd.DataFrame:
    """Return the rows of ``word_gap`` of a contrast, before their p-values are adjusted (`adjusted_words`)."""
    words = words_of(contrast, choices.reference, choices.controls)
    blocks = family.blocks(max(1, len(family.pairs) // 3))
    columns = pd.concat(
        [pd.DataFrame(tested_words(block, words, choices)) for _, block in blocks], ignore_index=True
    )
    keys = {"space": family.space, "site": family.columns["site"], "step": family.columns["step"]}
    keys |= {"metric": family.metric, "contrast": "-".join(contrast)}
    return pd.concat([pd.DataFrame(keys), columns], axis=1).assign(version=definition(family.metric).version)


def adjusted_words(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Return the rows of ``word_gap`` of one contrast, space and metric, from those of some of its sites each."""
    table = pd.concat(tables, ignore_index=True)
    adjusted = adjust_p_values(table["p_control"].to_numpy(np.float64))
    return table.assign(p_control_sites=adjusted)[[*WORD_COLUMNS]]


def joined_gaps(table: Callable[[str], pd.DataFrame]) -> pd.DataFrame:
    """Return the rows of ``gap``, each with its test against words and, where there is one, of equivalence.

    `table` gives a table by its name. Reasons and warnings of ``word_gap`` are in ``word_reason`` and ``word_warning``.
    """
    keys, words = (
        [*KEYS],
        table("word_gap").rename(columns={"reason": "word_reason", "warning": "word_warning"}),
    )
    equivalence = table("equivalence").rename(columns={"p_value": "p_equivalent"})
    words = words[[*keys, *(name for name in words if name not in table("gap"))]]
    joined = table("gap").merge(words, on=keys, how="left", validate="one_to_one")
    return joined.merge(equivalence[[*keys, "delta_source", "p_equivalent"]], on=keys, how="left")


def tested_words(family: Similarities, words: SideWords, choices: GapChoices) -> dict[str, NDArray]:
    """Return the gap over words with its test, a number of each column of the similarities."""
    known, kept = definition(family.metric), dict[tuple[str, str], NDArray[np.float64]]()

    def near(one: str, other: str) -> NDArray[np.float64]:
        key = min((one, other), (other, one))
        if key not in kept:
            kept[key] = known.sign * family.pair(one, other, choices.indicators)
        return kept[key]

    columns, spread = _against_words(near, words, choices.level, choices.crossed(family.space))
    nothing = below_rounding([near(words.reference[0], name) for name in (*words.first, *words.second)])
    for name in ("word_low", "word_high", "word_error", "p_control", "share_words", "share_references"):
        columns[name] = np.where(nothing, np.nan, columns[name])
    columns["word_gap"] = np.where(nothing & ~np.isnan(columns["word_gap"]), 0.0, columns["word_gap"])
    columns["reason"] = np.where(nothing & (columns["reason"] == ""), ALL_ALIKE, columns["reason"])
    alone = len(words.first) + len(words.second) + len(words.reference) == 3
    columns["reason"] = np.full(len(nothing), NO_WORDS, object) if alone else columns["reason"]
    plain = ~columns.pop("corrected")  # of a corrected gap the words' spread is no part
    unequal = np.full(len(nothing), False)
    if plain.any():
        nearest = known.high if known.higher_is_nearer else -known.low
        sides = (words.first, words.second)
        apart = np.array([_apart(near, side, nearest, len(nothing)) for side in sides])
        unequal = unequal_sides(spread, (len(words.first), len(words.second)), apart) & plain
    sizes = (columns["n_words_first"], columns["n_words_second"])
    warning = word_cautions(columns["n_references"], unequal, sizes)
    return columns | {"warning": np.where(np.isnan(columns["p_control"]), "", warning)}


def _apart(near: Nearness, side: Sequence[str], nearest: float, n_columns: int) -> NDArray[np.float64]:
    """Mean distance of the words of a side from each other; `nearest` is the nearness of two that do not differ."""
    pairs = [nearest - moments(prompt_means(near(*both)))[1] for both in combinations(side, 2)]
    with np.errstate(invalid="ignore", divide="ignore"):
        count = sum((~np.isnan(pair)).astype(np.int64) for pair in pairs)
        return sum(np.nan_to_num(pair) for pair in pairs) / count if pairs else np.full(n_columns, np.nan)


def _against_words(
    near: Nearness, words: SideWords, level: float, shared_noise: bool
) -> tuple[dict[str, NDArray], NDArray[np.float64]]:
    """`word_test` of every column with the words compared there, and their spread."""
    names = (*words.first, *words.second)
    values = {(own, name): prompt_means(near(own, name)) for own in words.reference for name in names}
    inside = {
        both: prompt_means(near(*both))
        for side in (words.first, words.second)
        for both in combinations(side, 2)
    }
    spare = {name: prompt_means(near(words.reference[0], name)) for name in words.reference[1:]}
    n_columns = values[words.reference[0], words.first[0]].shape[1]
    numbers = (
        "word_gap",
        "word_low",
        "word_high",
        "word_error",
        "p_control",
        "share_words",
        "share_references",
    )
    columns = {name: np.full(n_columns, np.nan) for name in numbers}
    counts = ("n_prompts", "n_words_first", "n_words_second", "n_references")
    columns |= {name: np.zeros(n_columns, np.int64) for name in counts}
    columns |= {"corrected": np.full(n_columns, False), "reason": np.full(n_columns, "", dtype=object)}
    spread = np.full((2, n_columns), np.nan)
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
        found = {
            **{"word_gap": result.gap, "word_low": result.low, "word_high": result.high},
            **{"word_error": result.error, "p_control": result.p_value, "reason": result.reason},
            **{"share_words": result.share_words, "share_references": result.share_references},
            **{"n_words_first": len(first), "n_words_second": len(second), "n_references": len(references)},
            **{"n_prompts": result.n, "corrected": ~np.isnan(result.correction)},
        }
        for name, column in found.items():
            columns[name][chosen] = column
        spread[:, chosen] = result.spread
    return columns, spread


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
