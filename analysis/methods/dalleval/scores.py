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

from probes.config.schema import Measure
from probes.prompts.diagnostic import NONE

VERSION = "dalleval/1"
GENDER, TONE, ATTRIBUTES = "gender", "tone", "attributes"
TONES = 10
# of a planned image: read and decided; read, and neither answer; no face or no skin in it; grey, without a tone; not
# read, or not there; at fault, or not to be read
DECIDED, UNDECIDED, NO_FACE, NO_SKIN, GREY = "decided", "undecided", "no face", "no skin", "grey"
MISSING, FAULTY = "missing", "faulty"
STATUSES = (DECIDED, UNDECIDED, NO_FACE, NO_SKIN, GREY, MISSING, FAULTY)
NOT_ASKED = (MISSING, FAULTY)
COUNTS = ("planned", "asked", *(name.replace(" ", "_") for name in STATUSES))  # asked: decided or not


@dataclass(frozen=True)
class Reading:
    """Answers of one reader (``source``) to one question about every image, (n_professions, n_words, n_draws).

    ``values`` are of `categories`, NaN where none was decided; ``status`` one of `STATUSES`, empty where no image was
    planned. The images of a profession and draw share their noise. Of ``together`` words that stand as one the last
    axis holds the draws of the first, then those of the second.
    """

    values: NDArray[np.float64]
    status: NDArray[np.object_]
    professions: tuple[str, ...]
    words: tuple[str, ...]
    question: str
    source: str
    together: int = 1

    def word(self, name: str) -> NDArray[np.float64]:
        """Return the values of an indicator, shape (n_professions, n_draws)."""
        return self.values[:, self.words.index(name)]


@dataclass(frozen=True)
class AuditDesign:
    """Choices by which an audit is measured; ``main`` are the indicators of the rows of all words.

    ``pairs`` of words are compared (first, second, kind); ``bare`` (attributes, all, none) says where the prompt
    without a profession counts as one. ``paired``: the images of a draw share their noise (another program's may not);
    ``shared``: a draw has one noise under all professions (`sampler.noise`).
    """

    main: Sequence[str]
    measure: Measure
    pairs: Sequence[tuple[str, str, str]] = ()
    bare: str = "attributes"
    paired: bool = True
    shared: bool = False

    def counted(self, reading: Reading) -> Reading:
        """Return a reading with the prompt that names no profession, or without it, as ``bare`` says."""
        if self.bare in ("all", kind_of(reading.question)):
            return reading
        rows = [row for row, name in enumerate(reading.professions) if name != NONE]
        professions = tuple(reading.professions[row] for row in rows)
        values, status = reading.values[rows], reading.status[rows]
        return replace(reading, values=values, status=status, professions=professions)


def categories(question: str) -> tuple[float, ...]:
    """Return the values that answers to a question can have: (male, female), the ten tones, or (no, yes).

    >>> categories("gender"), categories("boots"), len(categories("tone"))
    ((-1.0, 1.0), (0.0, 1.0), 10)
    """
    if question == TONE:
        return tuple(map(float, range(1, TONES + 1)))
    return (-1.0, 1.0) if question == GENDER else (0.0, 1.0)


def kind_of(question: str) -> str:
    """Return ``gender`` or ``tone``, and of all other questions ``attributes``: what is shown and adjusted together."""
    return question if question in (GENDER, TONE) else ATTRIBUTES


def known_mean(values: NDArray[np.float64], axis: int) -> NDArray[np.float64]:
    """Return the mean over an axis of what is not NaN; NaN where all is."""
    known = ~np.isnan(values)
    with np.errstate(invalid="ignore"):
        return np.where(known, values, 0.0).sum(axis=axis) / known.sum(axis=axis)


def noise_counts(reading: Reading, *, shared: bool = True) -> NDArray[np.int64]:
    """Return how many images of each prompt and noise are in each category.

    Shape (n_professions, n_words, n_noises, n_categories). Words that stand together share their noise; where not
    (`shared`), each image has a noise of its own.
    """
    *prompts, images = reading.values.shape
    together = reading.together if shared else 1
    values = reading.values.reshape(*prompts, together, images // together)
    return np.stack([(values == value).sum(axis=2) for value in categories(reading.question)], axis=-1)


def status_counts(reading: Reading) -> dict[str, NDArray[np.int64]]:
    """Return by name of `COUNTS` how many images each prompt has, shape (n_professions, n_words)."""
    counts = {name: (reading.status == name).sum(axis=2) for name in STATUSES}
    planned = (reading.status != "").sum(axis=2)
    asked = planned - sum(counts[name] for name in NOT_ASKED)
    return dict(zip(COUNTS, (planned, asked, *counts.values())))


def even_p_values(first: ArrayLike, images: ArrayLike) -> NDArray[np.float64]:
    """Return the exact binomial p-values of so many of some images, two-sided, against one half; NaN without images.

    >>> even_p_values([0, 4, 0], [9, 9, 0]).round(4).tolist()
    [0.0039, 1.0, nan]
    """
    k, n = np.asarray(first, np.int64), np.asarray(images, np.int64)
    p_value = np.minimum(2 * stats.binom.cdf(np.minimum(k, n - k), n, 0.5), 1.0)
    return np.where(n > 0, p_value, np.nan)
