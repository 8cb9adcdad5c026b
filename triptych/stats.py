"""Statistics of paired prompts: arrays in, a frozen dataclass out.

    from triptych import stats

    stats.paired_test(differences, clusters=prompts)     # intervals and sign flips, adjusted over columns
    stats.equivalence(differences, delta=0.1, reach=2)   # can a difference be called absent?
    stats.prompts_needed(0.5, sd_prompt=1.0)             # of a paired difference, for a power
    stats.share(hits, of)                                # a share of items, independent or in clusters
    stats.share_difference(hits, of, hits_2, of_2)

The unit is what was drawn independently: a prompt, with all of its seeds and images. An array of one column may be
given without its second axis, and gives arrays of one number.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from analysis.stats.bootstrap import bootstrap_interval, equivalence_test
from analysis.stats.permutation import sign_flip_test
from analysis.stats.power import prompts_for_gap
from analysis.stats.proportions import effective, newcombe_interval, square_and_add, wilson_interval

__all__ = [
    "Equivalence",
    "PairedTest",
    "PromptsNeeded",
    "Share",
    "equivalence",
    "paired_test",
    "prompts_needed",
    "share",
    "share_difference",
]


@dataclass(frozen=True)
class PairedTest:
    """Mean paired differences with their intervals and tests; arrays of shape (n_columns,), NaN where undefined.

    Attributes
    ----------
    mean, low, high : ndarray of float64
        With a bootstrap interval over clusters.
    p_value, p_adjusted : ndarray of float64
        Of each column alone, and adjusted over all columns by max-T.
    n : ndarray of int64
        Clusters that have a value.
    reason : ndarray of object (str)
        Why the interval is NaN; empty where it is not.
    """

    mean: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    p_value: NDArray[np.float64]
    p_adjusted: NDArray[np.float64]
    n: NDArray[np.int64]
    reason: NDArray[np.object_]


@dataclass(frozen=True)
class Equivalence:
    """Whether mean differences lie within ±delta; arrays of shape (n_columns,): a small p-value says that they do."""

    mean: NDArray[np.float64]
    p_value: NDArray[np.float64]
    delta: float


@dataclass(frozen=True)
class PromptsNeeded:
    """How many prompts find a paired difference of a size with a power; NaN, with the reason, where none do."""

    prompts: float
    power: float
    d_z: float
    reason: str


@dataclass(frozen=True)
class Share:
    """A share, or a difference of two, with its interval; `n` is the number of independent items that it is worth."""

    value: float
    low: float
    high: float
    n: float


def paired_test(
    differences: ArrayLike,
    clusters: ArrayLike | None = None,
    *,
    level: float = 0.95,
    permutations: int = 10000,
    resamples: int = 2000,
    seed: int = 0,
) -> PairedTest:
    r"""Test whether mean paired differences are 0, by flips of the signs of whole clusters.

    Rows of a cluster are averaged, so that it counts once; if the two members that are compared could have changed
    places, the sign of each cluster's difference is a fair coin. The p-value is the part of all :math:`2^n` flips (of
    so many that are drawn, where these are more than `permutations`) with a mean as far from 0. Adjusted is the part in
    which any column has a statistic :math:`|\sum x| / \sqrt{\sum x^2}` of at least this column's (max-T).

    Parameters
    ----------
    differences : array_like of float, shape (n,) or (n, n_columns)
        One row a pair; NaN where there is none. The columns are one family.
    clusters : array_like, shape (n,), optional
        What the rows belong to, such as prompts; by default each row stands for itself.
    level : float
        Of the interval: the wider, at each end, of the studentized bootstrap's and Student's t.
    permutations, resamples, seed : int

    Returns
    -------
    PairedTest

    Raises
    ------
    ValueError
        If shapes do not fit, a number is out of range, or a value is infinite.

    Source
    ------
    Westfall and Young 1993 for max-T; Phipson and Smyth 2010 for drawn p-values; Efron and Tibshirani 1993.

    Examples
    --------
    Three prompts of two images each that agree in sign: of 8 flips only all-plus and all-minus reach the mean.

    >>> result = paired_test([1.0, 1.0, 2.0, 2.0, 3.0, 3.0], clusters=["a", "a", "b", "b", "c", "c"])
    >>> result.mean.tolist(), result.p_value.tolist(), result.n.tolist()
    ([2.0], [0.25], [3])
    """
    values = _by_cluster(differences, clusters)
    interval = bootstrap_interval(values, level=level, resamples=resamples, seed=seed)
    flips = sign_flip_test(values, permutations=permutations, seed=seed)
    ends = interval.mean, interval.low, interval.high
    return PairedTest(*ends, flips.p_value, flips.p_adjusted, interval.n, interval.reason)


def equivalence(
    differences: ArrayLike,
    delta: float,
    *,
    reach: ArrayLike,
    clusters: ArrayLike | None = None,
    resamples: int = 2000,
    seed: int = 0,
) -> Equivalence:
    r"""Test whether mean paired differences lie within :math:`\pm\delta`: not significant is no proof of absence.

    Null: the mean is ≤ −δ or ≥ δ. The p-value is the largest of those of two one-sided t-tests, of the studentized
    bootstrap, and of a bounded interval, which allows for rare changes that were not drawn.

    Parameters
    ----------
    differences : array_like of float, shape (n,) or (n, n_columns)
    delta : float
        Above 0, in the units of the differences: chosen before the data are seen.
    reach : array_like of float, shape () or (n_columns,)
        The largest difference that there can be.
    clusters : array_like, shape (n,), optional
        As of `paired_test`.
    resamples, seed : int

    Returns
    -------
    Equivalence
        The p-value is NaN with fewer than two clusters and where all values are equal.

    Raises
    ------
    ValueError
        If shapes do not fit, or `delta` is not above 0.

    Source
    ------
    Schuirmann 1987; Gaffke 2005 for the bounded interval.

    Examples
    --------
    >>> equivalence([0.1, -0.1, 0.2, -0.2], 0.5, reach=1.0).p_value.round(2).tolist()
    [0.07]
    """
    values = _by_cluster(differences, clusters)
    far = np.broadcast_to(np.asarray(reach, np.float64), values.shape[1:])
    p_value = equivalence_test(values, delta, reach=far, resamples=resamples, seed=seed)
    return Equivalence(pd.DataFrame(values).mean().to_numpy(), p_value, float(delta))


def prompts_needed(
    difference: float,
    *,
    sd_prompt: float,
    sd_seed: float = 0.0,
    seeds: int = 1,
    power: float = 0.8,
    alpha: float = 0.05,
) -> PromptsNeeded:
    r"""Return how many prompts find a mean paired difference with a power, by the two-sided paired t-test.

    Parameters
    ----------
    difference : float
    sd_prompt, sd_seed : float
        Standard deviation of the difference between prompts, and between the seeds of a prompt: with S seeds
        :math:`d_z = \text{difference} / \sqrt{\sigma_p^2 + \sigma_s^2 / S}`.
    seeds : int
    power, alpha : float
        Divide alpha by the number of columns of a family.

    Returns
    -------
    PromptsNeeded

    Examples
    --------
    >>> prompts_needed(0.5, sd_prompt=1.0).prompts
    34
    """
    spread = {"sd_prompt": sd_prompt, "sd_seed": sd_seed, "seeds": seeds}
    result = prompts_for_gap(difference, **spread, power=power, alpha=alpha)
    return PromptsNeeded(result["prompts"], result["power"], result["d_z"], result["reason"])


def share(hits: ArrayLike, of: ArrayLike, *, level: float = 0.95) -> Share:
    """Return a share of items with Wilson's interval; of several clusters with their effective size.

    Parameters
    ----------
    hits, of : array_like of int, shape () or (n_clusters,)
        Successes and items; images of a prompt are a cluster, since they resemble each other.
    level : float

    Returns
    -------
    Share
        NaN without items; without an interval of a single cluster in an array.

    Source
    ------
    Wilson 1927; Korn and Graubard 1998 for the effective size.

    Examples
    --------
    Five of ten items, and the same in prompts whose images are alike.

    >>> one = share(5, 10)
    >>> round(one.low, 4), round(one.high, 4)
    (0.2366, 0.7634)
    >>> share([5, 5, 0, 0], [5, 5, 5, 5]).n
    3.0
    """
    value, size, _ = _rate(hits, of)
    low, high = wilson_interval(value, size, level)
    return Share(float(value), float(low), float(high), float(size))


def share_difference(
    hits: ArrayLike,
    of: ArrayLike,
    hits_2: ArrayLike,
    of_2: ArrayLike,
    *,
    paired: bool = False,
    level: float = 0.95,
) -> Share:
    """Return the difference of two shares, first less second, with Newcombe's interval.

    Parameters
    ----------
    hits, of, hits_2, of_2 : array_like of int, shape () or (n_clusters,)
        Successes and items of both groups, as of `share`.
    paired : bool
        Whether both groups have the same clusters, such as prompts that were drawn with either word: what they have in
        common then falls out of the difference.
    level : float

    Returns
    -------
    Share
        `n` is that of the group that is worth fewer items.

    Source
    ------
    Newcombe 1998, method 10, and its form for paired proportions.

    Examples
    --------
    >>> found = share_difference(56, 70, 48, 80)
    >>> round(found.value, 2), round(found.low, 4), round(found.high, 4)
    (0.2, 0.0524, 0.3339)
    """
    (a, n_a, pull_a), (b, n_b, pull_b) = _rate(hits, of), _rate(hits_2, of_2)
    if not paired:
        low, high = newcombe_interval(a, n_a, b, n_b, level)
        return Share(float(a - b), float(low), float(high), float(min(n_a, n_b)))
    if pull_a.shape != pull_b.shape:
        raise ValueError(
            f"hits: expected the same clusters in both groups, got {len(pull_a)} and {len(pull_b)}"
        )
    alone = np.sqrt((pull_a**2).sum() * (pull_b**2).sum())
    correlation = (pull_a * pull_b).sum() / alone if alone > 0 else 0.0
    ends = wilson_interval(a, n_a, level), wilson_interval(b, n_b, level)
    low, high = square_and_add(a, ends[0], b, ends[1], correlation)
    return Share(float(a - b), float(low), float(high), float(min(n_a, n_b)))


def _rate(hits: ArrayLike, of: ArrayLike) -> tuple[NDArray, NDArray, NDArray[np.float64]]:
    """The share, the items that it is worth, and what each cluster adds to its deviation."""
    hits, of = np.asarray(hits, np.float64), np.asarray(of, np.float64)
    if hits.shape != of.shape or hits.ndim > 1:
        raise ValueError(
            f"hits: expected one shape, () or (n_clusters,), of both, got {hits.shape} and {of.shape}"
        )
    if not ((hits >= 0) & (hits <= of)).all():
        raise ValueError("hits: expected numbers from 0 to those of the items, got others")
    if not hits.ndim:
        return hits / of if of > 0 else np.array(np.nan), of, np.zeros(1)
    return effective(hits, of)


def _by_cluster(differences: ArrayLike, clusters: ArrayLike | None) -> NDArray[np.float64]:
    """Means of the rows of each cluster, shape (n_clusters, n_columns)."""
    values = np.asarray(differences, np.float64)
    values = values[:, None] if values.ndim == 1 else values
    if values.ndim != 2:
        raise ValueError(f"differences: expected shape (n,) or (n, n_columns), got {values.shape}")
    if clusters is None:
        return values
    names = np.asarray(clusters)
    if len(names) != len(values):
        raise ValueError(f"clusters: expected one for each of {len(values)} rows, got {len(names)}")
    return pd.DataFrame(values).groupby(names).mean().to_numpy()
