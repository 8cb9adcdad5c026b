r"""Races: which of several means is largest, or lies farthest from 0, while those that are surely behind drop out.

All entrants are seen on the same prompts in the same order. At each look every two that are left are compared by the
confidence sequence of their paired differences (`analysis.stats.confidence_sequences`). Who is surely behind another
leaves, and nothing more is drawn of it. The race ends when one is left, or when all that are left are surely within a
smallest difference that matters of each other: a tie.

Each of the sequences that there can ever be has an equal share of the family's error (Bonferroni). With probability
`level` or more all of them then hold at every look, however the entrants depend on each other and wherever the race
ends, and everything that it says is true: no best one has left, none is said to be ahead of one that is not behind it,
and a tie is one.

How far a mean lies from 0 is no mean, but

.. math:: |a| - |b| = \max(\min(a - b, a + b), \min(b - a, -a - b))

so that an interval of the difference of two means and one of their sum give that of their distances from 0: still
paired, at the price of two sequences for each pair.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike

from analysis.stats.confidence_sequences import sequence_interval

HIGHEST, LOWEST, FARTHEST, NEAREST = "highest", "lowest", "farthest", "nearest"
FROM_ZERO = (FARTHEST, NEAREST)
WON, TIED, OPEN = "won", "tied", ""
Bounds = tuple[float, float]
Pair = tuple[int, int]


@dataclass(frozen=True)
class RaceStanding:
    """A race after a look.

    Attributes
    ----------
    look : int
        What it was looked at after, such as a number of prompts.
    remaining : tuple of int
        Entrants that are left.
    left : mapping of int to int
        Who left at this look, and who is surely ahead of it.
    leads : mapping of (int, int) to (float, float)
        By how much the first of a pair is ahead of the second, at least and at most; of every two that were left.
    ended : {"won", "tied", ""}
    """

    look: int
    remaining: tuple[int, ...]
    left: Mapping[int, int]
    leads: Mapping[Pair, Bounds]
    ended: str


def level_of_each(level: float, entrants: int, aim: str) -> float:
    """Return the level of each confidence sequence, for the `level` of all that there can be.

    Parameters
    ----------
    level : float
        Share of races in which nothing false is said, at least.
    entrants : int
    aim : {"highest", "lowest", "farthest", "nearest"}
        Which mean is looked for; the last two are those farthest from 0 and nearest to it.

    Raises
    ------
    ValueError
        `level` is no number between 0 and 1, or there is no such aim, or but one entrant.

    Examples
    --------
    Four entrants are six pairs, and two sequences of each where distances from 0 are compared.

    >>> [round(1 - level_of_each(0.95, 4, aim), 6) for aim in ("highest", "farthest")]
    [0.008333, 0.004167]
    """
    if not 0 < level < 1:
        raise ValueError(f"level: expected a number between 0 and 1, got {level}")
    if aim not in (HIGHEST, LOWEST, *FROM_ZERO):
        raise ValueError(f"aim: expected {HIGHEST}, {LOWEST}, {FARTHEST} or {NEAREST}, got {aim!r}")
    if entrants < 2:
        raise ValueError(f"entrants: expected two or more, got {entrants}")
    sequences = entrants * (entrants - 1) // 2 * (2 if aim in FROM_ZERO else 1)
    return 1 - (1 - level) / sequences


def lead(difference: Bounds, total: Bounds | None, aim: str) -> Bounds:
    """Return by how much a first mean is ahead of a second, at least and at most.

    Parameters
    ----------
    difference, total : (float, float)
        Bounds of the first mean less the second, and of the sum of both; the sum where `aim` asks for distances from 0.
    aim : {"highest", "lowest", "farthest", "nearest"}

    Examples
    --------
    A mean of about -3 and one of about 1: the first is lower by 4, and farther from 0 by 2.

    >>> lead((-4.5, -3.5), None, "lowest")
    (3.5, 4.5)
    >>> lead((-4.5, -3.5), (-2.5, -1.5), "farthest")
    (1.5, 2.5)
    """
    low, high = difference
    if aim in FROM_ZERO:
        assert total is not None
        least, most = total
        low, high = (
            min(max(low, -most), max(-high, least)),
            max(min(high, most), min(-low, -least)),
        )
    return (low, high) if aim in (HIGHEST, FARTHEST) else (-high, -low)


def eliminations(
    entrants: int,
    looks: Iterable[int],
    leads: Callable[[int, tuple[int, ...]], Mapping[Pair, Bounds]],
    *,
    within: float = 0.0,
) -> Iterator[RaceStanding]:
    """Yield how a race stands after each look, until it has ended or no look is left.

    Parameters
    ----------
    entrants : int
        Two or more.
    looks : iterable of int
    leads : callable
        Given a look and who is left: for every two of these, the lower number first, bounds of `lead` at the level of
        `level_of_each`.
    within : float
        The smallest lead that matters; 0: nobody ties.
    """
    remaining = tuple(range(entrants))
    for look in looks:
        found = leads(look, remaining)
        ahead = {
            one: max(rivals, key=lambda rival: _of(found, rival, one)[0])
            for one in remaining
            if (rivals := [r for r in remaining if r != one and _of(found, r, one)[0] > 0])
        }
        if len(ahead) == len(remaining):  # each behind another: of pairs that were seen on other prompts
            ahead = {}
        remaining = tuple(one for one in remaining if one not in ahead)
        near = [max(abs(end) for end in found[pair]) < within for pair in combinations(remaining, 2)]
        ended = WON if len(remaining) == 1 else TIED if all(near) else OPEN
        yield RaceStanding(look, remaining, ahead, found, ended)
        if ended:
            return


def _of(leads: Mapping[Pair, Bounds], one: int, other: int) -> Bounds:
    """The lead of one over another, whichever of them has the lower number."""
    if one < other:
        return leads[one, other]
    low, high = leads[other, one]
    return -high, -low


def race(
    values: ArrayLike,
    looks: Iterable[int],
    *,
    aim: str = HIGHEST,
    within: float = 0.0,
    level: float = 0.95,
    reach: float | None = None,
) -> list[RaceStanding]:
    """Return how a race stands after each of its looks, the last of them where it ended.

    Parameters
    ----------
    values : array_like of float, shape (n_entrants, n_prompts)
        Column by column on the same prompts, in the order in which they were seen; NaN is left out of its pairs.
    looks : iterable of int
        Numbers of prompts, ascending.
    aim, within, level
        As of `level_of_each` and `eliminations`.
    reach : float, optional
        The largest absolute value there can be.

    Raises
    ------
    ValueError
        As of `level_of_each`.

    Source
    ------
    Successive elimination: Even-Dar, Mannor and Mansour 2006, with confidence sequences in the place of their bounds.

    Examples
    --------
    Two that move together, one above the other, and a third that is soon left behind both:

    >>> walk = np.resize([0.9, 1.1, 1.0, 0.8, 1.2], 120)
    >>> off = 0.05 * np.resize([1, -1, 2, -2], 120)
    >>> found = race([walk + off, walk + 0.05, 0.2 * walk], range(12, 121, 12))
    >>> [(one.look, one.remaining, one.ended) for one in found if one.left]
    [(24, (0, 1), ''), (36, (1,), 'won')]
    """
    values = np.asarray(values, np.float64)
    each = level_of_each(level, len(values), aim)

    def bounds(combined: ArrayLike) -> Bounds:
        found = sequence_interval(combined, level=each, reach=None if reach is None else 2 * reach)
        return found.low, found.high

    def leads(n: int, remaining: tuple[int, ...]) -> dict[Pair, Bounds]:
        seen = values[:, :n]
        return {
            (one, other): lead(
                bounds(seen[one] - seen[other]),
                bounds(seen[one] + seen[other]) if aim in FROM_ZERO else None,
                aim,
            )
            for one, other in combinations(remaining, 2)
        }

    return list(eliminations(len(values), looks, leads, within=within))
