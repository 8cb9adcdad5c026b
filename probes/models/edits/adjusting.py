"""How much of an edit makes a word lean to neither side: drawn, read, and adjusted in turn, as UCE's debiasing does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Adjusted:
    """The amount of an edit, and what was tried on the way.

    Attributes
    ----------
    amount : float
        The one tried whose lean is nearest to the target; the smaller of two as near.
    lean : float
        There.
    tried : list of (float, float)
        Amounts with the lean that was read, in the order in which they were tried.
    reached : bool
        Whether the lean is within the tolerance.
    """

    amount: float
    lean: float
    tried: list[tuple[float, float]]
    reached: bool


def adjust(
    lean: Callable[[float], float],
    *,
    low: float = 0.0,
    high: float = 1.0,
    target: float = 0.5,
    tolerance: float = 0.01,
    rounds: int = 8,
) -> Adjusted:
    """Find the amount of an edit at which a word's lean is `target`.

    The amounts `low` and `high` are tried first; then, where the target lies between their leans, the point at which a
    straight line through the two nearest that enclose it meets it (regula falsi, the end that stays counting half from
    its second time on). Gandikota et al. 2024 (Sec. 4.2) take steps in proportion to what is missing instead, and leave
    their size open. Draw with the same noise each time, so that two leans differ by the edit alone.

    Parameters
    ----------
    lean : callable
        Draws with this amount of the edit and gives the share of the images on the side that is counted.
    low, high : float
        Between them the amount is looked for.
    target : float
    tolerance : float
        A lean so near the target ends the search.
    rounds : int
        Amounts that are tried at most.

    Examples
    --------
    >>> found = adjust(lambda amount: 0.7 - 0.6 * amount)
    >>> round(found.amount, 3), found.reached, len(found.tried)
    (0.333, True, 3)
    """
    tried = [(low, lean(low))]
    if abs(tried[0][1] - target) > tolerance:
        tried.append((high, lean(high)))
    first, last = tried[0], tried[-1]
    # how far each end is from the target, as the next line through them takes it
    weights = [end[1] - target for end in (first, last)]
    while len(tried) < rounds and not _near(tried, target, tolerance) and weights[0] * weights[1] < 0:
        amount = first[0] + (last[0] - first[0]) * weights[0] / (weights[0] - weights[1])
        new = (amount, lean(amount))
        tried.append(new)
        off = new[1] - target
        if off * weights[0] > 0:
            first, weights = new, [off, weights[1] / 2]
        else:
            last, weights = new, [weights[0] / 2, off]
    amount, there = min(tried, key=lambda one: (abs(one[1] - target), one[0]))
    return Adjusted(amount, there, tried, _near(tried, target, tolerance))


def _near(tried: list[tuple[float, float]], target: float, tolerance: float) -> bool:
    return any(abs(there - target) <= tolerance for _, there in tried)
