"""Shares and areas under the ROC curve (AUC) of rows that share prompts, with bootstrap intervals over prompts."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special, stats

from analysis.stats.resampling import quantiles, resample_counts

TIE = 1e-9  # scores nearer than this are equal


@dataclass(frozen=True)
class IntervalEstimate:
    """A number of so many rows with its interval over prompts; NaN with a reason where it is not defined."""

    value: float
    low: float
    high: float
    n: int
    reason: str = ""


class Bootstrap:
    """Estimates with bootstrap intervals over prompts, all from the same resamples.

    The ends are quantiles at the probabilities that Student's t has for so few prompts (Hesterberg 2015: expanded).
    """

    def __init__(self, prompts: int, resamples: int = 2000, level: float = 0.95, seed: int = 0) -> None:
        self._prompts = prompts
        self._counts = resample_counts(prompts, resamples, seed).astype(np.float64)
        wide = special.stdtrit(prompts - 1, (1 - level) / 2) * np.sqrt(prompts / (prompts - 1))
        self._tails = (float(special.ndtr(wide)), float(special.ndtr(-wide)))

    def mean(self, prompt: NDArray[np.int64], values: NDArray[np.float64]) -> IntervalEstimate:
        """The mean over rows."""
        sums = np.bincount(prompt, values, self._prompts)
        rows = np.bincount(prompt, minlength=self._prompts).astype(float)
        return self._ratio(sums.sum(), rows.sum(), self._counts @ sums, self._counts @ rows, len(values))

    def auc(
        self, prompt: NDArray[np.int64], scored: ArrayLike, label: ArrayLike, stratum: NDArray[np.int64]
    ) -> IntervalEstimate:
        """The probability that a row labelled 1 is scored above one labelled 0 of the same stratum; ties count half.

        Arrays of shape (n,); a NaN score or label leaves a row out, the stratum is the probe that scored it.
        """
        wins, pairs = pairs_by_prompt(prompt, scored, label, stratum, self._prompts)
        if not pairs.any():
            return IntervalEstimate(np.nan, np.nan, np.nan, 0, "rows of one outcome alone")
        above, among = (self._drawn_pairs(table) for table in (wins, pairs))
        n = int((~np.isnan(np.asarray(scored, float) + np.asarray(label, float))).sum())
        return self._ratio(wins.sum(), pairs.sum(), above, among, n)

    def _drawn_pairs(self, table: NDArray[np.float64]) -> NDArray[np.float64]:
        """Sums over pairs in each resample; a prompt drawn twice makes no pair with its other copy.

        Its copies would be compared as often again within the prompt, where noise and text are shared and a word
        stands out, and the resamples would lie above the data.
        """
        counts = self._counts
        return ((counts @ table) * counts).sum(axis=1) - ((counts**2 - counts) @ np.diag(table))

    def _ratio(
        self,
        above: float,
        among: float,
        drawn_above: NDArray[np.float64],
        drawn_among: NDArray[np.float64],
        n: int,
    ) -> IntervalEstimate:
        with np.errstate(invalid="ignore", divide="ignore"):
            drawn = drawn_above / drawn_among  # NaN where a resample has no pair
        low, high = (float(end[0]) for end in quantiles(drawn[:, None], *self._tails))
        return IntervalEstimate(float(above / among), low, high, n)


def roc_auc(values: ArrayLike, labels: ArrayLike) -> float:
    """Return the probability that what is labelled 1 has a higher value than what is labelled 0; ties count half.

    NaN on either side is left out; NaN where all have one label.

    >>> roc_auc([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1])
    0.75
    """
    from sklearn.metrics import roc_auc_score  # which most runs do without

    values, labels = np.asarray(values, float).ravel(), np.asarray(labels, float).ravel()
    both = ~(np.isnan(values) | np.isnan(labels))
    values, labels = values[both], labels[both] > 0.5
    if labels.all() or not labels.any():
        return np.nan
    return float(roc_auc_score(labels, stats.rankdata(values)))  # ranks: a score may be infinite


def pairs_by_prompt(
    prompt: NDArray[np.int64], scored: ArrayLike, label: ArrayLike, stratum: NDArray[np.int64], prompts: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Pairs of a row labelled 1 and a row labelled 0 of the same stratum, by the prompts of both.

    Those whose first is scored above its second, ties counted half, and all: shape (prompts, prompts), sums of halves.
    """
    scores, labels = np.asarray(scored, float), np.asarray(label, float)
    wins, pairs = np.zeros((2, prompts, prompts))
    for one in np.unique(stratum):
        first, second = (
            np.flatnonzero((stratum == one) & (labels == kind) & ~np.isnan(scores)) for kind in (1.0, 0.0)
        )
        apart = scores[first][:, None] - scores[second][None, :]
        near = np.abs(apart) < TIE
        better = np.where(near, 0.5, (apart > 0).astype(float))
        at = (prompt[first][:, None], prompt[second][None, :])
        np.add.at(wins, at, better)
        np.add.at(pairs, at, 1.0)
    return wins, pairs


def across_folds(
    estimate: IntervalEstimate, folds: int, bounds: tuple[float, float] = (0.0, 1.0)
) -> IntervalEstimate:
    r"""Return the interval of a cross-validated estimate, widened for what the fits to the folds have in common.

    Every row trains the probes that score the others, so scores are not independent and an interval that takes the
    probes as given is too narrow. Nadeau and Bengio's (2003) correction, :math:`1 + k / (k - 1)` times the variance
    with k folds, is far too wide where probes are nearly always right. So a value :math:`\theta` lies in the interval
    where

    .. math:: |\hat\theta - \theta| \le h \sqrt{1 + \tfrac{k}{k - 1} (1 - u^2)}

    with h the estimate's own distance to its end and u the place of :math:`\theta` in its `bounds`, -1 to 1, chance in
    the middle: all of the correction for chance, none at the bounds. That it falls with :math:`1 - u^2` is an
    interpolation of ours; `docs/validation/statistics.md` has its coverage.

    >>> one = across_folds(IntervalEstimate(0.8, 0.7, 0.88, 40), 5)
    >>> round(one.low, 2), round(one.high, 2)
    (0.65, 0.9)
    """
    middle, half = sum(bounds) / 2, (bounds[1] - bounds[0]) / 2
    more = folds / (folds - 1)
    place = (estimate.value - middle) / half

    def end(own: float, side: float) -> float:
        h2 = ((own - estimate.value) / half) ** 2
        # where the square of what stands above is met
        root = np.sqrt(h2 * ((1 + more) * (1 + more * h2) - more * place**2))
        at = middle + half * (place + side * root) / (1 + more * h2)
        return float(np.clip(at, *bounds))

    return replace(estimate, low=end(estimate.low, -1.0), high=end(estimate.high, 1.0))
