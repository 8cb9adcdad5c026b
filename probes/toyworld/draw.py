"""The renderer: from a scene to a picture of 64 × 64 pixels with exact masks.

Things are drawn as palette indices without anti-aliasing, from back to front; every pixel belongs to one thing, so
the masks are the pixels themselves.
"""

from functools import cache

import numpy as np
from PIL import Image, ImageDraw

from probes.toyworld.palette import INDEX, paint
from probes.toyworld.scene import Scene
from probes.toyworld.world import WHOLE_BODY, load_world

SIZE = 64
BLANK = 255  # no palette index


class _Pen:
    """Draws shapes in a palette colour, in coordinates relative to ``(x, y)``; `lying` turns them by 90 degrees."""

    def __init__(self, draw: ImageDraw.ImageDraw, x: int, y: int, lying: bool = False) -> None:
        self.draw, self.x, self.y, self.lying = draw, x, y, lying

    def _pixel(self, u: float, v: float) -> tuple[float, float]:
        """Return the pixel (x, y) of a point in the pen's coordinates (u, v)."""
        return (self.x + v, self.y - u) if self.lying else (self.x + u, self.y + v)

    def _box(self, u0: float, v0: float, u1: float, v1: float) -> list[float]:
        """Return [left, top, right, bottom] in pixels of the box with two corners in the pen's coordinates."""
        (x0, y0), (x1, y1) = self._pixel(u0, v0), self._pixel(u1, v1)
        return [min(x0, x1), min(y0, y1), max(x0, x1), max(y0, y1)]

    def rect(self, colour: str, *corners: float) -> None:
        """Fill a rectangle with corners u0, v0, u1, v1 in a colour by its name in the palette."""
        self.draw.rectangle(self._box(*corners), fill=INDEX[colour])

    def oval(self, colour: str, *corners: float) -> None:
        """Fill the ellipse in the box with corners u0, v0, u1, v1."""
        self.draw.ellipse(self._box(*corners), fill=INDEX[colour])

    def shape(self, colour: str, *points: tuple[float, float]) -> None:
        """Fill the polygon with corners at these points (u, v)."""
        self.draw.polygon([self._pixel(*point) for point in points], fill=INDEX[colour])

    def line(self, colour: str, width: int, *points: tuple[float, float]) -> None:
        """Draw a line, `width` pixels wide, through points (u, v)."""
        self.draw.line([self._pixel(*point) for point in points], fill=INDEX[colour], width=width)

    def arc(self, colour: str, *corners: float, start: int, end: int, width: int) -> None:
        """Draw an arc, from `start` to `end` in degrees, of the ellipse in the box with corners u0, v0, u1, v1."""
        self.draw.arc(self._box(*corners), start, end, fill=INDEX[colour], width=width)


def _draw_background(draw: ImageDraw.ImageDraw, place: str) -> None:
    """Draw wall, floor and decoration of a place, such as ``beach``, over the whole picture."""
    wall, floor = INDEX[f"{place}_wall"], INDEX[f"{place}_floor"]
    draw.rectangle([0, 0, 63, 63], fill=wall)
    horizon = {"beach": 36, "park": 40, "snow": 38, "sidewalk": 44, "forest": 42}.get(place, 46)
    draw.rectangle([0, horizon, 63, 63], fill=floor)
    if place == "forest":
        for x in (4, 18, 42, 56):
            draw.polygon([(x, 14), (x - 5, horizon), (x + 5, horizon)], fill=floor)
    elif place == "snow":
        draw.ellipse([-14, 30, 30, 54], fill=floor)
        draw.ellipse([34, 32, 78, 54], fill=floor)
    elif place == "kitchen":
        for x in range(0, 64, 8):
            draw.rectangle([x, 30, x + 3, 33], fill=floor)
    elif place == "office":
        draw.rectangle([6, 22, 20, 34], fill=floor)
        draw.rectangle([44, 22, 58, 34], fill=floor)
    elif place == "stage":
        draw.polygon([(0, 0), (12, 0), (3, 44), (0, 44)], fill=floor)
        draw.polygon([(63, 0), (52, 0), (60, 44), (63, 44)], fill=floor)
    elif place == "sidewalk":
        for x in range(0, 64, 16):
            draw.line([(x, 52), (x + 8, 52)], fill=wall, width=2)
    elif place == "beach":
        draw.rectangle([0, horizon - 6, 63, horizon - 1], fill=INDEX["snow_wall"])


