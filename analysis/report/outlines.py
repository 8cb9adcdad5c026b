"""Outlines of masks as short paths of SVG: traced, and with fewer corners where they must be shorter still."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

import cv2
import numpy as np

MASK_SIDE = 96  # pixels of the mask that an outline is taken from
TOLERANCES = (1.5, 3.0, 5.0)  # that corners may be off by, tried in this order; two are a pixel of that mask
LIKENESS = 0.85  # intersection over union with the mask, below which an outline is left out


def polygons(mask: np.ndarray) -> tuple[str, int]:
    """Trace a mask as `analysis.report.overlays.outline` does, in a twentieth of the time and whole pixels.

    The path runs through the middles of a mask's outermost pixels, of a mask of at most `MASK_SIDE` pixels across.
    """
    reduction = math.ceil(max(mask.shape) / MASK_SIDE)
    small = mask.astype(np.uint8)
    if reduction > 1:
        size = tuple(-(-side // reduction) for side in mask.shape[::-1])
        small = cv2.resize(small, size, interpolation=cv2.INTER_AREA)
    lines, _ = cv2.findContours(small, cv2.RETR_CCOMP, cv2.CHAIN_APPROX_SIMPLE)
    return _path([2 * line[:, 0].astype(int) + 1 for line in lines]), reduction


def fit(paths: Sequence[str], excess: int) -> Iterator[str]:
    """Yield paths, together shorter by `excess` characters: with fewer corners, or empty where these are too few.

    Corners go by Douglas and Peucker (1973), as few as needed. A path that would differ too much from its mask is left
    out; if all are still too long, the longest are.
    """
    most = sum(map(len, paths)) - excess
    found = list(paths)
    for tolerance in TOLERANCES:
        if sum(map(len, found)) <= most:
            break
        found = [simplified(path, tolerance) for path in paths]
    for place in sorted(range(len(found)), key=lambda place: -len(found[place])):
        if sum(map(len, found)) <= most:
            break
        found[place] = ""
    return iter(found)


def simplified(path: str, tolerance: float) -> str:
    """Return a path without corners that lie within `tolerance` of the line without them; empty if it is too unlike.

    >>> simplified("M1 1l10 0 10 1 0 20-20 0z", 1.5)
    'M1 1l20 1 0 20-20 0z'
    """
    lines = _points(path)
    fewer = [cv2.approxPolyDP(line[:, None], tolerance, True)[:, 0] for line in lines]
    fewer = [line for line in fewer if len(line) > 2]
    return _path(fewer) if fewer and _likeness(lines, fewer) >= LIKENESS else ""


def _path(lines: Sequence[np.ndarray]) -> str:
    """Closed lines through points, each a row of x and y, as steps from point to point."""
    parts = []
    for points in lines:
        moves = " ".join(f"{x} {y}" for x, y in np.diff(points, axis=0).tolist()).replace(" -", "-")
        parts.append(f"M{points[0, 0]} {points[0, 1]}" + (f"l{moves}" if moves else "") + "z")
    return "".join(parts)


def _points(path: str) -> list[np.ndarray]:
    """The lines of a path of `_path`."""
    steps = (np.array(re.findall(r"-?\d+", part), np.int32) for part in path.split("z")[:-1])
    return [np.cumsum(own.reshape(-1, 2), axis=0, dtype=np.int32) for own in steps]


def _likeness(lines: Sequence[np.ndarray], others: Sequence[np.ndarray]) -> float:
    """Intersection over union of what two sets of lines enclose."""
    width, height = (np.concatenate([*lines, *others]).max(axis=0) + 1).tolist()
    one, two = (
        cv2.fillPoly(np.zeros((height, width), np.uint8), list(own), 1).astype(bool)
        for own in (lines, others)
    )
    return float((one & two).sum() / max(1, (one | two).sum()))
