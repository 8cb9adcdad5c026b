r"""Shapley values of places that act together, exact or from sampled orders.

Of a game whose players are places (the cross-attentions) and whose worth :math:`v(S)` is the effect of patching the
places of S together, a player's Shapley value is the mean, over all orders of the players, of what it adds to those
before it (Shapley 1953). The values add up to :math:`v(\text{all}) - v(\emptyset)`. They are linear in v, so each
prompt has values of its own, and shares of them have the intervals of `analysis.stats.shares`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Subset = frozenset[str]


@dataclass(frozen=True)
class Shapley:
    """Shapley values of each prompt.

    Attributes
    ----------
    players : tuple of str
    values : ndarray of float64, shape (n_prompts, n_players)
        In units of the worth; NaN where a prompt lacks a subset that is needed.
    of_draws : ndarray of float64, shape (n_draws, n_prompts, n_players), or None
        What each player adds in each drawn order, or on average in an order and its reverse where these were drawn
        together (antithetic sampling); None where the values are exact.
    """

    players: tuple[str, ...]
    values: NDArray[np.float64]
    of_draws: NDArray[np.float64] | None = None

    def sampling_errors(self) -> NDArray[np.float64]:
        """Standard errors of the prompts' mean values from drawing orders, shape (n_players,).

        0 where the values are exact; NaN with one draw. The prompts are taken as they are: their sampling is the
        interval's.
        """
        if self.of_draws is None:
            return np.zeros(len(self.players))
        n, whole = len(self.of_draws), ~np.isnan(self.of_draws).any(axis=(0, 2))
        if n < 2 or not whole.any():
            return np.full(len(self.players), np.nan)
        return self.of_draws[:, whole].mean(axis=1).std(axis=0, ddof=1) / np.sqrt(n)


def exact_shapley(worth: Mapping[Subset, ArrayLike], players: Sequence[str]) -> Shapley:
    r"""Return Shapley values from the worth of all subsets of the players.

    .. math:: \phi_j = \sum_{S \not\ni j} \frac{|S|!\,(n - |S| - 1)!}{n!}\,[v(S \cup \{j\}) - v(S)]

    Parameters
    ----------
    worth : mapping of frozenset of str to array_like of float, shape (n_prompts,)
        Of every subset; the empty one may be missing and is then worth 0.
    players : sequence of str

    Raises
    ------
    ValueError
        If players are not distinct, or a subset is missing.

    Examples
    --------
    Two places that each do half alone, and nothing more together.

    >>> one = {frozenset("a"): [2.0], frozenset("b"): [2.0], frozenset("ab"): [2.0]}
    >>> exact_shapley(one, ["a", "b"]).values.tolist()
    [[1.0, 1.0]]
    """
    players = _distinct(players)
    worth = _with_nothing(worth)
    n = len(players)
    subsets = _subsets(worth, players)
    values = np.zeros((len(worth[frozenset()]), n))
    for subset in subsets:
        for place, player in enumerate(players):
            if player not in subset:
                weight = 1 / (n * comb(n - 1, len(subset)))
                values[:, place] += weight * (worth[subset | {player}] - worth[subset])
    return Shapley(players, values)


def exact_interactions(
    worth: Mapping[Subset, ArrayLike], players: Sequence[str]
) -> dict[tuple[str, str], NDArray[np.float64]]:
    r"""Return the Shapley interaction index of each pair of players, from the worth of all subsets.

    .. math:: I_{ij} = \sum_{S \not\ni i, j} \frac{|S|!\,(n - |S| - 2)!}{(n - 1)!}
        \,[v(S \cup \{i, j\}) - v(S \cup \{i\}) - v(S \cup \{j\}) + v(S)]

    Below 0 (of a worth above it) either can stand for the other, above 0 one needs the other.

    Parameters
    ----------
    worth : mapping of frozenset of str to array_like of float, shape (n_prompts,)
        Of every subset; the empty one may be missing and is then worth 0.
    players : sequence of str

    Returns
    -------
    dict of (str, str) to ndarray of float64, shape (n_prompts,)
        By pair, in the order of the players; in units of the worth.

    Raises
    ------
    ValueError
        If players are not distinct, or a subset is missing.

    Source
    ------
    Grabisch and Roubens 1999.

    Examples
    --------
    Two places that each do half alone, and nothing more together.

    >>> one = {frozenset("a"): [2.0], frozenset("b"): [2.0], frozenset("ab"): [2.0]}
    >>> exact_interactions(one, "ab")
    {('a', 'b'): array([-2.])}
    """
    players = _distinct(players)
    worth = _with_nothing(worth)
    n, subsets = len(players), _subsets(worth, players)
    found = {}
    for pair in combinations(players, 2):
        first, second = pair
        without = [subset for subset in subsets if not subset & {*pair}]
        found[pair] = np.zeros(len(worth[frozenset()]))
        for s in without:
            beyond = worth[s | {*pair}] - worth[s | {first}] - worth[s | {second}] + worth[s]
            found[pair] += beyond / ((n - 1) * comb(n - 2, len(s)))
    return found


def sampled_shapley(
    worth: Mapping[Subset, ArrayLike], players: Sequence[str], orders: Sequence[Sequence[str]]
) -> Shapley:
    """Return estimates of Shapley values from drawn orders of the players.

    Parameters
    ----------
    worth : mapping of frozenset of str to array_like of float, shape (n_prompts,)
        Of every set that stands at the beginning of an order; the empty one may be missing and is then worth 0.
    players : sequence of str
    orders : sequence of sequences of str
        Permutations of the players, drawn at random alike; at least one. One that is followed by its reverse makes one
        draw with it.

    Raises
    ------
    ValueError
        If an order is no permutation of the players, or a subset is missing.

    Source
    ------
    Castro, Gómez and Tejada 2009; Mitchell et al. 2022 for an order and its reverse.

    Examples
    --------
    Of both orders of two players the estimate is the value itself.

    >>> one = {frozenset("a"): [0.0], frozenset("b"): [1.0], frozenset("ab"): [2.0]}
    >>> sampled_shapley(one, "ab", ["ab", "ba"]).values.tolist()
    [[0.5, 1.5]]
    """
    players = _distinct(players)
    worth = _with_nothing(worth)
    if not orders:
        raise ValueError("orders: expected at least one, got none")
    added = np.empty((len(orders), len(worth[frozenset()]), len(players)))
    for number, order in enumerate(orders):
        if sorted(order) != sorted(players):
            raise ValueError(f"orders[{number}]: expected a permutation of the players, got {list(order)}")
        before: Subset = frozenset()
        for player in order:
            with_it = before | {player}
            if with_it not in worth:
                raise ValueError(
                    f"orders[{number}]: expected the worth of {', '.join(sorted(with_it))}, got none"
                )
            added[number, :, players.index(player)] = worth[with_it] - worth[before]
            before = with_it
    return Shapley(players, added.mean(axis=0), _draws(added, orders))


def _subsets(worth: Mapping[Subset, Any], players: Sequence[str]) -> list[Subset]:
    """All subsets of the players, each of which has a worth."""
    n = len(players)
    subsets = [frozenset(chosen) for size in range(n + 1) for chosen in combinations(players, size)]
    missing = next((subset for subset in subsets if subset not in worth), None)
    if missing is not None:
        raise ValueError(f"worth: expected all {2**n} subsets, got none of {', '.join(sorted(missing))}")
    return subsets


def _draws(added: NDArray[np.float64], orders: Sequence[Sequence[str]]) -> NDArray[np.float64]:
    """Return what players add in each independent draw: an order, or one with its reverse."""
    draws, at = [], 0
    while at < len(orders):
        pair = at + 1 < len(orders) and list(orders[at + 1]) == list(orders[at])[::-1] and len(orders[at]) > 1
        draws.append(added[at : at + 1 + pair].mean(axis=0))
        at += 1 + pair
    return np.array(draws)


def _distinct(players: Sequence[str]) -> tuple[str, ...]:
    if not players or len(set(players)) < len(players):
        raise ValueError(f"players: expected at least one, each once, got {list(players)}")
    return tuple(players)


def _with_nothing(worth: Mapping[Subset, ArrayLike]) -> dict[Subset, NDArray[np.float64]]:
    """The worth of subsets as vectors, the empty one's 0 where it is missing."""
    if not worth:
        raise ValueError("worth: expected the worth of subsets, got none")
    found = {subset: np.asarray(values, np.float64) for subset, values in worth.items()}
    return {frozenset(): np.zeros_like(next(iter(found.values())))} | found
