"""Colour of a picture's light, and the picture under daylight.

Light multiplies, so everything here is done in linear light. An estimate from the picture alone is a guess about what
the picture shows: that it is grey on average (grey world, Buchsbaum 1980), that its brightest place is white (white
patch, Land and McCann 1971), or something between them (shades of grey, Finlayson and Trezzi 2004). None of them knows
how much light there is, only its colour.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from skimage.color import rgb2xyz, xyz2rgb, xyz_tristimulus_values

from analysis.metrics.skin_tone import unit_colours

VERSION = "illumination/1"
Adaptation = Literal["bradford", "channels"]
Estimate = Literal["grey-world", "shades-of-grey", "white-patch"]
# Minkowski norm of each; Finlayson and Trezzi find 6 best
ORDERS: dict[str, float] = {"grey-world": 1.0, "shades-of-grey": 6.0, "white-patch": np.inf}
ESTIMATES: tuple[Estimate, ...] = get_args(Estimate)
# Chromaticities x, y of fluorescent lamps, 2° observer (CIE 15:2004, table T.6); the others are scikit-image's
FLUORESCENT = {"F2": (0.37208, 0.37529), "F11": (0.38052, 0.37713)}
# From XYZ to the cone responses of the Bradford transform (Lam 1985; CIECAM97s)
BRADFORD = np.array([[0.8951, 0.2664, -0.1614], [-0.7502, 1.7135, 0.0367], [0.0389, -0.0685, 1.0296]])
DAYLIGHT = rgb2xyz(np.ones(3))
_CHANNELS = {"bradford": BRADFORD, "channels": np.linalg.inv(rgb2xyz(np.eye(3)).T)}


def white_of(illuminant: str) -> NDArray[np.float64]:
    """XYZ of a white surface in a picture taken under a light, ``(3,)``; D65 white is Y = 1.

    `illuminant` is a CIE illuminant (``A``, ``D50`` and others that scikit-image knows, or one of `FLUORESCENT`), in a
    picture as bright as it can be without cutting off white; or the colour of a white surface in the picture, as
    ``#ffd2a0``, with some of each channel.

    >>> white_of("#ffffff").round(3).tolist(), white_of("A").round(3).tolist()
    ([0.95, 1.0, 1.089], [0.595, 0.542, 0.193])
    """
    if illuminant.startswith("#"):
        return rgb2xyz(np.array(list(bytes.fromhex(illuminant[1:]))) / 255.0)
    if illuminant in FLUORESCENT:
        x, y = FLUORESCENT[illuminant]
        white = np.array([x, y, 1 - x - y]) / y
    else:
        white = np.array(xyz_tristimulus_values(illuminant=illuminant, observer="2"), np.float64)
    return white / (_CHANNELS["channels"] @ white).max()


def estimated_white(image: ArrayLike, method: Estimate) -> NDArray[np.float64] | None:
    """XYZ of a white surface of the same luminance as D65's, in the light of a picture; None where it is black.

    From the Minkowski mean of the light of each channel, of order 1, 6, or infinity (the largest value).
    """
    light = np.maximum(rgb2xyz(unit_colours(image)) @ _CHANNELS["channels"].T, 0).reshape(-1, 3)
    order = ORDERS[method]
    means = light.max(0) if np.isinf(order) else (light**order).mean(0) ** (1 / order)
    if not (means > 0).all():
        return None
    white = np.linalg.inv(_CHANNELS["channels"]) @ means
    return white / white[1]


def adapted(
    pixels: ArrayLike,
    source: NDArray[np.float64],
    target: NDArray[np.float64] = DAYLIGHT,
    adaptation: Adaptation = "bradford",
) -> NDArray[np.float64]:
    """Colours, ``(..., 3)`` sRGB from 0 to 1, as they would be if `source`, the XYZ of a white, were `target`.

    Von Kries' scaling, of the cone responses of Bradford, or of linear red, green and blue as a camera's white balance
    does; what lies beyond is cut off.
    """
    responses = _CHANNELS[adaptation]
    scale = np.diag((responses @ target) / (responses @ source))
    return xyz2rgb(rgb2xyz(unit_colours(pixels)) @ (np.linalg.inv(responses) @ scale @ responses).T)