def _draw_object(pen: _Pen, name: str) -> None:
    """Draw an object, such as ``bike``, at the pen's position."""
    if name == "table":
        pen.rect(name, -27, 34, 27, 38)
        pen.rect(name, -24, 39, -20, 52)
        pen.rect(name, 20, 39, 24, 52)
    elif name == "bed":
        pen.rect(name, -27, 36, 27, 48)
        pen.rect(name, -29, 28, -25, 52)
        pen.rect("white", -24, 32, -15, 36)
    elif name == "couch":
        pen.rect(name, -27, 26, 27, 46)
        pen.rect("black", -19, 38, 19, 39)
        pen.rect(name, -29, 32, -22, 48)
        pen.rect(name, 22, 32, 29, 48)
    elif name == "bike":
        for u in (-26, 10):
            pen.arc(name, u, 32, u + 17, 49, start=0, end=360, width=3)
        pen.line(name, 3, (-18, 40), (-8, 30), (12, 30), (18, 40))
        pen.line(name, 3, (12, 30), (14, 25), (19, 25))
    elif name == "horse":
        pen.oval(name, -24, 27, 22, 43)
        for u in (-21, -13, 11, 17):
            pen.rect(name, u, 40, u + 3, 53)
        pen.shape(name, (14, 34), (20, 18), (30, 22), (29, 27), (24, 27), (22, 38))
        pen.rect("white", 24, 22, 24, 22)
        pen.line(name, 2, (-23, 32), (-28, 42))
    elif name == "skateboard":
        pen.rect(name, -25, 47, 25, 50)
        pen.rect("black", -20, 51, -17, 53)
        pen.rect("black", 17, 51, 20, 53)
    elif name in ("dog", "cat"):
        pen.oval(name, -6, -9, 5, -2)
        pen.oval(name, 1, -15, 8, -8)
        for u in (-5, 2):
            pen.rect(name, u, -4, u + 2, 0)
        if name == "dog":
            pen.rect("black", 3, -14, 4, -10)
            pen.line(name, 2, (-6, -7), (-8, -10))
        else:
            pen.shape(name, (2, -12), (2, -18), (5, -14))
            pen.shape(name, (5, -14), (8, -18), (8, -12))
            pen.line(name, 2, (-6, -6), (-8, -16))
    elif name == "ball":
        pen.oval(name, -6, -12, 6, 0)
        pen.line("white", 1, (-5, -6), (5, -6))
    elif name == "box":
        pen.rect(name, -7, -13, 7, 0)
        pen.line("black", 1, (-7, -8), (7, -8))
        pen.line("black", 1, (0, -13), (0, -8))
    elif name == "chair":
        pen.rect(name, -6, -18, -3, 0)
        pen.rect(name, -6, -9, 6, -6)
        pen.rect(name, 4, -9, 6, 0)
    elif name == "bag":
        pen.rect(name, -6, -10, 6, 0)
        pen.arc(name, -4, -16, 4, -6, start=180, end=360, width=2)
        pen.rect("white", -1, -7, 1, -6)
    elif name == "flower":
        pen.line("black", 1, (0, -8), (0, 0))
        for u, v in ((-5, -13), (1, -13), (-2, -17), (-2, -10)):
            pen.oval(name, u, v, u + 4, v + 4)
        pen.rect("white", -1, -12, 1, -10)
    elif name == "guitar":
        pen.oval(name, -5, -9, 5, 0)
        pen.oval(name, -4, -14, 4, -7)
        pen.rect(name, -1, -24, 1, -12)
        pen.rect("black", -1, -8, 1, -6)
    elif name == "rack":
        pen.rect(name, -6, -26, -4, 0)
        pen.rect(name, 4, -26, 6, 0)
        for v in (-26, -18, -10, -3):
            pen.rect(name, -6, v, 6, v + 2)
    elif name == "umbrella":
        pen.draw.pieslice(pen._box(-10, -20, 10, 0), 180, 360, fill=INDEX[name])
        pen.line("black", 1, (0, -10), (0, 10))
    elif name == "smartphone":
        pen.rect(name, -3, -7, 4, 5)
        pen.rect("white", -1, -5, 2, 1)
    elif name == "book":
        pen.shape(name, (-7, -5), (0, -3), (7, -5), (7, 4), (0, 6), (-7, 4))
        pen.line("white", 1, (0, -3), (0, 5))
    elif name == "cup":
        pen.rect(name, -4, -5, 4, 5)
        pen.arc(name, 1, -3, 8, 4, start=270, end=90, width=2)
    elif name == "kite":
        pen.shape(name, (0, -8), (7, 0), (0, 8), (-7, 0))
        pen.line("white", 1, (0, -7), (0, 7))
    elif name == "bird":
        pen.shape(name, (-8, -4), (-2, -1), (0, 2), (2, -1), (8, -4), (4, 3), (0, 6), (-4, 3))
    elif name == "lamp":
        pen.line("black", 1, (0, -12), (0, -4))
        pen.shape(name, (-3, -4), (3, -4), (7, 5), (-7, 5))
    elif name == "clock":
        pen.oval(name, -7, -7, 7, 7)
        pen.line("white", 1, (0, -4), (0, 0), (3, 0))


