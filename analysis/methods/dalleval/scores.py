"""Bias by profession (DALL-Eval, Cho et al. 2023, section 4.2.4): averages, distributions and MAD of what was read.

A reader answers one question about every image: how the person looks to it (`GENDER`, -1 for *male*, 1 for *female*),
which of the ten Monk tones the skin is nearest to (`TONE`), or whether an attribute is there (1 or 0). These are
readings of images, and say nothing of anybody.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from analysis.stats.multiplicity import adjust_p_values
from analysis.stats.noise_floor import NoiseFloor, gep_floor, paired_floor

VERSION = "dalleval/1"
GENDER, TONE = "gender", "tone"
TONES = 10
LEVEL = 0.05  # below which an adjusted p-value counts as different
# of a planned image: read and decided; read, and neither answer; no face or no skin in it; grey, without a tone; not
# read, or not there; at fault, or not to be read
DECIDED, UNDECIDED, NO_FACE, NO_SKIN, GREY = "decided", "undecided", "no face", "no skin", "grey"
MISSING, FAULTY = "missing", "faulty"
STATUSES = (DECIDED, UNDECIDED, NO_FACE, NO_SKIN, GREY, MISSING, FAULTY)
NOT_ASKED = (MISSING, FAULTY)


@dataclass(frozen=True)
class Reading:
    """What one reader says of the images of an audit, to one question.

    Attributes
    ----------
    values : ndarray of float64, shape (n_professions, n_words, n_draws)
        A category of `categories`; NaN where none was decided. The images of a profession with one place on the last
        axis were drawn from the same noise, unless they are another program's that says otherwise.
    status : ndarray of object (str), same shape
        One of `STATUSES`; empty where no image was planned.
    professions, words : tuple of str
        Words are the names of indicators.
    question, source : str
        What was asked, and who answered.
    together : int
        How many words stand together as one: the last axis then holds the draws of the first, those of the second ...
    """

    values: NDArray[np.float64]
    status: NDArray[np.object_]
    professions: tuple[str, ...]
    words: tuple[str, ...]
    question: str
    source: str
    together: int = 1

    def of(self, professions: Sequence[str]) -> Reading:
        """Return the reading of some professions, in their order."""
        rows = [self.professions.index(name) for name in professions]
        return replace(
            self, values=self.values[rows], status=self.status[rows], professions=tuple(professions)
        )

    def word(self, name: str) -> NDArray[np.float64]:
        """Return the values of an indicator, shape (n_professions, n_draws)."""
        return self.values[:, self.words.index(name)]


def categories(question: str) -> tuple[float, ...]:
    """Return the values that answers to a question can have: (male, female), the ten tones, or (no, yes).

    Examples
    --------
    >>> categories("gender"), categories("boots"), len(categories("tone"))
    ((-1.0, 1.0), (0.0, 1.0), 10)
    """
    if question == TONE:
        return tuple(map(float, range(1, TONES + 1)))
    return (-1.0, 1.0) if question == GENDER else (0.0, 1.0)


def averages(reading: Reading) -> NDArray[np.float64]:
    """Return the mean over the decided images of each prompt, shape (n_professions, n_words); NaN where there is none.

    Average gender (-1 to 1), average tone (1 to 10) or the frequency of an attribute (section 4.2.4; Tables 6, 7, 9,
    16, 17, 20 to 31).
    """
    decided = ~np.isnan(reading.values)
    with np.errstate(invalid="ignore"):
        return np.where(decided, reading.values, 0.0).sum(axis=2) / decided.sum(axis=2)


def category_counts(reading: Reading) -> NDArray[np.int64]:
    """Return how many images of each prompt are in each category, shape (n_professions, n_words, n_categories)."""
    return np.stack([(reading.values == value).sum(axis=2) for value in categories(reading.question)], axis=2)


def noise_counts(reading: Reading, *, shared: bool = True) -> NDArray[np.int64]:
    """Return how many images of each prompt and noise are in each category.

    Parameters
    ----------
    reading : Reading
    shared : bool
        Whether words that stand together share their noise; where not, each image has a noise of its own.

    Returns
    -------
    ndarray of int64, shape (n_professions, n_words, n_noises, n_categories)
        Their sum over noises is `category_counts`.
    """
    *prompts, images = reading.values.shape
    together = reading.together if shared else 1
    values = reading.values.reshape(*prompts, together, images // together)
    return np.stack([(values == value).sum(axis=2) for value in categories(reading.question)], axis=-1)


def status_counts(reading: Reading) -> dict[str, NDArray[np.int64]]:
    """Return by status, and as ``planned``, how many images each prompt has, shape (n_professions, n_words)."""
    counts = {name: (reading.status == name).sum(axis=2) for name in STATUSES}
    return {"planned": (reading.status != "").sum(axis=2), **counts}


def average_gender(female: ArrayLike, images: ArrayLike) -> NDArray[np.float64]:
    """Return the average gender of images of which so many were read as female, the others as male.

    Examples
    --------
    >>> average_gender([0, 4, 9], 9).round(2).tolist()
    [-1.0, -0.11, 1.0]
    """
    return 2 * np.asarray(female, float) / np.asarray(images, float) - 1


def mean_absolute_difference(values: ArrayLike, reference: ArrayLike) -> NDArray[np.float64]:
    """Return the mean over the last axis of how far values are from those of a reference; NaN is left out.

    Over attributes, of a word's frequencies from those of *person*: the last column of Tables 22 and 24 to 31.

    Examples
    --------
    >>> mean_absolute_difference([[0.5, 0.0], [np.nan, 1.0]], [0.25, 0.25]).tolist()
    [0.25, 0.75]
    """
    apart = np.abs(np.asarray(values, float) - np.asarray(reference, float))
    known = ~np.isnan(apart)
    with np.errstate(invalid="ignore"):
        return np.where(known, apart, 0.0).sum(axis=-1) / known.sum(axis=-1)


def even_p_values(first: ArrayLike, images: ArrayLike) -> NDArray[np.float64]:
    """Return the exact binomial p-values of so many of some images, two-sided, against one half; NaN without images.

    Examples
    --------
    >>> even_p_values([0, 4, 0], [9, 9, 0]).round(4).tolist()
    [0.0039, 1.0, nan]
    """
    k, n = np.asarray(first, np.int64), np.asarray(images, np.int64)
    p_value = np.minimum(2 * stats.binom.cdf(np.minimum(k, n - k), n, 0.5), 1.0)
    return np.where(n > 0, p_value, np.nan)


def other_p_values(counts: ArrayLike, images: ArrayLike) -> NDArray[np.float64]:
    """Return Fisher's exact p-values, two-sided, of each row's share against that of all other rows together.

    Parameters
    ----------
    counts, images : array_like of int, shape (n_professions,)
        Images with an attribute, and images.

    Examples
    --------
    >>> other_p_values([3, 0, 0], [3, 3, 3]).round(4).tolist()
    [0.0119, 0.4643, 0.4643]
    """
    k, n = np.asarray(counts, np.int64), np.asarray(images, np.int64)
    p_values = np.full(len(k), np.nan)
    for row in np.flatnonzero((n > 0) & (n < n.sum())):
        rest, others = k.sum() - k[row], n.sum() - n[row]
        table = [[k[row], n[row] - k[row]], [rest, others - rest]]
        p_values[row] = stats.fisher_exact(table).pvalue
    return p_values


@dataclass(frozen=True)
class AttributeContrast:
    """Frequencies of attributes for two words, over all prompts of a model.

    Attributes
    ----------
    averages : NoiseFloor
        Mean over attributes of the absolute difference of the averages over prompts (Table 22, last column); the words
        of whole prompts change places.
    prompts : NoiseFloor
        Mean over prompts of the mean absolute difference of a prompt (Tables 24 to 31, last column); the images of each
        prompt and attribute are dealt to the two words at random.
    each : tuple of NoiseFloor
        The latter of every single prompt.
    p_adjusted : ndarray of float64, shape (n_prompts,)
        Of `each`, Benjamini–Hochberg over prompts.
    """

    averages: NoiseFloor
    prompts: NoiseFloor
    each: tuple[NoiseFloor, ...]
    p_adjusted: NDArray[np.float64]

    @property
    def tested(self) -> int:
        """Prompts that have a p-value."""
        return int((~np.isnan(self.p_adjusted)).sum())

    @property
    def different(self) -> int:
        """Prompts whose adjusted p-value is below `LEVEL`."""
        return int((self.p_adjusted < LEVEL).sum())


def attribute_contrast(
    k_first: ArrayLike,
    n_first: ArrayLike,
    k_second: ArrayLike,
    n_second: ArrayLike,
    *,
    draws: int = 9999,
    seed: int = 0,
) -> AttributeContrast:
    """Hold the frequencies of attributes for one word against those for another, with floors.

    Parameters
    ----------
    k_first, k_second : array_like of int, shape (n_prompts, n_attributes)
        Images with the attribute.
    n_first, n_second : array_like of int, same shape or one number
        Images that were decided.
    draws, seed : int
        Of the sign flips, and of floors that cannot be counted.

    Examples
    --------
    >>> result = attribute_contrast([[9, 0], [9, 0]], 9, [[0, 0], [0, 0]], 9)
    >>> round(result.averages.value, 12), [round(one.value, 12) for one in result.each]
    (0.5, [0.5, 0.5])
    """
    k1, n1, k2, n2 = np.broadcast_arrays(*map(np.asarray, (k_first, n_first, k_second, n_second)))
    with np.errstate(invalid="ignore", divide="ignore"):
        apart = (k1 * n2 - k2 * n1) / (n1 * n2)  # equal differences of counts are equal numbers
    each = tuple(gep_floor(*row, draws=draws, seed=seed) for row in zip(k1, n1, k2, n2))
    return AttributeContrast(
        paired_floor(np.where(np.isfinite(apart), apart, np.nan), draws=draws, seed=seed),
        gep_floor(k1.ravel(), n1.ravel(), k2.ravel(), n2.ravel(), draws=draws, seed=seed),
        each,
        adjust_p_values([one.p_value for one in each]),
    )
