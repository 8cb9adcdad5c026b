r"""When is it decided? The share of a total effect that is left when the donor's text enters from step k on.

:math:`G(k)` is the share of prompts' total effect with the donor's text from step k to the end, so :math:`G(0)` is that
of the whole run and :math:`G(T) = 0` after the last of T steps. Its decrements :math:`G(k) - G(k')` from one entry to
the next add up to :math:`G(0)`: an additive decomposition of the effect over steps. The *half step* is where the curve,
interpolated linearly between the entries that were drawn, first falls to ½.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from analysis.stats.resampling import (
    ONE_PROMPT,
    matrix,
    product,
    quantiles,
    resample_counts,
)
from analysis.stats.shares import Shares, no_total, shares

GRID = 64  # points of each segment of the curve at which it is held against ½
NEVER_HALF = "less than half of the total effect from the first entry on"


@dataclass(frozen=True)
class DecisionCurve:
    """Shares by the step at which the donor's text enters.

    Attributes
    ----------
    entries : tuple of int
        Steps, ascending, from 0; the last is the number of steps T, where the share is 0.
    curve : Shares
        :math:`G`, a column an entry but for T.
    decrements : Shares
        :math:`G(k) - G(k')`, a column an entry but for T: the share that is decided between it and the next.
    half_step, half_low, half_high : float
        In steps, not rounded, with its interval; NaN where undefined.
    reason : str
        Why the half step is NaN; empty where it is not.
    """

    entries: tuple[int, ...]
    curve: Shares
    decrements: Shares
    half_step: float
    half_low: float
    half_high: float
    reason: str


def decision_curve(
    effects: ArrayLike,
    totals: ArrayLike,
    entries: Sequence[int],
    steps: int,
    *,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> DecisionCurve:
    """Return the decision curve with its decrements and the half step.

    Parameters
    ----------
    effects : array_like of float, shape (n_prompts, n_entries)
        What the donor's text does to each prompt when it enters at each step, in units of the outcome.
    totals : array_like of float, shape (n_prompts,)
        What it does as a word of the prompt.
    entries : sequence of int
        Ascending, each below `steps`.
    steps : int
        How many steps the run has.
    level, resamples, seed
        The interval of the half step takes at each end the outer one of two, over prompts with a value at every entry:
        the bootstrap's percentiles, set apart for few prompts (``expanded`` of `analysis.stats.intervals`), and the
        steps at which Student's t does not tell the curve from ½ (Fieller's inversion, on a grid).

    Raises
    ------
    ValueError
        If entries are not ascending, are outside of the run or are not as many as columns.

    Examples
    --------
    Nothing is decided before step 2, everything by step 6; half of it at step 4.

    >>> found = decision_curve([[2, 2, 0], [4, 4, 0], [3, 3, 0]], [2, 4, 3], [0, 2, 6], 8)
    >>> found.curve.share.tolist(), found.decrements.share.tolist(), found.half_step
    ([1.0, 1.0, 0.0], [0.0, 1.0, 0.0], 4.0)
    """
    effects, totals = matrix(effects), np.asarray(totals, np.float64)
    whole = list(entries)
    if not whole or whole != sorted(set(whole)) or whole[0] < 0 or whole[-1] >= steps:
        raise ValueError(f"entries: expected ascending steps from 0 to {steps - 1}, got {whole}")
    if effects.shape != (len(totals), len(whole)):
        raise ValueError(f"effects: expected the shape {(len(totals), len(whole))}, got {effects.shape}")
    options = {"level": level, "resamples": resamples, "seed": seed}
    after = np.column_stack([effects[:, 1:], np.zeros(len(effects))])
    half = _half_step(effects, totals, np.array([*whole, steps], np.float64), level, resamples, seed)
    return DecisionCurve(
        (*whole, steps),
        shares(effects, totals, **options),
        shares(effects - after, totals, **options),
        *half,
    )


def _half_step(
    effects: NDArray[np.float64],
    totals: NDArray[np.float64],
    places: NDArray[np.float64],
    level: float,
    resamples: int,
    seed: int,
) -> tuple[float, float, float, str]:
    """The half step with its interval, and why it is undefined."""
    complete = ~np.isnan(effects).any(axis=1) & ~np.isnan(totals)
    effects, totals, n = effects[complete], totals[complete], int(complete.sum())
    reason = str(no_total(totals[:, None], level, resamples=resamples, seed=seed)[0])
    if reason:
        return np.nan, np.nan, np.nan, reason
    value = float(crossing(effects.sum(axis=0)[None] / totals.sum(), places)[0])
    if np.isnan(value):
        return np.nan, np.nan, np.nan, NEVER_HALF
    if n < 2:
        return value, np.nan, np.nan, ONE_PROMPT
    sums = product(resample_counts(n, resamples, seed), np.column_stack([effects, totals]))
    with np.errstate(invalid="ignore", divide="ignore"):
        drawn = crossing(sums[:, :-1] / sums[:, -1:], places, otherwise=places[0])
    tail = special.ndtr(special.stdtrit(n - 1, (1 - level) / 2) * np.sqrt(n / (n - 1)))
    (low,), (high,) = quantiles(drawn[:, None], tail, 1 - tail)
    held = _not_rejected(effects, totals, places, level)
    return value, float(min(low, held.min())), float(max(high, held.max())), ""


def _not_rejected(
    effects: NDArray[np.float64], totals: NDArray[np.float64], places: NDArray[np.float64], level: float
) -> NDArray[np.float64]:
    """The steps at which Student's t does not tell the interpolated curve from ½, on a grid of each segment."""
    n, points = len(totals), np.column_stack([effects, np.zeros(len(totals))])
    within = np.arange(GRID + 1) / GRID
    grid = (places[:-1, None] + np.diff(places)[:, None] * within).ravel()
    apart = points[:, :-1, None] * (1 - within) + points[:, 1:, None] * within
    apart = apart.reshape(n, -1) - totals[:, None] / 2
    error = apart.std(axis=0, ddof=1) / np.sqrt(n)
    mean = apart.mean(axis=0)
    held = np.abs(mean) <= special.stdtrit(n - 1, (1 + level) / 2) * error
    nearest = grid[
        [np.abs(mean).argmin()]
    ]  # where every prompt falls at one point of the grid, or between two
    return grid[held] if held.any() else nearest


def crossing(
    curves: NDArray[np.float64], places: NDArray[np.float64], *, otherwise: float = np.nan
) -> NDArray[np.float64]:
    """Return where each curve, linear between its points and 0 at the last, first falls to ½.

    Parameters
    ----------
    curves : ndarray of float64, shape (n_curves, n_points - 1)
        Without the last point.
    places : ndarray of float64, shape (n_points,)
        Ascending.
    otherwise : float
        For a curve that is not above ½ at its first point.

    Examples
    --------
    >>> crossing(np.array([[1.0, 0.75], [0.25, 0.0]]), np.array([0.0, 5.0, 8.0])).tolist()
    [6.0, nan]
    """
    points = np.column_stack([curves, np.zeros(len(curves))])
    below = points <= 0.5
    after = below.argmax(axis=1)
    rows, before = np.arange(len(points)), np.maximum(after - 1, 0)
    high, low = points[rows, before], points[rows, after]
    with np.errstate(invalid="ignore", divide="ignore"):
        within = (high - 0.5) / (high - low)
        found = places[before] + within * (places[after] - places[before])
    return np.where(after > 0, found, np.where(points[:, 0] == 0.5, places[0], otherwise))
