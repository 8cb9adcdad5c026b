"""Gender presentation differences (GEP): frequencies of attributes, their vector and its score (Zhang et al. 2023).

An audit is one number an image and attribute, laid out by context: whether the attribute is in the image (labels of
annotators, of a checker, of a detector), or an estimate of it (`analysis.methods.gep.estimates`). In the paper's
**neutral** setting an image is read for every attribute; in its **explicit** setting each attribute has images drawn
from prompts that name it, and is read from those. Both fit the same array.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Audit:
    """What an audit read from its images, for one setting and one way to read them.

    Attributes
    ----------
    values : ndarray of float64, shape (n_contexts, n_indicators, n_images, n_attributes)
        1 where the attribute is in the image and 0 where it is not, or an estimate on any scale; NaN where nothing was
        read. ``n_images`` is the largest number of images that a prompt has.
    contexts, indicators, attributes : tuple of str
    setting : {"neutral", "explicit"}
    source : str
        ``checker``, ``human``, ``C``, ``CC``, ``CLS`` ...
    noise : {"own", "shared", "unpaired"}
        Whether images of one number have a noise of their own at each prompt, which the words share (``own``); one that
        all prompts share (``shared``, `sampler.noise`); or nothing in common (``unpaired``: `sampler.noise` is
        ``independent``, or images of another program).
    """

    values: NDArray[np.float64]
    contexts: tuple[str, ...]
    indicators: tuple[str, ...]
    attributes: tuple[str, ...]
    setting: str
    source: str
    noise: str = "own"

    def of(self, *words: str) -> NDArray[np.float64]:
        """Return the values of some indicators, in their order."""
        return self.values[:, [place(self, word) for word in words]]


def frequencies(labels: Audit) -> NDArray[np.float64]:
    """Return the mean over the images of an indicator, shape (n_indicators, n_attributes).

    Of labels it is the frequency of each attribute (Zhang et al. 2023, Eq. 1); of an estimate what the paper puts in
    its place (Eq. 4, 5, 7). Images that were not read are left out; NaN where none was.
    """
    return _mean(labels.values, (0, 2))


def vector(labels: Audit, first: str, second: str) -> NDArray[np.float64]:
    """Return the GEP vector, ``frequency for first - frequency for second`` by attribute (Zhang et al. 2023, Eq. 2).

    Shape (n_attributes,), in -1 to 1 for labels; NaN where an indicator has no image that was read.
    """
    each = frequencies(labels)
    return each[place(labels, first)] - each[place(labels, second)]


def by_context(labels: Audit, first: str, second: str) -> NDArray[np.float64]:
    """Return the difference of every context apart, shape (n_contexts, n_attributes)."""
    each = _mean(labels.values, (2,))
    return each[:, place(labels, first)] - each[:, place(labels, second)]


def score(differences: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the mean absolute difference over the last axis (Zhang et al. 2023, Eq. 2), without what is NaN.

    Of a GEP vector it is the GEP score, in 0 to 1 for labels; of `by_context` the score of each context (the paper's
    Table 15). It is positive by chance alone: see `analysis.stats.mad_floor`.

    >>> float(score(np.array([0.5, -0.25, np.nan])))
    0.375
    """
    return _mean(np.abs(differences), (-1,))


def place(labels: Audit, indicator: str) -> int:
    """Return which of an audit's indicators this is."""
    return labels.indicators.index(indicator)


def like(one: Audit, other: Audit) -> Audit:
    """Return an audit laid out as another of the same run is: NaN where it has no such context, word or attribute.

    Images of a prompt are those of the same number in both.
    """
    axes = [
        (one.contexts, other.contexts),
        (one.indicators, other.indicators),
        (one.attributes, other.attributes),
    ]
    here, there = (
        [
            [side.index(name) for name in mine if name in theirs]
            for mine, theirs, side in ((*pair, pair[which]) for pair in axes)
        ]
        for which in (0, 1)
    )
    images = range(min(one.values.shape[2], other.values.shape[2]))
    values = np.full(other.values.shape, np.nan)
    values[np.ix_(there[0], there[1], images, there[2])] = one.values[
        np.ix_(here[0], here[1], images, here[2])
    ]
    return replace(other, values=values, source=one.source)


def _mean(values: NDArray[np.float64], axes: tuple[int, ...]) -> NDArray[np.float64]:
    count = (~np.isnan(values)).sum(axis=axes)
    with np.errstate(invalid="ignore"):
        return np.nansum(values, axis=axes) / np.where(count > 0, count, np.nan)
