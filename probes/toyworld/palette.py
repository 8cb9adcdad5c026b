"""The colours of the toy world.

Every thing has a colour of its own, at least 53 apart (Euclidean, 8-bit RGB) from every other colour, so that a
picture can be read back by nearest colour. The colours were found by pushing natural ones apart.
"""

from functools import cache

import numpy as np

COLOURS: dict[str, tuple[int, int, int]] = {
    "boots": (107, 67, 17),
    "slippers": (255, 120, 190),
    "jeans": (44, 75, 151),
    "shorts": (230, 190, 40),
    "slacks": (81, 78, 112),
    "dress": (200, 20, 90),
    "skirt": (240, 80, 60),
    "suit": (35, 21, 79),
    "shirt": (90, 180, 230),
    "uniform": (64, 106, 39),
    "jacket": (156, 76, 38),
    "hat": (131, 18, 20),
    "tie": (220, 0, 0),
    "mask": (0, 220, 200),
    "gloves": (111, 41, 158),
    "dog": (187, 114, 60),
    "cat": (240, 140, 20),
    "ball": (255, 90, 0),
    "box": (175, 157, 89),
    "chair": (116, 57, 69),
    "bag": (150, 30, 110),
    "flower": (255, 40, 160),
    "guitar": (200, 100, 9),
    "rack": (118, 126, 138),
    "umbrella": (89, 19, 202),
    "smartphone": (16, 40, 32),
    "book": (17, 121, 61),
    "cup": (30, 80, 255),
    "kite": (0, 200, 60),
    "bird": (0, 110, 200),
    "lamp": (255, 240, 0),
    "clock": (0, 60, 110),
    "bike": (0, 150, 150),
    "horse": (72, 29, 1),
    "skateboard": (160, 220, 0),
    "table": (147, 128, 27),
    "bed": (130, 90, 220),
    "couch": (0, 90, 20),
    "studio_wall": (223, 227, 224),
    "studio_floor": (195, 188, 208),
    "snow_wall": (205, 221, 255),
    "snow_floor": (241, 225, 255),
    "forest_wall": (150, 200, 150),
    "forest_floor": (120, 162, 98),
    "sidewalk_wall": (209, 188, 175),
    "sidewalk_floor": (163, 161, 157),
    "park_wall": (175, 240, 255),
    "park_floor": (160, 230, 130),
    "beach_wall": (149, 219, 239),
    "beach_floor": (249, 234, 170),
    "kitchen_wall": (255, 240, 205),
    "kitchen_floor": (225, 180, 141),
    "office_wall": (186, 214, 185),
    "office_floor": (139, 151, 182),
    "stage_wall": (190, 130, 170),
    "stage_floor": (225, 165, 205),
    "skin_1": (255, 201, 164),
    "skin_2": (218, 147, 119),
    "skin_3": (138, 105, 79),
    "hair_1": (66, 53, 49),
    "hair_2": (216, 186, 109),
    "plain_top": (236, 198, 235),
    "plain_bottom": (170, 166, 217),
    "plain_shoe": (104, 109, 75),
    "white": (255, 255, 255),
    "black": (0, 0, 0),
}
INDEX: dict[str, int] = {name: index for index, name in enumerate(COLOURS)}
RGB: np.ndarray = np.array(list(COLOURS.values()), dtype=np.uint8)


def paint(indices: np.ndarray) -> np.ndarray:
    """Return the RGB image, uint8 ``(..., 3)``, of palette indices ``(...)``."""
    return RGB[indices]


@cache
def _nearest_colour_table() -> np.ndarray:
    """Return the palette index nearest to each 8 × 8 × 8 cell of the RGB cube, uint8 ``(32, 32, 32)``."""
    levels = (np.arange(32) * 8 + 4).astype(np.float32)
    grid = np.stack(np.meshgrid(levels, levels, levels, indexing="ij"), axis=-1).reshape(-1, 3)
    colours = RGB.astype(np.float32)
    distance = (grid**2).sum(1)[:, None] - 2 * grid @ colours.T + (colours**2).sum(1)[None]
    return distance.argmin(1).astype(np.uint8).reshape(32, 32, 32)


def nearest_colours(image: np.ndarray) -> np.ndarray:
    """Return the index of the palette colour nearest to each pixel, ``(..., h, w)``, of RGB ``(..., h, w, 3)``.

    Colours are compared on a grid of 8 levels' width, well below the palette's spacing.
    """
    cells = image >> 3
    return _nearest_colour_table()[cells[..., 0], cells[..., 1], cells[..., 2]]
