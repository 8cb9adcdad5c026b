"""Nearest of the ten Monk tones to a region of skin: colours in, tones out.

DALL-Eval (Cho, Zala and Bansal 2023, section 4.2.3) takes the individual typology angle of the CIE L*a*b* colour of a
face and the nearest of the ten tones of the Monk Skin Tone scale. Here the colour is float L*a*b* under D65; what the
code published with the paper reads instead, 8-bit values of swapped channels, is `dalleval2023`, so that its saturation
can be shown. A tone is the nearest of ten printed colours, and nothing more is said of whoever is drawn.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from skimage.color import deltaE_ciede2000, rgb2lab, rgb2xyz, xyz2lab

VERSION = "skin-tone/2"
# Monk Skin Tone scale, tones 1 to 10 (Monk, 2019; published by Google 2022, skintone.google, CC BY 4.0)
MONK = (
    *("#f6ede4", "#f3e7db", "#f7ead0", "#eadaba", "#d7bd96"),
    *("#a07e56", "#825c43", "#604134", "#3a312a", "#292420"),
)
Mean = Literal["lab", "linear"]
NO_PIXELS = "no pixels of skin"
NO_ANGLE = "no typology angle"  # how the reason begins of a colour that has none and other rules read
GREY = "grey"  # how the reason begins of a picture or a region that has no colour, and no tone by any rule
# a* and b* of grey reach 0.005, since the matrix of sRGB is rounded
_GREY = 0.02
# red, green and blue of a grey pixel differ by what compression leaves: levels of 255, or a share of the brightest one.
# The ten tones differ by 9 levels at least, and by 7 % of the brightest.
_GREY_LEVELS, _GREY_SHARE, _GREY_PIXELS = 3, 0.03, 0.99


@dataclass(frozen=True)
class MeasuredTone:
    """The colour of a region of skin, and the Monk tone nearest to it by each rule.

    Attributes
    ----------
    pixels : int
        Of the region.
    lab : tuple of float
        Mean L* (0 to 100), a* and b*, D65; NaN of an empty region.
    ita : float
        Individual typology angle in degrees, from 90 (light) to -90 (dark); NaN where it is undefined.
    tone, tone_ciede2000, tone_dalleval2023 : int or None
        1 to 10, nearest by angle, by colour difference, and as the code of the paper reads it; None where it is
        undefined.
    reason : str
        Why the angle is NaN; empty where it is not. Of a grey region no rule reads a tone.
    """

    pixels: int
    lab: tuple[float, float, float]
    ita: float
    tone: int | None
    tone_ciede2000: int | None
    tone_dalleval2023: int | None
    reason: str = ""


def monk_colours() -> NDArray[np.uint8]:
    """The ten colours, ``(10, 3)`` 8-bit sRGB, tone 1 first."""
    return np.array([list(bytes.fromhex(colour[1:])) for colour in MONK], np.uint8)


def lab_colours(pixels: ArrayLike) -> NDArray[np.float64]:
    """CIE L*a*b* under D65 (2° observer) of sRGB colours ``(..., 3)``, 8-bit or floats from 0 to 1."""
    return rgb2lab(unit_colours(pixels))


def unit_colours(pixels: ArrayLike) -> NDArray[np.float64]:
    """Colours as floats from 0 to 1."""
    values = np.asarray(pixels)
    if values.shape[-1:] != (3,):
        raise ValueError(f"expected colours of three channels, got shape {values.shape}")
    return values / 255.0 if np.issubdtype(values.dtype, np.integer) else values.astype(np.float64)


def is_grey(pixels: ArrayLike) -> bool:
    """Return whether a picture is grey: 99 % of its pixels have no colour beyond what compression leaves.

    Red, green and blue differ there by at most 3 levels of 255, or 3 % of the brightest. A grey picture shows how
    bright a face is and not which colour: no tone can be read of it. A tinted one (sepia) is not told from one in
    colour.
    """
    levels = 255 * unit_colours(pixels).reshape(-1, 3)
    if not len(levels):
        return False
    brightest = levels.max(axis=1)
    apart = brightest - levels.min(axis=1)
    return bool((apart <= np.maximum(_GREY_LEVELS, _GREY_SHARE * brightest)).mean() >= _GREY_PIXELS)


def mean_colour(pixels: ArrayLike, mean: Mean = "lab") -> NDArray[np.float64]:
    """Mean colour of pixels ``(n, 3)``: ``(3,)`` L*a*b*; NaN where there are none.

    Of L*a*b* values, or of light (linear sRGB), as one large pixel would see the region. L*a*b* is the default because
    shine on a forehead, little but bright, pulls a mean of light much further from the skin around it.
    """
    values = unit_colours(pixels)
    if not len(values):
        return np.full(3, np.nan)
    if mean == "linear":
        return xyz2lab(rgb2xyz(values).mean(0))
    return rgb2lab(values).mean(0)


def typology_angle(lab: ArrayLike) -> NDArray[np.float64]:
    """Individual typology angle: ``atan2(L* - 50, b*)`` in degrees (Chardon, Cretois and Hourseau 1991).

    Of ``(..., 3)`` L*a*b*: between -90 (dark) and 90 (light). NaN where b* is not above 0 (by 0.02, more than the
    rounding of sRGB's matrix gives grey): grey, black and bluish colours have no angle.
    """
    values = np.asarray(lab, dtype=np.float64)
    lightness, yellow = values[..., 0], values[..., 2]
    return np.where(yellow > _GREY, np.degrees(np.arctan2(lightness - 50, yellow)), np.nan)


def nearest_by_angle(angle: ArrayLike) -> NDArray[np.float64]:
    """Monk tone whose angle is nearest, 1 to 10 (of two as near the lighter one); NaN where the angle is."""
    return _nearest(np.abs(np.asarray(angle, np.float64)[..., None] - typology_angle(_monk_lab())))


def nearest_by_difference(lab: ArrayLike) -> NDArray[np.float64]:
    """Monk tone of the smallest colour difference CIEDE2000 (CIE 142-2001), 1 to 10; NaN where the colour is."""
    both = np.broadcast_arrays(np.asarray(lab, np.float64)[..., None, :], _monk_lab())
    return _nearest(deltaE_ciede2000(*both))


def _monk_lab() -> NDArray[np.float64]:
    return lab_colours(monk_colours())


def _nearest(distances: NDArray[np.float64]) -> NDArray[np.float64]:
    """Number of the smallest along the last axis, from 1; NaN where any is NaN."""
    undefined = np.isnan(distances).any(-1)
    return np.where(undefined, np.nan, 1.0 + np.where(undefined[..., None], 0, distances).argmin(-1))


def dalleval2023_angle(pixels: ArrayLike) -> float:
    """Angle that the code published with DALL-Eval reads from pixels ``(n, 3)``, in degrees; NaN where it reads none.

    The code gives the blue, green and red channels to OpenCV's conversion as red, green and blue, and takes the 8-bit
    L* (255 for 100) and b* (with 128 added to it) that come back as they are: ``arctan((L - 50) / b)``, averaged over
    the pixels; those that are black are left out. It was written for NumPy 1, whose integers of a pixel grow; NumPy 2
    keeps 8 bits, in which 36 - 50 is 242. Floats are rounded to 8 bits.

    >>> round(dalleval2023_angle(monk_colours()[:1]), 2)
    56.81
    """
    import cv2  # when colours are read: reading tables does without

    levels = np.clip(np.rint(unit_colours(pixels) * 255), 0, 255).astype(np.uint8)
    if not levels.any():
        return float("nan")
    values = cv2.cvtColor(np.ascontiguousarray(levels[None, :, ::-1]), cv2.COLOR_RGB2LAB)[0].astype(np.int64)
    values = values[(values != (0, 128, 128)).any(-1)]
    if not len(values):
        return float("nan")
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.degrees(np.arctan((values[:, 0] - 50) / values[:, 2])).mean())


def read_skin(pixels: ArrayLike, mean: Mean = "lab") -> MeasuredTone:
    """Colour and tone of a region of skin by each rule.

    Parameters
    ----------
    pixels : array_like
        ``(n, 3)``: its pixels, 8-bit sRGB or floats from 0 to 1.
    mean : {"lab", "linear"}
        As of `mean_colour`; `tone_dalleval2023` averages angles whatever it is.

    Examples
    --------
    >>> tones = [read_skin([colour]) for colour in monk_colours()]
    >>> [tone.tone for tone in tones]
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
    >>> [tone.tone_dalleval2023 for tone in tones]
    [5, 5, 5, 5, 5, 5, 6, 6, 6, 7]
    >>> grey = read_skin(np.full((4, 3), 128, np.uint8))
    >>> grey.tone_ciede2000 is None, grey.reason
    (True, 'grey: a* and b* are 0')
    """
    values = np.asarray(pixels).reshape(-1, 3)
    lab = mean_colour(values, mean)
    angle = typology_angle(lab)
    tones, reason = [np.nan] * 3, ""
    if np.isnan(lab).any():
        reason = NO_PIXELS
    elif np.hypot(lab[1], lab[2]) <= _GREY:
        reason = f"{GREY}: a* and b* are 0"
    else:
        rules = (
            nearest_by_angle(angle),
            nearest_by_difference(lab),
            nearest_by_angle(dalleval2023_angle(values)),
        )
        tones = [float(tone) for tone in rules]
        reason = "" if lab[2] > _GREY else f"{NO_ANGLE}: b* is {lab[2]:.1f}, not above 0"
    first, second, third = (None if np.isnan(tone) else int(tone) for tone in tones)
    return MeasuredTone(len(values), tuple(lab.tolist()), float(angle), first, second, third, reason)