_LEGS = {"stand": (4, 50), "walk": (7, 50), "run": (10, 48), "jump": (9, 45), "sit": (6, 44), "lay": (4, 50)}


def _draw_lower_half(pen: _Pen, wears: dict[str, str], pose: str, skin: str) -> None:
    """Draw a figure's legs in its skin colour and, by slot, what it `wears` on them."""
    foot, sole = _LEGS[pose]
    upper, lower = wears["upper"], wears["lower"]
    cloth = upper if upper in WHOLE_BODY else lower
    ends = dict.fromkeys(("suit", "uniform", "jeans", "slacks"), sole - 2) | {"shorts": (30 + sole) / 2}
    for side in (-1, 1):

        def draw_leg(colour: str, end: float, side: int = side) -> None:
            """Draw the leg of one side from the hip to the height `end`."""
            u = side * (3 + (foot - 3) * (end - 28) / (sole - 28))
            pen.shape(colour, (side * 3 - 3, 28), (side * 3 + 2, 28), (u + 2, end), (u - 3, end))

        draw_leg(skin, sole)
        if cloth in ends:
            draw_leg(cloth, ends[cloth])
        elif upper != "dress" and lower != "skirt":
            draw_leg("plain_bottom", sole - 4)
    if lower == "shorts":
        pen.rect("shorts", -6, 27, 5, 33)
    elif lower == "skirt" and upper not in WHOLE_BODY:
        pen.shape("skirt", (-6, 27), (5, 27), (10, 41), (-11, 41))


def _draw_feet(pen: _Pen, wears: dict[str, str], pose: str) -> None:
    """Draw a figure's shoes: boots, slippers or plain ones."""
    foot, sole = _LEGS[pose]
    for side in (-1, 1):
        u = side * foot
        if wears["feet"] == "boots":
            pen.rect("boots", u - 4, sole - 8, u + 3, sole)
        elif wears["feet"] == "slippers":
            pen.rect("slippers", u - 4, sole - 3, u + 4, sole)
        else:
            pen.rect("plain_shoe", u - 3, sole - 2, u + 3, sole)


def _draw_upper_half(pen: _Pen, wears: dict[str, str], skin: str, raised: str | None) -> None:
    """Draw a figure's torso, arms and hands, dressed; `raised` is the side of a raised hand, or None."""
    upper = wears["upper"]
    cloth = "plain_top" if upper == "none" else upper
    for side in (-1, 1):
        name = "left" if side < 0 else "right"
        hand = (side * 13, 12) if raised == name else (side * 12, 27)
        pen.line(cloth, 5, (side * 6, 15), hand)
        if wears["hands"] == "gloves":
            pen.rect("gloves", hand[0] - 3, hand[1] - 2, hand[0] + 3, hand[1] + 4)
        else:
            pen.rect(skin, hand[0] - 2, hand[1] - 1, hand[0] + 2, hand[1] + 2)
    pen.rect(cloth, -7, 13, 6, 28)
    if upper == "dress":
        pen.shape(cloth, (-7, 24), (6, 24), (12, 43), (-13, 43))
        pen.rect("white", -7, 24, 6, 24)
    elif upper == "suit":
        pen.shape("white", (-3, 13), (2, 13), (0, 21))
    elif upper == "shirt":
        for v in (16, 20, 24):
            pen.rect("white", 4, v, 4, v)
    elif upper == "uniform":
        pen.rect("black", -7, 25, 6, 26)
        pen.rect("white", 3, 16, 4, 17)
    elif upper == "jacket":
        pen.rect("plain_top", -3, 13, 2, 28)
    if wears["neck"] == "tie":
        pen.rect("tie", -2, 13, 1, 15)
        pen.rect("tie", -2, 16, 1, 25)


