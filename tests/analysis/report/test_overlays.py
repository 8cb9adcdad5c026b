"""Outlines, filled again, give back the masks; every object carries its group."""

import re

import numpy as np
import pandas as pd
import pytest
from PIL import Image, ImageDraw

from analysis.metrics.dependency import GROUPS
from analysis.report.overlays import NOT_GROUPED, outline, overlays
from probes.runs.images import encode_mask


def filled(path: str, view: list[int], shape: tuple[int, int]) -> np.ndarray:
    """Fill a path by the even-odd rule, four pixels of canvas for one of the image."""
    canvas = np.zeros((shape[0] * 4, shape[1] * 4), bool)
    scale = np.array(canvas.shape[::-1]) / view
    for part in path.split("z")[:-1]:
        numbers = [int(number) for number in re.findall(r"-?\d+", part)]
        (x, y), *steps = zip(numbers[::2], numbers[1::2])
        points = np.cumsum([(x, y), *steps], axis=0) * scale
        image = Image.new("1", canvas.shape[::-1])
        ImageDraw.Draw(image).polygon([tuple(map(float, point)) for point in points], fill=1)
        canvas ^= np.asarray(image)
    return canvas


@pytest.mark.parametrize("size, least", [(64, 0.9), (256, 0.93), (700, 0.93)])
def test_outline_filled_again_is_the_mask(size, least):
    y, x = np.mgrid[:size, :size] / size
    mask = (x - 0.5) ** 2 + (y - 0.4) ** 2 < 0.1
    mask ^= (abs(x - 0.45) < 0.08) & (abs(y - 0.4) < 0.1)  # a hole
    mask |= (x > 0.9) & (y < 0.3)  # another part, at the edge
    path, view = outline(mask)
    assert re.fullmatch(r"(M\d+ \d+l[-\d ]+z)+", path)
    whole = mask.repeat(4, 0).repeat(4, 1)
    back = filled(path, view, mask.shape)
    assert (whole & back).sum() / (whole | back).sum() >= least
    assert len(path) < 4000


def test_overlays_carry_group_and_box():
    mask = np.zeros((32, 64), bool)
    mask[8:16, 32:64] = True
    table = pd.DataFrame(
        [
            ("a", 0, "balls", "ball", "implicitly_guided"),
            ("a", 1, "cup", "cup", "implicitly_independent"),
            ("a", 2, "bag", "bag", ""),
            ("a", -1, "air", "air", "hidden"),
        ],
        columns=["sample_id", "object", "label", "lemma", "group"],
    )
    row = {
        "sample_id": "a",
        "score": 0.5,
        "x0": 32.0,
        "y0": 8.0,
        "x1": 64.0,
        "y1": 16.0,
        "mask": encode_mask(mask),
    }
    rows = [row | {"object": n, "height": 32, "width": 64} for n in range(3)]
    ball, cup, bag = overlays(table, pd.DataFrame(rows))["a"]
    assert (
        ball["name"] == "ball" and ball["label"] == "balls" and GROUPS[ball["group"]] == "implicitly_guided"
    )
    assert ball["box"] == [0.5, 0.25, 0.5, 0.25] and ball["view"] == [256, 128]
    assert GROUPS[cup["group"]] == "implicitly_independent" and bag["group"] == NOT_GROUPED == 5
