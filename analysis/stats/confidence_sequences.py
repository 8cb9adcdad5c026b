r"""Intervals of a mean that hold at every look: for audits that stop when they have seen enough.

An interval of a fixed design covers the mean in 95 % of audits at the one number of prompts that was chosen beforehand.
Whoever looks again and again and stops at the first that leaves out 0 is wrong far more often. A *confidence sequence*
covers the mean at all numbers of prompts at once, in 95 % of audits, and so wherever one stops.

It is made of bets. Against the claim that the mean is m a gambler stakes a share of the capital on each next value:

.. math:: K_t(m) = K_{t-1}(m)\, \bigl(1 + \mathrm{clip}(\pm\lambda_t (x_t - m),\, -1,\, 1)\bigr)

with :math:`\lambda_t` fixed before :math:`x_t` is seen. If the mean is m the capital is not expected to grow, and it
reaches 1/α at some time in at most a share α of audits (Ville). The interval holds all m against which it has not.

The stake is :math:`\lambda_t = \min(b / s_{t-1}(m),\, c / (R_t + |m|))`, with s the root mean square of the values
before around m and R their reach, and the capital is spread evenly over the shares b in `BETS` and over both signs.
Where few values differ from m, s is small, and all but the smallest stake are the whole capital (c = 1): one value at
its reach may end them. The smallest leaves a part of it (c in `CAPS`), and so goes on.

- Where no value is larger than its reach the clipping does nothing, and the level holds whatever the distribution.
- Where the values are symmetric about their mean it holds whatever their reach.
- Else it is approximate: where the tail is long and no reach is given, see docs/validation/stopping.md.

Under the null hypothesis that two labels could have changed places differences are symmetric about 0: the capital
against m = 0 is then an e-value, exact at every number of prompts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from analysis.stats.resampling import checked_level

BETS = (1 / 10, 1 / 4, 1 / 2)  # shares staked, in units of the values' root mean square
CAPS = (3 / 4, 1.0, 1.0)  # of the capital of each that a value at its reach may take
FEWEST = 3  # values that give the first scale, on which nothing is staked
_NEAREST, _FARTHEST, _POINTS = 1e-3, 64.0, 96  # points off the mean, in standard deviations or reaches
_HALVINGS = 20  # leave 1e-7 of an end's distance from the mean


@dataclass(frozen=True)
class SequenceInterval:
    """A mean of n values with an interval that holds wherever one stops.

    NaN and infinite where there is no value, or too few for any mean to be left out. `e_value` is the capital against a
    mean of 0: 1 / e_value is a p-value that holds wherever one stops.
    """

    mean: float
    low: float
    high: float
    e_value: float
    n: int


def log_capital(
    values: ArrayLike, means: ArrayLike, *, reach: ArrayLike | None = None
) -> NDArray[np.float64]:
    """Return the logarithm of the capital after all values, against each of some means; 0 for no value.

    Of values in the order in which they were seen, and `reach`, the largest absolute value there can be, as known
    before each. ValueError where a value is missing.

    Betting on a bounded mean: Waudby-Smith and Ramdas 2024, Section 4; the mixture over stakes is theirs too (Section
    B.3). Under symmetry: de la Peña 1999, Lemma 6.1. Ville 1939.

    Twelve values of 1: against a mean of 0 nine stakes are won, each of a share b; against 1 none is made.

    >>> log_capital([1.0] * 12, [0.0, 1.0]).round(3).tolist()
    [2.094, 0.0]
    """
    values, means = np.asarray(values, np.float64), np.atleast_1d(np.asarray(means, np.float64))
    if values.ndim != 1 or np.isnan(values).any():
        raise ValueError(f"values: expected numbers of shape (n,), got shape {values.shape} or a missing one")
    if len(values) <= FEWEST:
        return np.zeros(len(means))
    centred = values[:, None] - means
    scale = np.sqrt(np.cumsum(centred**2, axis=0) / np.arange(1, len(values) + 1)[:, None])[FEWEST - 1 : -1]
    limit: float | NDArray[np.float64] = 0.0
    if reach is not None:
        limit = np.broadcast_to(np.asarray(reach, np.float64), values.shape)[FEWEST:, None] + np.abs(means)
    staked = centred[FEWEST:]
    logs = np.empty((2 * len(BETS), len(means)))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        for row, (bet, cap) in enumerate(zip(BETS, CAPS)):
            # scale and limit are 0 where all values before were m itself, or can be nothing else
            stake = np.nan_to_num(1 / np.maximum(scale / bet, limit / cap), nan=0.0)
            won = np.clip(np.where(staked == 0, 0.0, stake * staked), -1.0, 1.0)
            logs[2 * row], logs[2 * row + 1] = (np.log1p(sign * won).sum(axis=0) for sign in (1, -1))
    return np.logaddexp.reduce(logs, axis=0) - np.log(len(logs))


def sequence_interval(
    values: ArrayLike, *, level: float = 0.95, reach: ArrayLike | None = None
) -> SequenceInterval:
    """Return the mean of values with the interval of a confidence sequence, after the last of them.

    The means from the lowest to the highest against which the capital is below 1 / (1 - level). Of values in the order
    in which they were seen, NaN left out, and `reach` as of `log_capital`; ValueError for a level that is no number
    between 0 and 1.

    >>> found = sequence_interval(np.tile([0.5, 1.5], 20))
    >>> found.mean, round(found.low, 2), round(found.high, 2)
    (1.0, 0.78, 1.25)
    """
    checked_level(level)
    values = np.asarray(values, np.float64)
    there = ~np.isnan(values)
    if reach is not None:
        reach = np.broadcast_to(np.asarray(reach, np.float64), values.shape)[there]
    values = values[there]
    if not len(values):
        return SequenceInterval(np.nan, -np.inf, np.inf, 1.0, 0)
    bound = -np.log(1 - level)
    mean, spread = float(values.mean()), float(values.std()) or float(np.abs(values).max()) or 1.0

    widest = spread if reach is None else max(spread, float(np.max(reach)))
    grid = np.concatenate([[0.0], np.geomspace(_NEAREST * spread, _FARTHEST * widest, _POINTS)])

    def doubted(means: NDArray[np.float64]) -> NDArray[np.bool_]:
        return log_capital(values, means, reach=reach) >= bound

    ends = []
    for sign in (-1.0, 1.0):
        tried = mean + sign * grid
        out = doubted(tried)
        inside = np.flatnonzero(~out)
        if not len(inside) or inside[-1] == len(tried) - 1:
            ends.append(mean if not len(inside) else sign * np.inf)
            continue
        near, far = tried[inside[-1]], tried[inside[-1] + 1]
        for _ in range(_HALVINGS):
            middle = (near + far) / 2
            near, far = (near, middle) if doubted(np.array([middle]))[0] else (middle, far)
        ends.append(float(far))
    with np.errstate(over="ignore"):
        e_value = float(np.exp(log_capital(values, [0.0], reach=reach)[0]))
    return SequenceInterval(mean, *ends, e_value, len(values))
