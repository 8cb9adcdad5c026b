"""R-precision: how often an image's prompt is retrieved among random ones (Xu et al. 2018; DALL-Eval, appendix D.1)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from analysis.methods.gep.estimates import unit

R_PRECISION_VERSION = "1"
TIE = 1e-6  # cosines nearer than this are tied: float32 embeddings of the same tokens differ by less
_CHUNK = 256  # images whose cosines with every caption are held at a time


def same_text(text: str) -> str:
    """Return what two captions must have in common to be the same: CLIP's tokenizer reads neither case nor spacing."""
    return " ".join(text.casefold().split())


def r_precision(
    images: ArrayLike,
    captions: Sequence[str],
    texts: ArrayLike,
    positives: Sequence[str],
    *,
    negatives: int = 99,
    seed: int = 0,
) -> tuple[NDArray[np.float64], int]:
    """Return whether each image's prompt is the nearest of a pool of one positive and random negatives (R = 1).

    A pool holds the image's prompt and captions drawn without replacement from those that say something else: a caption
    that is the same text (`same_text`) is no negative, and one that occurs repeatedly is drawn at most once; DALL-Eval
    draws 99. A hit is 1 where the prompt has the highest cosine, 0 where a negative has a higher one, and 1 / (1 + j)
    where j negatives are tied with it at the top: Xu et al. and DALL-Eval leave ties open, here they count as the mean
    over ways to break them. The second number is that of the captions drawn: as asked for, or all that say something
    else, where these are fewer; without any, hits are NaN. Embeddings, (n_images, d) and (n_captions, d), need not be
    of length 1; the positives are among the captions.

    >>> hits, n = r_precision([[1, 0], [1, 0]], ["x", "y"], [[1, 0], [0, 1]], ["x", "y"])
    >>> hits.tolist(), n
    ([1.0, 0.0], 1)
    """
    images, texts = np.asarray(images, np.float64), np.asarray(texts, np.float64)
    row = {same_text(caption): index for index, caption in reversed(list(enumerate(captions)))}
    column = {caption: place for place, caption in enumerate(row)}
    texts, generator = unit(texts[list(row.values())]), np.random.default_rng(seed)
    right = np.array([column[same_text(one)] for one in positives], np.intp)[:, None]
    count, hits = min(negatives, len(texts) - 1), np.full(len(images), np.nan)
    for start in range(0, len(images) if count else 0, _CHUNK):
        part = slice(start, start + _CHUNK)
        cosines = unit(images[part]) @ texts.T
        over = np.take_along_axis(cosines, right[part], axis=1)
        place = generator.random(cosines.shape)  # the `count` smallest are drawn; never the image's prompt
        np.put_along_axis(place, right[part], np.inf, axis=1)
        drawn = np.take_along_axis(cosines, np.argpartition(place, count - 1, axis=1)[:, :count], axis=1)
        tied = (np.abs(drawn - over) <= TIE).sum(axis=1)
        hits[part] = np.where((drawn > over + TIE).any(axis=1), 0.0, 1 / (1 + tied))
    return hits, count
