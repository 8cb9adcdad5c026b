r"""How much more often images of one side show something, with an interval that holds wherever the run stops.

The gap is the share of images of the first side in which it was found less that of the second: of each prompt the mean
over seeds and over the words of a side, then the mean over prompts, as in `analysis.tables.objects.claims`. A draw (a
prompt and seed) counts where the images of all indicators could be observed.

Of a prompt it lies between -1 and 1 whatever it is, so that the confidence sequence of that reach assumes nothing about
its distribution. Words are chosen before the first image and no more of them are drawn: their part is that of Welch's t
of the words' own shares, and both are joined as in `analysis.methods.stopping.gaps`. What varies with the prompts is in
both parts, so the interval is rather too wide.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import t

from analysis.methods.stopping.gaps import MEASURE, SequentialGap
from analysis.stats.confidence_sequences import sequence_interval
from analysis.tables.similarities.control_columns import SideWords

REACH = 1.0  # of a difference of shares


@dataclass(frozen=True)
class SharesOfPrompts:
    """Shares of images that show something, by word and prompt in the order in which they were drawn.

    Attributes
    ----------
    first, second : ndarray, shape (n_words, n_prompts)
        Means over seeds.
    prompts : ndarray of int, shape (n_prompts,)
        Their places in the order in which prompts are drawn, ascending; those without a draw that counts are left out.
    """

    first: NDArray[np.float64]
    second: NDArray[np.float64]
    prompts: NDArray[np.int64]

    @classmethod
    def of(
        cls, values: pd.DataFrame, words: SideWords, indicators: list[str], fewest: int = 1
    ) -> SharesOfPrompts:
        """Gather the values of single images.

        Parameters
        ----------
        values : DataFrame
            ``triplet``, ``seed``, ``indicator`` and ``value``, from 0 to 1; no row, or NaN, of an image without one.
        words : SideWords
        indicators : list of str
            All that a draw must have values of.
        fewest : int
            Draws that count which a prompt must have, or it is left out.
        """
        wide = values.pivot(index=["triplet", "seed"], columns="indicator", values="value")
        draws = wide.reindex(columns=indicators).dropna().groupby(level="triplet")
        means = draws.mean()[draws.size() >= fewest]
        first, second = (means[side].to_numpy(np.float64).T for side in (words.first, words.second))
        return cls(first, second, means.index.to_numpy(np.int64))

    def after(self, drawn: int, *, level: float) -> SequentialGap | None:
        """Return the gap after so many prompts were drawn; None where none of them has a draw that counts."""
        n = int((self.prompts < drawn).sum())
        if not n:
            return None
        seen = self.at(slice(n))
        values, most = seen.values()
        found = sequence_interval(values, level=level, reach=most)
        gap = SequentialGap.joined(found, seen.words_half(level), drawn)
        return replace(
            gap,
            low=max(gap.low, -REACH),
            high=min(gap.high, REACH),
            prompts_low=max(gap.prompts_low, -REACH),
            prompts_high=min(gap.prompts_high, REACH),
        )

    def at(self, places: slice | NDArray[np.int64]) -> SharesOfPrompts:
        """Return what is known of some of the prompts, by their rows here."""
        return SharesOfPrompts(self.first[:, places], self.second[:, places], self.prompts[places])

    def values(self, reach: str = MEASURE) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the difference of shares of each prompt, and how much it can be at most; shape (n_prompts,)."""
        return self.first.mean(axis=0) - self.second.mean(axis=0), np.full(len(self.prompts), REACH)

    def words_half(self, level: float) -> float:
        """Return half the interval for other words; NaN with one word a side."""
        return _words_half(self.first.mean(axis=1), self.second.mean(axis=1), level)

    def plus(self, other: SharesOfPrompts, sign: int) -> SharesOfPrompts:
        """Return the sum, or with ``sign`` -1 the difference, of what the same words and prompts have in two runs."""
        return SharesOfPrompts(
            self.first + sign * other.first, self.second + sign * other.second, self.prompts
        )


def _words_half(first: NDArray[np.float64], second: NDArray[np.float64], level: float) -> float:
    """Half of Welch's interval for other words, from the mean of each; NaN with one word a side."""
    if min(len(first), len(second)) < 2:
        return np.nan
    parts = np.array([side.var(ddof=1) / len(side) for side in (first, second)])
    if not parts.any():
        return 0.0
    freedom = parts.sum() ** 2 / (parts**2 / [len(first) - 1, len(second) - 1]).sum()
    return float(t.ppf((1 + level) / 2, freedom) * np.sqrt(parts.sum()))
