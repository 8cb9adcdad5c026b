"""Values of a method for each cross-attention at each call of the denoiser."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class SiteValues:
    """Numbers of cross-attentions.

    Attributes
    ----------
    sites : tuple of str
        Cross-attentions, in the order in which they run.
    values : ndarray of float64, shape (draws, sites, calls)
    """

    sites: tuple[str, ...]
    values: NDArray[np.float64]
