"""Overlays of the gallery's images: boxes, outlines of masks, groups and guiding words of its objects.

Outlines are SVG paths in whole half pixels, so a page of a hundred images with ten objects each takes some hundred
kilobytes, not a bitmap an object.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pandas as pd
from skimage.measure import find_contours

from analysis.metrics.dependency import GROUPS
from probes.runs.images import decode_mask

LARGEST = 256  # pixels: outlines of larger masks are taken from a reduced mask
DETECTED = (
    "sample_id",
    "object",
    "score",
    "x0",
    "y0",
    "x1",
    "y1",
    "mask",
    "height",
    "width",
)  # read of ``objects/``
NOT_GROUPED = len(GROUPS)  # the place of an object without a group
SMALL = 128  # pixels: masks up to this size keep every corner
_TOLERANCE = 0.6  # pixels by which a corner of a larger one may be off


def outline(mask: np.ndarray) -> tuple[str, int]:
    """Trace a mask as an SVG path, for ``fill-rule: evenodd``.

    Closed polygons around every part and hole, in half pixels of the reduced mask, relative commands; empty for an
    empty mask. Second is how many pixels of the mask one pixel of the path stands for, across.

    A single pixel becomes a diamond through the middles of its sides.

    >>> outline(np.pad(np.ones((1, 1), bool), 1))
    ('M3 4l-1-1 1-1 1 1z', 1)
    """
    reduction = math.ceil(max(mask.shape) / LARGEST)
    if reduction > 1:
        height, width = (-(-side // reduction) * reduction for side in mask.shape)
        padded = np.pad(mask, ((0, height - mask.shape[0]), (0, width - mask.shape[1])))
        blocks = padded.reshape(height // reduction, reduction, width // reduction, reduction)
        mask = blocks.mean(axis=(1, 3)) >= 0.5
    parts = []
    for line in find_contours(np.pad(mask, 1).astype(float), 0.5):
        if max(mask.shape) > SMALL:
            from skimage.measure import approximate_polygon  # loads all of scipy.signal and scipy.stats

            line = approximate_polygon(line, _TOLERANCE)
        points = np.rint((line[:, ::-1] - 0.5) * 2).astype(int)[:-1]  # the last is the first again
        steps = np.diff(points, axis=0)
        moves = " ".join(f"{x} {y}" for x, y in _straight(steps)).replace(" -", "-")
        parts.append(f"M{points[0, 0]} {points[0, 1]}l{moves}z")
    return "".join(parts), reduction


def _straight(steps: np.ndarray) -> list[tuple[int, int]]:
    """Join steps that go on in the same direction."""
    joined: list[tuple[int, int]] = []
    for x, y in steps.tolist():
        if joined and joined[-1][0] * y == joined[-1][1] * x and joined[-1][0] * x + joined[-1][1] * y > 0:
            joined[-1] = (joined[-1][0] + x, joined[-1][1] + y)
        else:
            joined.append((x, y))
    return joined


def overlays(
    table: pd.DataFrame,
    detections: pd.DataFrame,
    trace: Callable[[np.ndarray], tuple[str, int]] = outline,
) -> dict[str, list[dict]]:
    """Collect what can be laid over each image.

    `table` is ``objects`` of the images shown, `detections` of ``objects/``, `trace` gives a path and a reduction
    (`outline`). By ``sample_id``: every object has ``name`` (its lemma), ``label``, ``group`` (its place in
    `analysis.metrics.dependency.GROUPS`, or one after the last), ``word`` (index of the word that covers most of it,
    None without a map), ``coverage``, ``score``, ``box`` (x0, y0, width, height, in parts of the image) and ``path``
    with its ``view`` (width and height in units of the path); a noun without an object has the first three.
    """
    found = {(row.sample_id, row.object): row for row in detections.itertuples()}
    shown: dict[str, list[dict]] = {}
    for row in table.itertuples():
        group = GROUPS.index(row.group) if row.group else NOT_GROUPED
        entry = {"name": row.lemma, "label": row.label, "group": group}
        if row.object >= 0:
            seen = found[row.sample_id, row.object]
            path, reduction = trace(decode_mask(seen.mask, seen.height, seen.width))
            x0, x1 = seen.x0 / seen.width, seen.x1 / seen.width
            y0, y1 = seen.y0 / seen.height, seen.y1 / seen.height
            entry |= {
                "word": int(row.best_word_index) if row.best_word_index >= 0 else None,
                "coverage": _short(row.coverage),
                "score": _short(seen.score),
                "box": [_short(part) for part in (x0, y0, x1 - x0, y1 - y0)],
                "path": path,
                "view": [2 * seen.width / reduction, 2 * seen.height / reduction],
            }
        shown.setdefault(row.sample_id, []).append(entry)
    return shown


def _short(value: float) -> float | None:
    return float(f"{value:.4g}") if math.isfinite(value) else None
