"""How many prompts a run that stops will take, before anything is drawn."""

from __future__ import annotations

from math import ceil

import numpy as np
from scipy.special import roots_hermitenorm

from analysis.stats.confidence_sequences import BETS, FEWEST

EFFECTS = (2.0, 1.0, 0.5, 0.25)  # standard deviations between prompts
_NODES = 80


def expected_prompts(effect: float, *, level: float = 0.95) -> int:
    r"""Return about how many prompts it takes until a mean is told from another one.

    The capital of the best single stake grows by :math:`E \log(1 + b x / \sqrt{E x^2})` a prompt, until it has paid for
    the mixture and reached 1 / (1 - level). Of normal differences without a reach; up to a third more than simulated
    means. `effect` is the distance of both means in standard deviations between prompts: of the gap from 0 to tell its
    direction, from ``within`` to show that it is smaller, or half the width of an interval.

    Examples
    --------
    >>> [expected_prompts(effect) for effect in EFFECTS]
    [17, 22, 60, 163]
    """
    nodes, weights = roots_hermitenorm(_NODES)
    values = (abs(effect) + nodes) / np.hypot(1, effect)
    growth = max(
        float(weights @ np.log1p(np.clip(bet * values, -0.999999, 1.0)) / weights.sum()) for bet in BETS
    )
    return FEWEST + ceil((np.log(2 * len(BETS)) - np.log1p(-level)) / growth)
