"""Is a gap more than words that mean the same make? Table ``word_gap``, the one that speaks of bias.

A control is interchangeable with one of the indicators: with the reference, or with a side of a contrast. The words of
a side are then the indicator and its controls, those of the reference the reference and its own; the test over words,
references and prompts is `analysis.stats.word_test`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.metrics.registry import definition
from analysis.stats.bootstrap import prompt_means
from analysis.stats.multiplicity import adjust_p_values
from analysis.stats.resampling import moments
from analysis.stats.word_test import ALL_ALIKE, unequal_sides, word_cautions, word_test
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

    def compared(one: str, other: str) -> bool:
        return not np.isnan(near(one, other)).all()

    reference, width = words.reference[0], len(family.columns)
    # the words of the contrast always stand for their sides, their synonyms where they were compared
    first, second = (
        [side[0], *(name for name in side[1:] if compared(reference, name))]
        for side in (words.first, words.second)
    )
    references = [
        own for own in words.reference if own == reference or all(compared(own, w) for w in (*first, *second))
    ]
    within = [list(combinations(side, 2)) for side in (first, second)]
    corrected = all(within) and all(compared(*pair) for pairs in within for pair in pairs)
    crossed = None
    if choices.crossed(family.space):
        means = [
            sum(near(own, name) for own in references for name in side) / (len(references) * len(side))
            for side in (first, second)
        ]
        if corrected:
            means = [
                mean - 0.5 * sum(near(*pair) for pair in pairs) / len(pairs)
                for mean, pairs in zip(means, within)
            ]
        crossed = means[0] - means[1]
    others = [prompt_means(near(reference, w)) for w in words.reference[1:] if compared(reference, w)]
    result = word_test(
        *(
            np.array([[prompt_means(near(own, name)) for name in side] for own in references])
            for side in (first, second)
        ),
        np.array(others) if others else None,
        within=[_within(near, side) for side in (first, second)] if corrected else None,
        shared=crossed,
        level=choices.level,
    )
    nothing = below_rounding([near(reference, name) for name in (*words.first, *words.second)])
    columns = {
        **{"word_low": result.low, "word_high": result.high, "word_error": result.error},
        **{"p_control": result.p_value, "share_words": result.share_words},
        "share_references": result.share_references,
    }
    columns = {name: np.where(nothing, np.nan, column) for name, column in columns.items()}
    unequal = np.full(width, False)
    if not corrected:  # of a corrected gap the words' spread is no part
        nearest = known.high if known.higher_is_nearer else -known.low
        apart = np.array([_apart(near, side, nearest, width) for side in (words.first, words.second)])
        unequal = unequal_sides(result.spread, (len(words.first), len(words.second)), apart)
    counts = [np.full(width, len(group)) for group in (first, second, references)]
    cautions = word_cautions(counts[2], unequal, (counts[0], counts[1]))
    reason = np.where(nothing & (result.reason == ""), ALL_ALIKE, result.reason)
    alone = len(words.first) + len(words.second) + len(words.reference) == 3
    return columns | {
        "word_gap": np.where(nothing & ~np.isnan(result.gap), 0.0, result.gap),
        "n_prompts": result.n,
        **dict(zip(("n_words_first", "n_words_second", "n_references"), counts)),
        "reason": np.full(width, NO_WORDS, object) if alone else reason,
        "warning": np.where(np.isnan(columns["p_control"]), "", cautions),
    }


def _apart(near: Nearness, side: Sequence[str], nearest: float, n_columns: int) -> NDArray[np.float64]:
    """Mean distance of the words of a side from each other; `nearest` is the nearness of two that do not differ."""
    pairs = [nearest - moments(prompt_means(near(*both)))[1] for both in combinations(side, 2)]
    with np.errstate(invalid="ignore", divide="ignore"):
        count = sum((~np.isnan(pair)).astype(np.int64) for pair in pairs)
        return sum(np.nan_to_num(pair) for pair in pairs) / count if pairs else np.full(n_columns, np.nan)


def _within(near: Nearness, side: Sequence[str]) -> NDArray[np.float64]:
    """Nearness of the words of a side to each other, shape (n_words, n_words, n_prompts, n_columns)."""
    first = prompt_means(near(side[0], side[1]))
    values = np.full((len(side), len(side), *first.shape), np.nan)
    for a, b in combinations(range(len(side)), 2):
        values[a, b] = values[b, a] = prompt_means(near(side[a], side[b]))
    return values
