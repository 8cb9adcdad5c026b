r"""Group-sequential boundaries: how small a p-value must be at each of some planned looks.

On either side the error that may be spent by the time a share t of the images is there is :math:`2 - 2\,\Phi(z_{1 -
\alpha/4} / \sqrt{t})`: next to none at early looks, as with O'Brien and Fleming's boundaries, and α / 2 at the end (Lan
and DeMets 1983).
The boundary of each look follows by integrating over what was not stopped before (Armitage, McPherson and Rowe 1969).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special

NODES = 400


def nominal_levels(looks: Sequence[int], alpha: float = 0.05) -> NDArray[np.float64]:
    """Return the two-sided p-value below which each look rejects, so that all looks together do in a share `alpha`.

    Parameters
    ----------
    looks : sequence of int
        Prompts at each look, ascending; the last look has all.
    alpha : float

    Source
    ------
    Lan and DeMets 1983; Jennison and Turnbull 2000, Chapters 7 and 19.

    Examples
    --------
    >>> nominal_levels([1, 2, 3, 4, 5]).round(4).tolist()
    [0.0, 0.0008, 0.0074, 0.022, 0.0423]
    """
    times = np.asarray(looks, np.float64) / looks[-1]
    spent = 4 * special.ndtr(-special.ndtri(1 - alpha / 4) / np.sqrt(times))
    points, weights = np.polynomial.legendre.leggauss(NODES)
    ends = [-special.ndtri(spent[0] / 2) * np.sqrt(times[0])]  # of the sum of all values so far
    at = ends[0] * points
    density = ends[0] * weights * np.exp(-(at**2) / 2 / times[0]) / np.sqrt(2 * np.pi * times[0])
    for step, more in zip(np.diff(times), np.diff(spent)):
        ends.append(optimize.brentq(_crossed, 0.0, 12.0, args=(at, density, step, more), xtol=1e-12))
        new = ends[-1] * points
        spread = np.exp(-((new[:, None] - at) ** 2) / 2 / step) / np.sqrt(2 * np.pi * step)
        at, density = new, ends[-1] * weights * (spread @ density)
    return 2 * special.ndtr(-np.array(ends) / np.sqrt(times))


def _crossed(
    end: float, at: NDArray[np.float64], density: NDArray[np.float64], step: float, more: float
) -> float:
    """How much more than wanted passes an end, either way, after a step from where the density is."""
    sd = np.sqrt(step)
    return float(density @ (special.ndtr((at - end) / sd) + special.ndtr((-at - end) / sd))) - more
