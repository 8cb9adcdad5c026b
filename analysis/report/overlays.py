"""Overlays of a gallery's images: boxes and outlines of masks, with the groups of their objects."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from analysis.metrics.dependency import GROUPS
from probes.runs.images import decode_mask

DETECTED = ("sample_id", "object", "score", "x0", "y0", "x1", "y1", "mask", "height", "width")
NOT_GROUPED = len(GROUPS)  # the place of an object without a group
TITLES = (*(group.replace("_", " ") for group in GROUPS), "not grouped")
LARGEST = 128  # pixels: outlines of larger masks are taken from a reduced mask
TOLERANCE = 0.6  # pixels of it by which a corner may be off


def outline(mask: np.ndarray) -> tuple[str, list[int]]:
    """Trace a mask as an SVG path for ``fill-rule: evenodd``, with the width and height of its view.

    Closed polygons around every part and hole, in whole pixels and relative commands; empty for an empty mask.

    >>> outline(np.pad(np.ones((2, 1), bool), 1))
    ('M4 4l0 8 4 0 0-8z', [12, 16])
    """
    import cv2  # not with a notebook's first import

    reduction = math.ceil(max(mask.shape) / LARGEST)
    height, width = (-(-side // reduction) for side in mask.shape)
    small = cv2.resize(mask.astype(np.uint8), (width, height), interpolation=cv2.INTER_AREA)
    # four times as large, a contour through the middles of the outermost pixels is at most an eighth off
    large = cv2.resize(small, (4 * width, 4 * height), interpolation=cv2.INTER_NEAREST)
    lines, _ = cv2.findContours(large, cv2.RETR_CCOMP, cv2.CHAIN_APPROX_SIMPLE)
    parts = []
    for line in lines:
        points = cv2.approxPolyDP(line, 4 * TOLERANCE, True)[:, 0].astype(int)
        points += points % 4 == 3  # back to the edges of the pixels
        moves = " ".join(f"{x} {y}" for x, y in np.diff(points, axis=0).tolist()).replace(" -", "-")
        parts.append(f"M{points[0, 0]} {points[0, 1]}l{moves}z" if len(points) > 2 else "")
    return "".join(parts), [4 * width, 4 * height]


def overlays(table: pd.DataFrame, detections: pd.DataFrame) -> dict[str, list[dict]]:
    """Collect what can be laid over each image, by ``sample_id``.

    `table` is ``objects`` of the images shown, `detections` of ``objects/``. Every object has ``name`` (its lemma),
    ``label``, ``group`` (its place in `analysis.metrics.dependency.GROUPS`, or one after the last), ``box`` (x0, y0,
    width, height, in parts of the image) and ``path`` with its ``view`` (width and height in units of the path).
    """
    detected = {(row.sample_id, row.object): row for row in detections.itertuples()}
    result: dict[str, list[dict]] = {}
    for row in table[table["object"] >= 0].itertuples():
        seen = detected[row.sample_id, row.object]
        path, view = outline(decode_mask(seen.mask, seen.height, seen.width))
        x0, x1 = seen.x0 / seen.width, seen.x1 / seen.width
        y0, y1 = seen.y0 / seen.height, seen.y1 / seen.height
        entry = {
            "name": row.lemma,
            "label": row.label,
            "group": GROUPS.index(row.group) if row.group else NOT_GROUPED,
            "box": [round(part, 3) for part in (x0, y0, x1 - x0, y1 - y0)],
            "path": path,
            "view": view,
        }
        result.setdefault(row.sample_id, []).append(entry)
    return result
