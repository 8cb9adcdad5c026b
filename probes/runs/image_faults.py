"""Images that are no picture of their prompt: they are recorded, counted and left out of every mean.

An image whose numbers overflowed has none, one that a safety checker replaced shows what the checker put there, and one
that is black or of another single color all over is what either of them leaves behind elsewhere. Of images that another
program drew the pixels alone can tell, and some cannot be read. What is compared with such an image says something of
the fault and nothing of the words; so each comparison with it is undefined, in every space, and the other images
of its triplet stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch

NAN, FILTERED, UNREADABLE, SIZE, BLACK, BLANK = "nan", "filtered", "unreadable", "size", "black", "blank"
PIXELS = 1 << 26  # of an image, at most: 8192 x 8192
# The window of SSIM is of 7 pixels, and a detector that is given the shape 8:1 finds fewer places than it looks for.
SIDE, RATIO = 7, 6
NAMED = 5  # images, in the line about them
WHY = {
    NAN: "its latents or pixels are no finite numbers",
    FILTERED: "a safety checker replaced it",
    UNREADABLE: "it cannot be read",
    SIZE: f"it has fewer than {SIDE} pixels to a side, or over {RATIO} times as many to the other, or over 2^26 in all",
    BLACK: "every pixel of it is black",
    BLANK: "every pixel of it has the same color",
}


def reason(fault: str) -> str:
    """Return why an image is left out, as tables give it; of a fault that is not known, its name."""
    return f"image left out: {WHY.get(fault, fault)}"


def fault_of_size(width: int, height: int) -> str | None:
    """Return what is at fault with an image by its size alone; None where nothing is."""
    short, long = sorted((width, height))
    return SIZE if short < SIDE or long > RATIO * short or width * height > PIXELS else None


def fault_of_pixels(pixels: NDArray[np.uint8]) -> str | None:
    """Return what is at fault with an image ``(height, width, 3)`` by its pixels alone; None where nothing is."""
    if not pixels.any():
        return BLACK
    return BLANK if (pixels == pixels[0, 0]).all() else None


def faults(
    images: NDArray[np.floating], latents: torch.Tensor | None = None, flagged: Sequence[bool] | None = None
) -> list[str | None]:
    """Return what is at fault with each image of a batch; None where nothing is.

    Images are of shape (n, height, width, 3), in [0, 1]; `latents` as the last step left them; `flagged` says which
    images a safety checker has replaced (``nsfw_content_detected`` of diffusers).
    """
    finite = np.isfinite(images).all(axis=(1, 2, 3))
    if latents is not None:
        finite &= latents.isfinite().flatten(1).all(1).cpu().numpy()
    replaced = np.zeros(len(images), bool) if flagged is None else np.asarray(flagged, bool)
    return [
        NAN if not fine else FILTERED if was_replaced else fault_of_pixels(eight_bits(image))
        for image, fine, was_replaced in zip(images, finite, replaced)
    ]


def eight_bits(image: NDArray[np.floating]) -> NDArray[np.uint8]:
    """Return an image in [0, 1] rounded to 8 bits, as diffusers does."""
    return (np.asarray(image) * 255).round().astype(np.uint8)


def counts(faults: Sequence[str | None]) -> dict[str, int]:
    """Return how often each fault occurs, in the order of `WHY`; nothing where there is none."""
    recorded: list[Any] = [fault for fault in faults if fault]
    return {fault: recorded.count(fault) for fault in dict.fromkeys([*WHY, *recorded]) if fault in recorded}


def sentence(number: dict[str, int], images: int, named: Sequence[str] = ()) -> str:
    """Return what the command line says of a run with images at fault, the first of which it names."""
    each = ", ".join(f"{fault}: {n}" for fault, n in number.items())
    total = sum(number.values())
    left_out = "is left out" if total == 1 else "are left out"
    which = ", ".join(named[:NAMED]) + (", ..." if len(named) > NAMED else "")
    where = f"see the column `fault` of samples/{f' ({which})' if which else ''}"
    return f"{total} of {images} images {left_out} of every mean ({each}): {where}"
