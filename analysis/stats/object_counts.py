"""Which objects stand in which images, by prompt: the table that every object statistic reads.

A cell is one object at one prompt: in how many of the prompt's images it is present, and how often it was detected,
for each indicator. Cells without any detection are not stored, so 51,000 prompts × 3,300 objects fit a laptop. Made
from an image × object matrix of counts.

Everything downstream compares images of one prompt and seed, so a (prompt, seed) counts only if every indicator has
an image there; what is left out is counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

IMAGE_KEYS = ("prompt", "seed", "indicator")


@dataclass(frozen=True)
class ObjectTable:
    """Presence and detections of objects by prompt and indicator, of k indicators, in the order of the last axis.

    `seeds`, shape (n_prompts,), are the complete seeds of each prompt: images of each indicator. A cell has a `prompt`
    and an `object`, sorted by object, then prompt; `presence`, shape (n_cells, k), are the images in which the object
    is, `detections` how often it was detected in them.
    """

    indicators: tuple[str, ...]
    objects: NDArray
    prompts: NDArray
    seeds: NDArray[np.int64]
    prompt: NDArray[np.int64]
    object: NDArray[np.int64]
    presence: NDArray[np.int64]
    detections: NDArray[np.int64]

    @property
    def n_images(self) -> int:
        """Images of each indicator."""
        return int(self.seeds.sum())

    def column(self, indicator: str) -> int:
        """Place of an indicator on the last axis, or ValueError where there is none of this name."""
        return self.indicators.index(indicator)

    def totals(self, of: str = "presence") -> NDArray[np.int64]:
        """Sum over prompts, shape (n_objects, k); of detections this is C(o, P) of Wu et al., Eq. 3."""
        return self.by_object(getattr(self, of))

    def by_object(self, cells: NDArray) -> NDArray:
        """Add up cells by object: shape (n_cells, ...) to (n_objects, ...), exact for whole numbers."""
        flat = cells.reshape(len(cells), int(np.prod(cells.shape[1:], dtype=int)))
        sums = [np.bincount(self.object, weights=column, minlength=len(self.objects)) for column in flat.T]
        shape = (len(self.objects), *cells.shape[1:])
        result = np.array(sums).T.reshape(shape) if sums else np.zeros(shape)
        return result.astype(np.int64 if cells.dtype.kind in "iub" else np.float64)

    def select(self, indicators: Sequence[str]) -> ObjectTable:
        """The table of two or more of the indicators; objects that none of them has stay, with counts of 0."""
        order = [self.column(name) for name in indicators]
        presence, detections = self.presence[:, order], self.detections[:, order]
        keep = detections.any(axis=1)
        cells = (column[keep] for column in (self.prompt, self.object, presence, detections))
        names = tuple(str(name) for name in indicators)
        return ObjectTable(names, self.objects, self.prompts, self.seeds, *cells)


def object_table(
    images: pd.DataFrame,
    detections: sparse.sparray | ArrayLike,
    *,
    indicators: Sequence[str],
    objects: Sequence[str],
) -> ObjectTable:
    """Return the table of images and what was detected in them.

    Of images (columns prompt, seed, indicator: every image once, also those in which nothing was found) and a sparse or
    dense matrix of counts, a row for each image, a column for each object. Images of other indicators are ignored.
    ValueError if an image stands twice, or the shape is another.

    >>> keys = [("a cook", 0, "f"), ("a cook", 0, "m"), ("a nurse", 0, "f"), ("a nurse", 0, "m")]
    >>> images = pd.DataFrame(keys, columns=["prompt", "seed", "indicator"])
    >>> table = object_table(
    ...     images, [[2, 1], [1, 0], [0, 0], [1, 0]], indicators="fm", objects=["hat", "cup"]
    ... )
    >>> table.totals().tolist(), table.totals("detections").tolist()  # hat, cup; f, m
    ([[1, 2], [1, 0]], [[2, 2], [1, 0]])
    """
    names = tuple(str(name) for name in indicators)
    counts = sparse.csr_array(detections)
    if counts.shape != (len(images), len(objects)):
        raise ValueError(f"detections: expected shape {(len(images), len(objects))}, got {counts.shape}")
    counts.sum_duplicates()
    place = pd.Index(names).get_indexer(images["indicator"].astype(str))
    (prompt, prompts), (seed, seeds) = (pd.factorize(images[name]) for name in ("prompt", "seed"))
    pair, pairs = pd.factorize(prompt * len(seeds) + seed)
    known = place >= 0
    seen = np.bincount(pair[known] * len(names) + place[known], minlength=len(pairs) * len(names))
    if (seen > 1).any():
        number, at = divmod(int(pairs[seen.argmax() // len(names)]), len(seeds))
        raise ValueError(f"images: expected each once, got {_text((prompts[number], seeds[at]))} twice")
    complete = seen.reshape(-1, len(names)).all(axis=1)
    used = known & complete[pair]
    per_prompt = np.bincount(prompt[used], minlength=len(prompts)) // len(names)
    number = np.cumsum(per_prompt > 0) - 1  # prompts without a complete seed are left out
    cells = counts.tocoo()
    row, what = cells.coords
    keep = used[row] & (cells.data > 0)
    row, what, count = row[keep], what[keep].astype(np.int64), cells.data[keep]
    n_prompts = int((per_prompt > 0).sum())
    code = what * max(n_prompts, 1) + number[prompt[row]]
    unique, cell = np.unique(code, return_inverse=True)
    shape = (len(unique), len(names))
    flat = cell * len(names) + place[row]
    presence = np.bincount(flat, minlength=len(unique) * len(names)).reshape(shape)
    total = np.bincount(flat, weights=count, minlength=len(unique) * len(names)).reshape(shape)
    kept = per_prompt > 0
    return ObjectTable(
        *(names, np.asarray(objects, object), np.asarray(prompts)[kept], per_prompt[kept]),
        *(unique % max(n_prompts, 1), unique // max(n_prompts, 1)),
        *(presence.astype(np.int64), total.astype(np.int64)),
    )


def image_of_each(images: pd.DataFrame, rows: pd.DataFrame) -> NDArray[np.intp]:
    """Return the place of each row's image among the images, both with the columns prompt, seed and indicator."""
    keys, own = (pd.MultiIndex.from_frame(table[list(IMAGE_KEYS)]) for table in (images, rows))
    if not keys.is_unique:
        raise ValueError(f"images: expected each once, got {_text(keys[keys.duplicated()][0])} twice")
    image = keys.get_indexer(own)
    if (image < 0).any():
        raise ValueError(
            f"detections: expected an image for each, none for {_text(own[(image < 0).argmax()])}"
        )
    return image


def _text(key: tuple) -> str:
    return "(" + ", ".join(str(value) for value in key) + ")"
