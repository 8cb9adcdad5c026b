"""Distances between two sets of features (FID, KID) with what their sample sizes do to them; arrays in, numbers out.

The values themselves are those of torch-fidelity (`analysis.observe.quality`); what stands here is the same arithmetic
in a form that can be repeated often, for intervals, and needs no torch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg, stats

QUALITY_VERSION = "2"  # 1: FID of unlimited images by a line through FID of random subsets
GROUPS = 20  # of prompts that a jackknife leaves out one at a time, at the most
FEWEST = 5  # prompts, below which nothing is said of a sample size or an interval

Distance = Callable[[NDArray[np.float64], NDArray[np.float64]], float]


def frechet_distance(first: ArrayLike, second: ArrayLike) -> float:
    r"""Return the Fréchet distance between normal distributions fitted to two sets of features (Heusel et al. 2017).

    :math:`|\mu_1 - \mu_2|^2 + \mathrm{tr}\,\Sigma_1 + \mathrm{tr}\,\Sigma_2 - 2\,\mathrm{tr}\,(\Sigma_1
    \Sigma_2)^{1/2}`, covariances over n - 1, of shapes (n_1, d) and (n_2, d). The last trace is the sum of the singular
    values of :math:`A_1 A_2^\top` where :math:`\Sigma_i = A_i^\top A_i`, which is exact also where a covariance is
    singular, and quick where images are fewer than features.
    """
    (mean_1, root_1), (mean_2, root_2) = _moments(first), _moments(second)
    shared = linalg.svdvals(root_1 @ root_2.T).sum()
    spread = (root_1**2).sum() + (root_2**2).sum()
    return float(((mean_1 - mean_2) ** 2).sum() + spread - 2 * shared)


def _moments(features: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The mean, and a matrix A of at most d rows with A.T A the covariance."""
    features = np.asarray(features, np.float64)
    mean = features.mean(axis=0)
    root = (features - mean) / np.sqrt(len(features) - 1)
    return mean, root if len(root) <= root.shape[1] else linalg.qr(root, mode="r")[0][: root.shape[1]]


def kernel_distance(first: ArrayLike, second: ArrayLike) -> float:
    r"""Return the unbiased squared maximum mean discrepancy over all pairs, kernel :math:`(x \cdot y / d + 1)^3`.

    KID (Bińkowski et al. 2018) averages it over subsets; it may be below 0. The two sets need not be of one size.
    """
    from sklearn.metrics.pairwise import polynomial_kernel  # a run without a reference does without

    within = [polynomial_kernel(one) for one in (first, second)]
    own = [(k.sum() - np.trace(k)) / (len(k) * (len(k) - 1)) for k in within]
    return float(sum(own) - 2 * polynomial_kernel(first, second).mean())


@dataclass(frozen=True)
class Samples:
    """Features of the generated and of the reference images, (n_1, d) and (n_2, d), and the prompt of each.

    Prompts are left out and drawn together; an image of a reference without prompts has one of its own. ``paired``:
    whether prompts of the two are the same, so that they are left out of both at once.
    """

    first: NDArray[np.float64]
    second: NDArray[np.float64]
    prompts: NDArray
    reference_prompts: NDArray
    paired: bool


def jackknifed(
    distance: Distance, samples: Samples, *, level: float = 0.95, seed: int = 0
) -> dict[str, float | str]:
    """Return a distance by the jackknife: ``value``, its bias of order 1/n taken off, and a Student interval.

    NaN with a ``reason`` below `FEWEST` prompts on a side.

    Groups of prompts, at most `GROUPS`, are left out one at a time (Busing et al. 1999, for groups of unequal sizes). A
    bootstrap would draw images twice, which are identical to themselves: FID and KID of resamples lie above those of
    samples, so that their quantiles are no interval. Where the reference has no prompts in common, its images are left
    out in turn as well, and the two variances and the two biases add up. Where prompts are shared, images of one prompt
    on both sides are more similar than others, which lowers FID and KID by an amount of order 1/n: it is taken off,
    too.
    """
    nan = float("nan")
    if min(len(np.unique(one)) for one in (samples.prompts, samples.reference_prompts)) < FEWEST:
        return {"value": nan, "low": nan, "high": nan, "reason": f"fewer than {FEWEST} prompts"}
    whole = distance(samples.first, samples.second)
    generator = np.random.default_rng(seed)
    group = _groups(samples.prompts, generator)
    none = np.full(len(samples.first), -1), np.full(len(samples.second), -1)
    if samples.paired:
        known = dict(zip(samples.prompts.tolist(), group.tolist()))
        sides = [(group, np.array([known[prompt] for prompt in samples.reference_prompts.tolist()]), group)]
    else:
        own = _groups(samples.reference_prompts, generator)
        sides = [(group, none[1], group), (none[0], own, own)]
    bias, variance, freedom = 0.0, 0.0, np.inf
    for first, second, groups in sides:
        names, sizes = np.unique(groups, return_counts=True)
        left = [distance(samples.first[first != one], samples.second[second != one]) for one in names]
        off, spread = _jackknife(whole, np.array(left), sizes)
        bias, variance = bias + off, variance + spread
        freedom = min(freedom, len(left) - 1)
    half = float(np.sqrt(variance) * stats.t.ppf((1 + level) / 2, freedom))
    value = whole - bias
    return {"value": value, "low": value - half, "high": value + half, "reason": ""}


def _groups(prompts: NDArray, generator: np.random.Generator) -> NDArray[np.int64]:
    """The number of the group of each image; all images of a prompt in one group."""
    names, place = np.unique(prompts, return_inverse=True)
    return (generator.permutation(len(names)) % min(GROUPS, len(names)))[place]


def _jackknife(whole: float, left: NDArray[np.float64], sizes: NDArray[np.int64]) -> tuple[float, float]:
    """The bias of order 1/n and the variance, from values without one group each."""
    n, count = sizes.sum(), len(left)
    free = count * whole - ((1 - sizes / n) * left).sum()
    shares = n / sizes
    pseudo = shares * whole - (shares - 1) * left
    return float(whole - free), float((((pseudo - free) ** 2) / (shares - 1)).mean())
