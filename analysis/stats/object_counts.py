"""Which objects stand in which images, by prompt: the table that every object statistic reads.

A cell is one object at one prompt: in how many of the prompt's images it is present, and how often it was detected,
for each indicator. Cells without any detection are not stored, so 51,000 prompts × 3,300 objects fit a laptop. Made
from tidy rows (one a detection or one an image and object) or from a sparse image × object matrix.

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
    """Presence and detections of objects by prompt and indicator.

    Attributes
    ----------
    indicators : tuple of str
        k of them; the order of the last axis below.
    objects, prompts : ndarray
        Names.
    seeds : ndarray of int64, shape (n_prompts,)
        Complete seeds of each prompt: images of each indicator.
    prompt, object : ndarray of int64, shape (n_cells,)
        Of each cell, sorted by object, then prompt.
    presence : ndarray of int64, shape (n_cells, k)
        Images in which the object is present, 0 to ``seeds[prompt]``.
    detections : ndarray of int64, shape (n_cells, k)
        How often it was detected in them.
    incomplete : int
        (prompt, seed) left out because an indicator has no image there.
    """

    indicators: tuple[str, ...]
    objects: NDArray
    prompts: NDArray
    seeds: NDArray[np.int64]
    prompt: NDArray[np.int64]
    object: NDArray[np.int64]
    presence: NDArray[np.int64]
    detections: NDArray[np.int64]
    incomplete: int

    @property
    def n_images(self) -> int:
        """Images of each indicator."""
        return int(self.seeds.sum())

    def column(self, indicator: str) -> int:
        """Place of an indicator on the last axis.

        Raises
        ------
        ValueError
            If there is none of this name.
        """
        if indicator not in self.indicators:
            raise ValueError(f"indicator: expected one of {', '.join(self.indicators)}, got {indicator!r}")
        return self.indicators.index(indicator)

    def values(self, of: str) -> NDArray[np.int64]:
        """``presence`` or ``detections``, shape (n_cells, k).

        Raises
        ------
        ValueError
            `of` is none of these.
        """
        if of not in ("presence", "detections"):
            raise ValueError(f"of: expected presence or detections, got {of!r}")
        return getattr(self, of)

    def totals(self, of: str = "presence") -> NDArray[np.int64]:
        """Sum over prompts, shape (n_objects, k); of detections this is C(o, P) of Wu et al., Eq. 3."""
        return self.by_object(self.values(of))

    def by_object(self, cells: NDArray) -> NDArray:
        """Add up cells by object: shape (n_cells, ...) to (n_objects, ...), exact for whole numbers."""
        flat = cells.reshape(len(cells), int(np.prod(cells.shape[1:], dtype=int)))
        sums = [np.bincount(self.object, weights=column, minlength=len(self.objects)) for column in flat.T]
        shape = (len(self.objects), *cells.shape[1:])
        result = np.array(sums).T.reshape(shape) if sums else np.zeros(shape)
        return result.astype(np.int64 if cells.dtype.kind in "iub" else np.float64)

    def matrix(self, indicator: str, *, of: str = "presence") -> sparse.csr_array:
        """Objects × prompts of one indicator, float32 (whole numbers below 2^24 are exact)."""
        shape = (len(self.objects), len(self.prompts))
        cells = self.values(of)[:, self.column(indicator)]
        keep = cells != 0
        where = (self.object[keep], self.prompt[keep])
        return sparse.csr_array((cells[keep].astype(np.float32), where), shape=shape)

    def select(self, indicators: Sequence[str]) -> ObjectTable:
        """The table of some of the indicators; objects that none of them has stay, with counts of 0.

        Raises
        ------
        ValueError
            They are fewer than two, or one stands twice.
        """
        order = [self.column(name) for name in indicators]
        if len(set(order)) < len(order) or len(order) < 2:
            raise ValueError(f"indicators: expected two or more different ones, got {list(indicators)}")
        presence, detections = self.presence[:, order], self.detections[:, order]
        keep = detections.any(axis=1)
        cells = (column[keep] for column in (self.prompt, self.object, presence, detections))
        names = tuple(str(name) for name in indicators)
        return ObjectTable(names, self.objects, self.prompts, self.seeds, *cells, self.incomplete)


def object_table(
    images: pd.DataFrame,
    detections: pd.DataFrame | sparse.sparray | ArrayLike,
    *,
    indicators: Sequence[str],
    objects: Sequence[str] | None = None,
) -> ObjectTable:
    """Make the table from images and what was detected in them.

    Parameters
    ----------
    images : DataFrame
        Columns prompt, seed, indicator: every image once, also those in which nothing was found.
    detections : DataFrame, or sparse or dense matrix
        A frame with the columns prompt, seed, indicator, object and, if wanted, count: one row per detection (or an
        image and object with its count; repeated rows add up). A matrix has a row for each row of `images` and a
        column for each of `objects`, and holds counts.
    indicators : sequence of str
        In the order wanted; those of a table that is tested are two or more. Images of others are ignored.
    objects : sequence of str, optional
        Names; needed with a matrix. With a frame, also names objects that may not have been detected; by default
        the names found, sorted.

    Raises
    ------
    ValueError
        If columns are missing, an image stands twice, a detection names no image or no known object, or a count is
        no whole number of at least 0.

    Examples
    --------
    >>> keys = [("a cook", 0, "f"), ("a cook", 0, "m"), ("a nurse", 0, "f"), ("a nurse", 0, "m")]
    >>> images = pd.DataFrame(keys, columns=["prompt", "seed", "indicator"])
    >>> table = object_table(
    ...     images, [[2, 1], [1, 0], [0, 0], [1, 0]], indicators="fm", objects=["hat", "cup"]
    ... )
    >>> table.totals().tolist(), table.totals("detections").tolist()  # hat, cup; f, m
    ([[1, 2], [1, 0]], [[2, 2], [1, 0]])
    """
    names = tuple(str(name) for name in indicators)
    if len(set(names)) < max(len(names), 1):
        raise ValueError(f"indicators: expected different ones, got {list(indicators)}")
    _require(images, IMAGE_KEYS, "images")
    if isinstance(detections, pd.DataFrame):
        counts, objects = _from_rows(images, detections, objects)
    else:
        counts, objects = _from_matrix(images, detections, objects)
    place = pd.Index(names).get_indexer(images["indicator"].astype(str))
    (prompt, prompts), (seed, seeds) = (pd.factorize(images[name]) for name in ("prompt", "seed"))
    pair, pairs = pd.factorize(prompt * len(seeds) + seed)
    known = place >= 0
    seen = np.bincount(pair[known] * len(names) + place[known], minlength=len(pairs) * len(names))
    if (seen > 1).any():
        number, at = divmod(int(pairs[seen.argmax() // len(names)]), len(seeds))
        raise ValueError(f"images: expected each once, got {_text((prompts[number], seeds[at]))} twice")
    has_any = seen.reshape(-1, len(names)).any(axis=1)
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
    return ObjectTable(
        *(
            names,
            np.asarray(objects, object),
            np.asarray(prompts)[per_prompt > 0],
            per_prompt[per_prompt > 0],
        ),
        *(unique % max(n_prompts, 1), unique // max(n_prompts, 1)),
        *(presence.astype(np.int64), total.astype(np.int64)),
        int((has_any & ~complete).sum()),
    )


def _require(frame: pd.DataFrame, columns: Sequence[str], name: str) -> None:
    missing = [column for column in columns if column not in frame.columns]
    if missing:
        raise ValueError(f"{name}: expected the columns {', '.join(columns)}, {', '.join(missing)} missing")


def _from_matrix(
    images: pd.DataFrame, matrix: sparse.sparray | ArrayLike, objects: Sequence[str] | None
) -> tuple[sparse.csr_array, Sequence[str]]:
    counts = sparse.csr_array(matrix)
    if objects is None:
        raise ValueError("objects: expected names for the columns of the matrix, got none")
    if counts.shape != (len(images), len(objects)):
        raise ValueError(f"detections: expected shape {(len(images), len(objects))}, got {counts.shape}")
    if len(set(objects)) < len(objects):
        raise ValueError("objects: expected different names, got one twice")
    counts.sum_duplicates()
    _whole(counts.data)
    return counts, objects


def _from_rows(
    images: pd.DataFrame, rows: pd.DataFrame, objects: Sequence[str] | None
) -> tuple[sparse.csr_array, Sequence[str]]:
    _require(rows, (*IMAGE_KEYS, "object"), "detections")
    image = image_of_each(images, rows)
    objects = sorted(rows["object"].unique()) if objects is None else list(objects)
    what = pd.Index(objects).get_indexer(rows["object"])
    if (what < 0).any():
        name = rows["object"].iloc[int((what < 0).argmax())]
        raise ValueError(f"detections: expected one of the {len(objects)} objects, got {name!r}")
    count = rows["count"].to_numpy() if "count" in rows else np.ones(len(rows), np.int64)
    _whole(count)
    counts = sparse.coo_array((count.astype(np.float64), (image, what)), shape=(len(images), len(objects)))
    return counts.tocsr(), objects


def image_of_each(images: pd.DataFrame, rows: pd.DataFrame) -> NDArray[np.intp]:
    """Return the place of each row's image among the images, both with the columns prompt, seed and indicator.

    Raises
    ------
    ValueError
        If an image stands twice, or a row names none.
    """
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


def _whole(count: NDArray) -> None:
    if len(count) and not ((count >= 0) & (np.mod(count, 1) == 0)).all():
        raise ValueError("detections: expected whole counts of at least 0, got another number")