def _draw_head(pen: _Pen, wears: dict[str, str], skin: str, hair: str, long_hair: bool) -> None:
    """Draw a figure's hair, face, mask and hat, in palette colours named `skin` and `hair`."""
    if long_hair:
        pen.rect(hair, -8, 2, 7, 14)
    pen.oval(hair, -8, -2, 7, 12)
    pen.oval(skin, -6, 1, 5, 13)
    pen.rect("black", -3, 5, -2, 6)
    pen.rect("black", 2, 5, 3, 6)
    if wears["face"] == "mask":
        pen.rect("mask", -5, 8, 4, 12)
    if wears["head"] == "hat":
        pen.rect("hat", -10, 0, 9, 2)
        pen.rect("hat", -6, -5, 5, 0)


def draw(scene: Scene, figures: bool = True) -> np.ndarray:
    """Return the picture of a scene, with or without its figures, as palette indices, uint8 ``(64, 64)``.

    :func:`probes.toyworld.palette.paint` gives the colours, and ``draw(scene) == INDEX[name]`` the exact mask of what
    is seen of a thing's own colour.
    """
    image = Image.new("L", (SIZE, SIZE))
    canvas = ImageDraw.Draw(image)
    skin_index, hair_index, long_hair, dx, dy = scene.looks
    skin, hair = f"skin_{skin_index + 1}", f"hair_{hair_index + 1}"
    lying = scene.pose == "lay"
    _draw_background(canvas, scene.place)
    by_slot = {load_world().objects[name]["at"]: (name, side) for name, side in scene.objects.items()}

    def draw_at(slot: str, left: int, right: int, y: int) -> None:
        """Draw the scene's object in a slot, such as ``sky``, if any, at x = `left` or `right` by its side."""
        if slot in by_slot:
            name, side = by_slot[slot]
            _draw_object(_Pen(canvas, left if side == "left" else right, y + dy - 1), name)

    draw_at("wide", 32, 32, 9)
    draw_at("sky", 9, 54, 12)
    centre = 32 + dx - 1
    raised = by_slot["held"][1] if "held" in by_slot else None
    lift = {"jump": -2, "sit": 4}.get(scene.pose, 0) - (4 if "wide" in by_slot and not lying else 0)
    places = [(centre - 11, -1), (centre + 11, 1)] if scene.plural else [(centre, 0)]
    for x, sign in places if figures else ():
        corner = (7 + dx, 42 + dy) if lying else (x, 11 + lift + dy - 1)
        pen = _Pen(canvas, *corner, lying)
        lifted = raised if sign == 0 or (sign > 0) == (raised == "right") else None
        _draw_lower_half(pen, scene.wears, scene.pose, skin)
        _draw_upper_half(pen, scene.wears, skin, lifted)
        _draw_feet(pen, scene.wears, scene.pose)
        _draw_head(pen, scene.wears, skin, hair, bool(long_hair))
    spread = 6 if scene.plural else 0
    draw_at("held", 15 - spread + dx - 1, 49 + spread + dx - 1, 20 if lying else 22)
    draw_at("ground", 9, 54, 29 if lying else 61)
    return np.asarray(image).copy()


@cache
def sprite(name: str) -> np.ndarray:
    """Return a small object's drawing, cropped, as palette indices, uint8 ``(h, w)``, with `BLANK` around it."""
    image = Image.new("L", (SIZE, SIZE), BLANK)
    _draw_object(_Pen(ImageDraw.Draw(image), SIZE // 2, SIZE // 2), name)
    pixels = np.asarray(image)
    rows, columns = (np.flatnonzero((pixels != BLANK).any(axis)) for axis in (1, 0))
    return pixels[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1].copy()


def render(scene: Scene) -> np.ndarray:
    """Return the picture of a scene as RGB, uint8 ``(64, 64, 3)``."""
    return paint(draw(scene))
