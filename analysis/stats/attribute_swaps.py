"""Do attributes of images differ between two words? Whole images change places between the words.

The images of one noise resemble each other whatever the word, and the attributes of one image hang together (with a
skirt there are no trousers). Counts cannot show either, so a test that takes images and attributes as independent
(the even multinomial) finds differences where there are none and misses those that all noises share.
Here every image keeps all its attributes, and the two images of a noise change places together.
"""

from __future__ import annotations

import math
from itertools import product

import numpy as np
from numpy.typing import ArrayLike, NDArray

from analysis.stats.permutation import NO_IMAGES, NoiseFloor, undefined_floor

CONSTANT = "every attribute is in all images or in none"
_TOLERANCE = 1e-9


def attribute_swaps(
    first: ArrayLike,
    second: ArrayLike,
    *,
    paired: bool = True,
    shared: bool = False,
    draws: int = 9999,
    seed: int = 0,
) -> tuple[NoiseFloor, tuple[NoiseFloor, ...]]:
    r"""Hold :math:`\frac1m \sum_j |f_{1j} - f_{2j}|` of m attributes against whole images that change places.

    Parameters
    ----------
    first, second : array_like of float, shape (n_prompts, n_attributes, n_draws)
        Of the images of each word whether an attribute is there, 1 or 0; NaN where it was not decided, or there is no
        image.
    paired : bool
        Whether two images of one draw share their noise: they then change places with each other, and the test of a
        prompt is counted over all :math:`2^{n}` ways where there are at most `draws`. Else the images of a prompt are
        dealt to the two words at random.
    shared : bool
        Whether a draw has one noise under all prompts: its images then change places in all prompts at once.
    draws, seed : int

    Returns
    -------
    (NoiseFloor, tuple of NoiseFloor)
        Of the mean over prompts, and of every prompt; range 0 to 1. ``n`` counts images that were decided for any
        attribute, ``undefined`` attributes without images of either word.

    Raises
    ------
    ValueError
        If shapes differ.

    Source
    ------
    The distances are those of Cho et al. 2023, Tables 24 to 31, last column; the test is ours.

    Examples
    --------
    One prompt, two attributes that are in every image of the first word and in none of the second: of the 8 ways to
    swap within three noises two are as far from no difference.

    >>> whole, (one,) = attribute_swaps(np.ones((1, 2, 3)), np.zeros((1, 2, 3)))
    >>> one.value, one.p_value
    (1.0, 0.25)
    """
    a, b = (np.asarray(values, float) for values in (first, second))
    if a.ndim != 3 or a.shape != b.shape:
        raise ValueError(
            f"values: expected two arrays of shape (n_prompts, n_attributes, n_draws), got {a.shape} and {b.shape}"
        )
    if draws < 1:
        raise ValueError(f"draws: expected at least 1, got {draws}")
    rng = np.random.default_rng(seed)
    each, total, values = [], np.zeros(draws), []
    together = _places(a.shape[2], True, draws, rng) if shared and paired else None
    for one, other in zip(a, b):
        images = np.concatenate([one, other], axis=1).T  # images by attributes: those of the first word first
        places = _places(a.shape[2], paired, draws, rng) if together is None else together
        floor, drawn = _of_prompt(images, paired, places)
        each.append(floor)
        if drawn is not None:
            total += drawn
            values.append(floor.value)
    if not values:
        return undefined_floor(NO_IMAGES, len(a)), tuple(each)
    value, n, undefined = float(np.mean(values)), sum(one.n for one in each), len(a) - len(values)
    if all(one.reason for one in each):
        return undefined_floor(CONSTANT, undefined, value=value, n=n), tuple(each)
    return _held(value, total / len(values), n, undefined), tuple(each)


def _of_prompt(
    images: NDArray[np.float64], paired: bool, places: NDArray[np.float64]
) -> tuple[NoiseFloor, NDArray[np.float64] | None]:
    """The floor of one prompt, and its distance in as many draws; None without images of both words."""
    n = len(images) // 2
    known = ~np.isnan(images)
    there = known[:n].any(axis=0) & known[n:].any(axis=0)
    undefined, decided = int((~there).sum()), int(known.any(axis=1).sum())
    if not there.any():
        return undefined_floor(NO_IMAGES, undefined, n=decided), None
    known, values = known[:, there], np.where(known, images, 0.0)[:, there]
    observed = np.concatenate([np.ones((1, n)), np.zeros((1, n))], axis=1)
    value = float(_distance(observed, values, known)[0])
    drawn = _distance(places, values, known)
    counts = values.sum(axis=0)
    if ((counts == 0) | (counts == known.sum(axis=0))).all():
        return undefined_floor(CONSTANT, undefined, value=value, n=decided), drawn
    if paired and 2**n <= len(places) + 1:
        swaps = np.array(list(product((0.0, 1.0), repeat=n)))
        every = _distance(np.concatenate([1 - swaps, swaps], axis=1), values, known)
        return _held(value, every, decided, undefined, exact=True), drawn
    return _held(value, drawn, decided, undefined), drawn


def _places(n: int, paired: bool, draws: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Which images stand for the first word, shape (draws, 2 n)."""
    if paired:
        swaps = rng.integers(0, 2, (draws, n)).astype(float)
        return np.concatenate([1 - swaps, swaps], axis=1)
    return (rng.random((draws, 2 * n)).argsort(axis=1) < n).astype(float)


def _distance(
    places: NDArray[np.float64], values: NDArray[np.float64], known: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Mean absolute difference over the attributes that both words have images of, shape (draws,)."""
    counts = known.astype(float)
    k1, n1 = places @ values, places @ counts
    k2, n2 = values.sum(axis=0) - k1, counts.sum(axis=0) - n1
    both = (n1 > 0) & (n2 > 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        apart = np.where(both, np.abs(k1 * n2 - k2 * n1) / (n1 * n2), 0.0)
        return apart.sum(axis=1) / both.sum(axis=1)


def _held(
    value: float, drawn: NDArray[np.float64], n: int, undefined: int, exact: bool = False
) -> NoiseFloor:
    """The value compared with what the arrangements give."""
    drawn = drawn[~np.isnan(drawn)]
    beyond = int((drawn >= value - _TOLERANCE).sum())
    p_value = beyond / len(drawn) if exact else (1 + beyond) / (1 + len(drawn))
    floor = math.fsum(drawn) / len(drawn)
    return NoiseFloor(value, floor, float(drawn.std()), value - floor, p_value, n, undefined, "")
