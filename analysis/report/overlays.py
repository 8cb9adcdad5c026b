"""Overlays of the gallery's images: boxes, outlines of masks, groups and guiding words of its objects.

Outlines are SVG paths in whole half pixels, so a page of a hundred images with ten objects each takes some hundred
kilobytes, not a bitmap an object.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import cv2
import numpy as np
import pandas as pd

from analysis.metrics.dependency import GROUPS
from probes.runs.coco_masks import decode

MASK_SIDE = 128  # pixels: outlines of larger masks are taken from a reduced mask, with fewer corners
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
_TOLERANCE = 1.5  # half pixels of the reduced mask by which a corner may be off (Douglas and Peucker 1973)


def outline(mask: np.ndarray) -> tuple[str, int]:
    """Trace a mask as an SVG path, for ``fill-rule: evenodd``.

    Closed polygons around every part and hole, through the middles of their outermost pixels, in half pixels of the
    reduced mask, relative commands; empty for an empty mask. Second is how many pixels of the mask one pixel of the
    path stands for, across.

    >>> outline(np.pad(np.ones((2, 3), bool), 1))
    ('M3 3l0 2 4 0 0-2z', 1)
    """
    reduction = math.ceil(max(mask.shape) / MASK_SIDE)
    small = mask.astype(np.uint8)
    if reduction > 1:
        size = tuple(-(-side // reduction) for side in mask.shape[::-1])
        small = cv2.resize(small, size, interpolation=cv2.INTER_AREA)
    lines, _ = cv2.findContours(small, cv2.RETR_CCOMP, cv2.CHAIN_APPROX_SIMPLE)
    parts = []
    for line in lines:
        line = 2 * line + 1
        points = (cv2.approxPolyDP(line, _TOLERANCE, True) if reduction > 1 else line)[:, 0]
        moves = " ".join(f"{x} {y}" for x, y in np.diff(points, axis=0).tolist()).replace(" -", "-")
        parts.append(f"M{points[0, 0]} {points[0, 1]}" + (f"l{moves}" if moves else "") + "z")
    return "".join(parts), reduction


def without_longest(paths: Sequence[str], excess: int) -> list[str]:
    """Return paths, together shorter by `excess` characters: the longest are empty."""
    found, most = list(paths), sum(map(len, paths)) - excess
    for place in sorted(range(len(found)), key=lambda place: -len(found[place])):
        if sum(map(len, found)) <= most:
            break
        found[place] = ""
    return found


def overlays(table: pd.DataFrame, detections: pd.DataFrame) -> dict[str, list[dict]]:
    """Collect what can be laid over each image.

    `table` is ``objects`` of the images shown, `detections` of ``objects/``. By ``sample_id``: every object has
    ``name`` (its lemma), ``label``, ``group`` (its place in `analysis.metrics.dependency.GROUPS`, or one after the
    last), ``word`` (index of the word that covers most of it, None without a map), ``coverage``, ``score``, ``box``
    (x0, y0, width, height, in parts of the image) and ``path`` with its ``view`` (width and height in units of the
    path); a noun without an object has the first three.
    """
    found = {(row.sample_id, row.object): row for row in detections.itertuples()}
    shown: dict[str, list[dict]] = {}
    for row in table.itertuples():
        group = GROUPS.index(row.group) if row.group else NOT_GROUPED
        entry = {"name": row.lemma, "label": row.label, "group": group}
        if row.object >= 0:
            seen = found[row.sample_id, row.object]
            path, reduction = outline(decode(seen.mask, seen.height, seen.width))
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
