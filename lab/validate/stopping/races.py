"""Races of several entrants: how often one says anything false, and how many images it takes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from analysis.stats.elimination import FARTHEST, FROM_ZERO, HIGHEST, TIED, WON, level_of_each, race
from lab.validate.stopping.audits import log_capitals
from lab.validate.stopping.designs import LEVEL, LOOKS, MOST

RACES = 500
CHECKED = 100  # one race in so many is run by `analysis.stats.elimination` itself
WITHIN = 0.3  # the smallest lead that matters, in standard deviations of the steadiest entrant
_AT_ONCE = 25


@dataclass(frozen=True)
class RaceWorld:
    """Entrants whose gaps of a prompt have normal distributions.

    Attributes
    ----------
    name : str
    means : tuple of float
        Of each entrant.
    aim : str
        As of `analysis.stats.elimination`.
    shared : float
        Share of the variance that all entrants have in common, the prompts' own.
    spread : float
        Standard deviations go from 1 to this one.
    """

    name: str
    means: tuple[float, ...]
    aim: str = HIGHEST
    shared: float = 0.5
    spread: float = 3.0

    @property
    def scores(self) -> NDArray[np.float64]:
        """How far up each entrant truly is."""
        means = np.array(self.means)
        return np.abs(means) if self.aim == FARTHEST else means

    def drawn(self, races: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """Return gaps, shape (n_prompts, n_races, n_entrants)."""
        k = len(self.means)
        common, own = rng.standard_normal((MOST, races, 1)), rng.standard_normal((MOST, races, k))
        noise = np.sqrt(self.shared) * common + np.sqrt(1 - self.shared) * own
        return np.array(self.means) + np.linspace(1, self.spread, k) * noise


RACE_WORLDS = (
    *(RaceWorld(f"{k} equal", (0.0,) * k) for k in (2, 4, 8)),
    RaceWorld("4 equal, nothing shared", (0.0,) * 4, shared=0.0),
    RaceWorld("4 equal, 90 % shared, spreads alike", (0.0,) * 4, shared=0.9, spread=1.0),
    RaceWorld("4 equally far from 0, two on either side", (0.5, -0.5, 0.5, -0.5), aim=FARTHEST, spread=1.0),
    *(RaceWorld(f"one of {k} ahead by 0.5", (0.5, *[0.0] * (k - 1)), spread=1.0) for k in (2, 4, 8)),
    RaceWorld("one of 4 ahead by 0.5, spreads 1 to 3", (0.5, 0.0, 0.0, 0.0)),
    RaceWorld("4 in steps of 0.4", (1.2, 0.8, 0.4, 0.0), spread=1.0),
    RaceWorld("one of 4 farther from 0 by 0.5", (-1.0, 0.5, 0.5, -0.5), aim=FARTHEST, spread=1.0),
)


def of_races(world: RaceWorld, races: int = RACES) -> dict[str, Any]:
    """Return the row of a world: false statements, how races ended, and images taken.

    Raises
    ------
    ArithmeticError
        A race would have ended otherwise by `analysis.stats.elimination`.
    """
    rng = np.random.default_rng([0, 1800, RACE_WORLDS.index(world)])
    counts = {"false": 0, "best_out": 0, WON: 0, TIED: 0, "found": 0}
    images, fixed = [], np.zeros((2, len(LOOKS)))  # of each number of prompts: found, false
    for start in range(0, races, _AT_ONCE):
        values = world.drawn(min(_AT_ONCE, races - start), rng)
        fixed += _fixed(world, values)
        for number, found in enumerate(_raced(world, values), start):
            if number % CHECKED == 0:
                _check(world, values[:, number - start], found)
            counts["false"] += found.false
            counts["best_out"] += found.best_out
            counts["found"] += found.ended == WON and not found.best_out
            for name in (WON, TIED):
                counts[name] += found.ended == name
            images.append(found.prompts.sum())
    share = fixed[0] / races
    enough = np.flatnonzero(share >= counts["found"] / races)
    return {
        "part": "races",
        "world": world.name,
        "truth": float(np.ptp(world.scores)),
        "entrants": len(world.means),
        "races": races,
        **{name: int(count) for name, count in counts.items()},
        "images": round(float(np.mean(images)) / (MOST * len(world.means)), 4),
        "fixed_found": int(fixed[0, -1]),
        "fixed_false": int(fixed[1, -1]),
        "fixed_prompts": int(LOOKS[enough[0]]) if len(enough) else None,
        "designs": {},
    }


@dataclass(frozen=True)
class _Ended:
    """How a race ended: prompts of each entrant, who was left, and whether anything false was said."""

    prompts: NDArray[np.int64]
    remaining: tuple[int, ...]
    ended: str
    false: bool
    best_out: bool


def _raced(world: RaceWorld, values: NDArray[np.float64]) -> Iterator[_Ended]:
    """Yield how each race ends; what an interval leaves out is asked of the capital at these points."""
    k, races = len(world.means), values.shape[1]
    pairs = list(combinations(range(k), 2))
    first, second = (list(side) for side in zip(*pairs))
    ahead, behind, near = (np.zeros((len(LOOKS), races, k, k), bool) for _ in range(3))
    low, high, small = _said(world, values[..., first] - values[..., second])
    if world.aim in FROM_ZERO:
        least, most, small_sum = _said(world, values[..., first] + values[..., second])
        low, high = (low & least) | (high & most), (low & most) | (high & least)
        small = small | small_sum
    ahead[..., first, second], behind[..., first, second], near[..., first, second] = low, high, small
    over = ahead | behind.swapaxes(-1, -2)  # whether one is surely ahead of another
    near = near | near.swapaxes(-1, -2)
    scores = world.scores
    for one in range(races):
        left, prompts, false, ended = list(range(k)), np.full(k, MOST), False, ""
        for look, n in enumerate(LOOKS):
            out = [j for j in left if any(over[look, one, i, j] for i in left)]
            false |= any(over[look, one, i, j] and scores[i] <= scores[j] for i in left for j in left)
            prompts[out] = n
            left = [j for j in left if j not in out]
            tied = all(near[look, one, i, j] for i, j in combinations(left, 2))
            if len(left) == 1 or tied:
                ended = WON if len(left) == 1 else TIED
                false |= ended == TIED and float(np.ptp(scores[left])) >= WITHIN
                prompts[left] = n
                break
        best_out = scores[left].max() < scores.max()
        yield _Ended(prompts, tuple(left), ended, false | best_out, best_out)


def _said(world: RaceWorld, values: NDArray[np.float64]) -> tuple[NDArray[np.bool_], ...]:
    """Whether means are surely above 0, below it, or within `WITHIN`; each of shape (n_looks, n_races, n_pairs)."""
    flat = values.reshape(MOST, -1)
    points = np.array([0.0, -WITHIN, WITHIN])
    looks = np.array(LOOKS)
    bound = -np.log(1 - level_of_each(LEVEL, len(world.means), world.aim))
    out = (log_capitals(flat, points, None, looks) >= bound).reshape(len(LOOKS), *values.shape[1:], 3)
    mean = (np.cumsum(values, axis=0)[looks - 1].T / looks).T
    small = out[..., 1] & out[..., 2] & (np.abs(mean) < WITHIN)
    return out[..., 0] & (mean > 0), out[..., 0] & (mean < 0), small


def _fixed(world: RaceWorld, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Races in which a fixed design of each number of prompts finds the one best entrant, and says anything false.

    Student's t of all pairs, with the same share of the error for each (Bonferroni).
    """
    scores, found = world.scores, np.zeros((2, len(LOOKS)))
    level = 1 - level_of_each(LEVEL, len(scores), world.aim)
    pairs = list(combinations(range(len(scores)), 2))
    for look, n in enumerate(LOOKS):
        said = np.zeros((values.shape[1], len(scores), len(scores)), bool)
        for one, other in pairs:
            signs = [np.sign(_t(values[:n, :, one] - values[:n, :, other], level))]
            if world.aim in FROM_ZERO:
                signs.append(np.sign(_t(values[:n, :, one] + values[:n, :, other], level)))
            sign = np.prod(signs, axis=0)
            said[:, one, other], said[:, other, one] = sign > 0, sign < 0
        best = int(scores.argmax())
        found[0, look] = (said[:, best].sum(axis=1) == len(scores) - 1).sum()
        wrong = scores[:, None] <= scores[None, :]
        found[1, look] = (said & wrong).any(axis=(1, 2)).sum()
    return found


def _t(values: NDArray[np.float64], level: float) -> NDArray[np.float64]:
    """Student's t of each column, 0 where it is not significant at this level."""
    found = stats.ttest_1samp(values, 0.0, axis=0)
    return np.where(found.pvalue <= level, found.statistic, 0.0)


def _check(world: RaceWorld, values: NDArray[np.float64], found: _Ended) -> None:
    last = race(values.T, LOOKS, aim=world.aim, within=WITHIN, level=LEVEL)[-1]
    if (last.remaining, last.ended) != (found.remaining, found.ended):
        raise ArithmeticError(f"{world.name}: expected {last.remaining}, got {found.remaining}")
