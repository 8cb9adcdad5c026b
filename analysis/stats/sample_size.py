"""The smallest number of prompts that gives a power: doubled until it is reached, then halved in."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

FEWEST_PROMPTS = 2
LARGEST = 10_000_000  # prompts that are searched
NO_GAP = "no difference: no number of prompts shows it"


def smallest_number(power_at: Callable[[int], float], power: float, *, precision: float = 0.0) -> int | None:
    """Return the smallest number of prompts, from `FEWEST_PROMPTS`, at which a power that rises with it is reached.

    None where `LARGEST` prompts do not reach it; with a precision, known to this share of itself.
    """
    low, high = FEWEST_PROMPTS - 1, FEWEST_PROMPTS
    while power_at(high) < power:
        low, high = high, 2 * high
        if high > LARGEST:
            return None
    while high - low > max(1, ceil(precision * low)):
        middle = (low + high) // 2
        low, high = (low, middle) if power_at(middle) >= power else (middle, high)
    return high
