"""Other tests of a gap over words, on the same columns as the test that the project has.

Each takes the mean squares of the crossed design of words, reference words and prompts. They reject too seldom in some
worlds, or too often in others; the page on statistics shows both.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import special

from analysis.stats.crossed import crossed_p_value, satterthwaite
from analysis.stats.word_pairs import pair_pseudo_values
from lab.validate.statistics.simulation import COLUMNS, rejection_row
from lab.validate.statistics.words import (
    LEANING,
    ODD,
    PICTURES,
    PICTURES_LEANING,
    DrawnWords,
    WordWorld,
    draw_words,
)

SIZES = (3, 3, 3)
TESTED = "the test"


class MeanSquares:
    """Variances of a corrected gap, each a mean square of the crossed design over the numbers that it is a mean of.

    Attributes
    ----------
    gap : ndarray of float64, shape (n_columns,)
        By means over words.
    words, references, prompts, words_prompts, references_prompts, words_references, all_three : (ndarray, int)
        Mean squares, with their degrees of freedom; of words pooled over both sides.
    lessened_words : list of (ndarray, int)
        Of the words of each side, less what word and prompt leave.
    """

    def __init__(self, drawn: DrawnWords) -> None:
        sides = [
            side.astype(np.float64) - 0.5 * pair_pseudo_values(near.astype(np.float64))
            for side, near in zip(drawn.sides, drawn.within)
        ]  # (references, words, prompts, columns)
        references, _, n, _ = sides[0].shape
        counts = [side.shape[1] for side in sides]
        share, degrees = sum(1 / k for k in counts), sum(counts) - 2

        def of_sides(axes: tuple[int, ...]) -> list[NDArray[np.float64]]:
            """Sums of squares of what the factors kept have together, means over the others, by side."""
            sums = []
            for side in sides:
                part = side.mean(axis=axes, keepdims=True)
                for axis in {0, 1, 2} - set(axes):
                    part = part - part.mean(axis=axis, keepdims=True)
                sums.append((part**2).sum(axis=(0, 1, 2)))
            return sums

        def squares(axes: tuple[int, ...]) -> NDArray[np.float64]:
            return sum(of_sides(axes)) * share

        single = sides[0].mean(axis=1) - sides[1].mean(axis=1)  # (references, prompts, columns)
        whole, own = single.mean(axis=0), single.mean(axis=1)
        self.gap = whole.mean(axis=0)
        rest = single - whole - own[:, None] + self.gap
        fewer, before = references - 1, n - 1
        self.words = squares((0, 2)) / degrees, degrees
        self.references = own.var(axis=0, ddof=1) / references, fewer
        self.prompts = whole.var(axis=0, ddof=1) / n, before
        self.lessened_words = [
            (np.maximum(square - rest / before / n, 0) / (k - 1) / k, k - 1)
            for square, rest, k in zip(of_sides((0, 2)), of_sides((0,)), counts)
        ]
        self.words_prompts = squares((0,)) / degrees / before / n, degrees * before
        self.words_references = squares((2,)) / degrees / fewer / references, degrees * fewer
        self.references_prompts = (rest**2).sum(axis=(0, 1)) / fewer / before / n / references, fewer * before
        self.all_three = squares(()) / degrees / fewer / before / n / references, degrees * fewer * before

    def lessened(self) -> list[tuple[NDArray[np.float64], int]]:
        """Words, references and prompts, the last two less what others hold, never below the largest of the three."""
        (words, freedom), (references, fewer), (prompts, before) = self.words, self.references, self.prompts
        references = np.maximum.reduce([references - self.words_references[0], references - words, 0 * words])
        prompts = np.maximum.reduce(
            [prompts - self.words_prompts[0], prompts - words - references, 0 * words]
        )
        return [(words, freedom), (references, fewer), (prompts, before)]


def kept_apart(found: MeanSquares) -> NDArray[np.float64]:
    """P-values where every part keeps the quantile of its own degrees of freedom (Banerjee 1960)."""
    return crossed_p_value(found.gap**2, found.lessened())


def added_up(found: MeanSquares) -> NDArray[np.float64]:
    """P-values of the same parts by Satterthwaite's degrees of freedom."""
    return _student(found.gap, found.lessened())


def quasi_f(found: MeanSquares) -> NDArray[np.float64]:
    """P-values of the quasi-F in which numerator and denominator both are sums of mean squares (Clark 1973)."""
    below, freedom = satterthwaite([found.words, found.references, found.prompts, found.all_three])
    above, degrees = satterthwaite(
        [(found.gap**2, 1), found.words_prompts, found.references_prompts, found.words_references]
    )
    return special.fdtrc(degrees, freedom, above / below)


def means_over_pairs(found: MeanSquares) -> NDArray[np.float64]:
    """P-values of the parts that the project's test adds up, of the mean over pairs of words and not the median."""
    references, fewer = found.references
    left = np.maximum(references - found.references_prompts[0], 0)
    parts = [found.prompts, *found.lessened_words, (left, fewer, np.where(left > 0, references, 0))]
    return _student(found.gap, parts)


def prompts_alone(found: MeanSquares) -> NDArray[np.float64]:
    """P-values of Student's t over prompts, which takes words and reference words as they are."""
    return _student(found.gap, [found.prompts])


def _student(gap: NDArray[np.float64], parts: list) -> NDArray[np.float64]:
    total, freedom = satterthwaite(parts)
    return 2 * special.stdtr(np.maximum(freedom, 1), -np.abs(gap) / np.sqrt(total))


OTHER_TESTS: dict[str, Callable[[MeanSquares], NDArray[np.float64]]] = {
    "parts kept apart (Banerjee)": kept_apart,
    "the same parts, Satterthwaite": added_up,
    "quasi-F″ (Clark)": quasi_f,
    "the test, means over pairs": means_over_pairs,
    "prompts alone, Student's t": prompts_alone,
}


def other_rejections(
    worlds: tuple[WordWorld, ...] = (*PICTURES, *ODD),
    *,
    n_prompts: int = 24,
    simulations: int = 2000,
    seed: int = 0,
) -> pd.DataFrame:
    """Return how often the test and the others are significant at 5 % in the same columns of the default design."""
    rows = []
    for number, world in enumerate(worlds):
        rng = np.random.default_rng([seed, 1010 + number])
        drawn = draw_words(world, (*SIZES[:2], 0), n_prompts, simulations, rng, references=SIZES[2])
        rows.append(rejection_row(world.name, TESTED, True, drawn.tested()))
        found = MeanSquares(drawn)
        rows += [rejection_row(world.name, name, True, test(found)) for name, test in OTHER_TESTS.items()]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def other_powers(**options: int) -> pd.DataFrame:
    """Return the same where the reference leans."""
    return other_rejections((LEANING[0], *PICTURES_LEANING), **options)
