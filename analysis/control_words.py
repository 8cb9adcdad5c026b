"""Which words stand for which, and the columns of ``tables/gap`` that hold a gap against words that mean the same.

A control is interchangeable with one of the indicators: with the reference, or with a side of a contrast. The words of
a side are then the indicator and its controls, those of the reference the reference and its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from analysis.controls import word_test
from analysis.multiplicity import adjust_p_values
from analysis.paired import prompt_means
from analysis.resampling import moments

ROUNDING = 8 * float(np.finfo(np.float32).eps)  # similarities are stored in float32
FEWEST = 3  # reference words that are taken as a sample; two say next to nothing about how they spread
NONE = "controls: none"
ONE = "controls: one of the reference's, two are needed"
APART = "controls: no prompt has two"

Nearness = Callable[
    [str, str], NDArray[np.float64]
]  # of two words: (n_prompts, n_seeds, n_columns), NaN if not compared


@dataclass(frozen=True)
class Words:
    """The words of one contrast: those of each side, and those that mean the same as the reference, itself first."""

    first: list[str]
    second: list[str]
    reference: list[str]

    @property
    def references(self) -> list[str]:
        """Reference words that are taken as a sample: all where there are enough, else the reference alone."""
        return self.reference if len(self.reference) >= FEWEST else self.reference[:1]


def words_of(contrast: Sequence[str], reference: str, controls: Mapping[str, str]) -> Words:
    """Sort the controls to what they stand for.

    Parameters
    ----------
    contrast : (str, str)
        Its own two words are nobody's control.
    reference : str
    controls : mapping of str to str
        For each control the indicator with which it is interchangeable.

    Examples
    --------
    >>> words_of(("man", "woman"), "person", {"lady": "woman", "human": "person"})
    Words(first=['man'], second=['woman', 'lady'], reference=['person', 'human'])
    """
    return Words(*(
        [name, *(control for control, of in controls.items() if of == name and control not in contrast)]
        for name in (*contrast, reference)
    ))  # fmt: skip


def control_columns(near: Nearness, words: Words, level: float) -> dict[str, NDArray | list | int]:
    """Columns of the gap table that speak of control words, each of shape (n_columns,), and ``controls``, a reason."""
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
    sides = [
        np.array([[prompt_means(near(own, name)) for name in side] for own in words.references])
        for side in (words.first, words.second)
    ]
    others = np.array([prompt_means(word) for word in groups[2]]) if controls else None
    result = word_test(*sides, others, level=level)
    nothing = below_rounding([word for group in groups[:2] for word in group])
    p_value, low, high = (
        np.where(nothing, np.nan, part) for part in (result.p_value, result.low, result.high)
    )
    return {
        "control_gap": largest,
        "control_low": 0.0 - largest,  # a plain minus would make -0.0 of 0
        "control_high": largest,
        "n_controls": n_controls,
        "word_gap": np.where(nothing & ~np.isnan(result.gap), 0.0, result.gap),
        "word_low": low,
        "word_high": high,
        "word_df": result.freedom,
        "n_references": len(words.references),
        "p_control": p_value,
        "p_control_adjusted": adjust_p_values(p_value),
        "controls": reason,
    }


def below_rounding(words: Sequence[NDArray[np.float64]]) -> NDArray[np.bool_]:
    """Say for each column whether all differences between words are what float32 leaves of no difference."""
    largest, scale = (
        np.max([np.nan_to_num(np.abs(part)).max(axis=(0, 1), initial=0.0) for part in parts], axis=0)
        for parts in ([words[0] - word for word in words[1:]], words)
    )
    return largest <= ROUNDING * scale
