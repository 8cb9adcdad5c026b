"""R-precision: how often an image's prompt is retrieved among random ones (Xu et al. 2018; DALL-Eval, appendix D.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from analysis.methods.gep.estimates import unit

R_PRECISION_VERSION = "1"
TIE = 1e-6  # cosines nearer than this are tied: float32 embeddings of the same tokens differ by less
_CHUNK = 256  # images whose cosines with every caption are held at a time


@dataclass(frozen=True)
class Retrieval:
    """Retrieved prompts of each image; arrays have shape (n_images,).

    ``hit``: 1 where the prompt has the highest cosine of its pool, 0 where a negative has a higher one, 1 / (1 + j)
    where j negatives are tied with it at the top (the mean over ways to break the tie); NaN where nothing can be drawn.
    ``negatives``: captions drawn: as asked for, or all that say something else, where these are fewer.
    """

    hit: NDArray[np.float64]
    negatives: NDArray[np.int64]

    @property
    def chance(self) -> NDArray[np.float64]:
        """Return the precision of random cosines: one over the size of the pool; NaN without negatives."""
        return np.where(self.negatives > 0, 1 / (1 + self.negatives), np.nan)


def same_text(text: str) -> str:
    """Return what two captions must have in common to be the same: their words without case and spacing.

    CLIP's tokenizer reads neither.
    """
    return " ".join(text.casefold().split())


def r_precision(
    images: ArrayLike,
    captions: Sequence[str],
    texts: ArrayLike,
    positives: Sequence[str],
    *,
    negatives: int = 99,
    seed: int = 0,
) -> Retrieval:
    """Return whether each image's prompt is the nearest of a pool of one positive and random negatives (R = 1).

    A pool holds the image's prompt and captions drawn without replacement from those that say something else: a caption
    that is the same text (`same_text`) is no negative, and one that occurs repeatedly is drawn at most once; DALL-Eval
    draws 99. What ties do, Xu et al. and DALL-Eval leave open; here they count as the mean over ways to break them.
    Embeddings, (n_images, d) and (n_captions, d), need not be of length 1; the positives are among the captions.

    >>> found = r_precision([[1, 0], [1, 0]], ["x", "y"], [[1, 0], [0, 1]], ["x", "y"])
    >>> found.hit.tolist(), found.negatives.tolist(), found.chance.tolist()
    ([1.0, 0.0], [1, 1], [0.5, 0.5])
    """
    images, texts = np.asarray(images, np.float64), np.asarray(texts, np.float64)
    row = {same_text(caption): index for index, caption in reversed(list(enumerate(captions)))}
    column = {caption: place for place, caption in enumerate(row)}
    texts, chosen = unit(texts[list(row.values())]), np.random.default_rng(seed)
    right = np.array([column[same_text(one)] for one in positives], np.intp)
    blocks = [
        _block(
            unit(images[start : start + _CHUNK]) @ texts.T, right[start : start + _CHUNK], negatives, chosen
        )
        for start in range(0, len(images), _CHUNK)
    ]
    hit, drawn = (np.concatenate(one) for one in zip(*blocks)) if blocks else np.empty((2, 0))
    return Retrieval(hit, drawn.astype(np.int64))


def _block(
    cosines: NDArray[np.float64], right: NDArray[np.intp], negatives: int, chosen: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Hits and numbers of negatives of some images, from their cosines with every different caption."""
    n, count = len(cosines), min(negatives, cosines.shape[1] - 1)
    if count == 0:
        return np.full(n, np.nan), np.zeros(n, np.int64)
    over = np.take_along_axis(cosines, right[:, None], axis=1)
    better, level = cosines > over + TIE, np.abs(cosines - over) <= TIE
    place = chosen.random(cosines.shape)  # the `count` smallest are drawn; never the image's prompt
    np.put_along_axis(place, right[:, None], np.inf, axis=1)
    drawn = np.argpartition(place, count - 1, axis=1)[:, :count]
    beaten = np.take_along_axis(better, drawn, axis=1).any(axis=1)
    tied = np.take_along_axis(level, drawn, axis=1).sum(axis=1)
    return np.where(beaten, 0.0, 1 / (1 + tied)), np.full(n, count)
