"""Images that are no picture of their prompt: they are recorded, counted and left out of every mean.

An image whose numbers overflowed has none, one that a safety checker replaced shows what the checker put there, and one
that is black all over is what either of them leaves behind elsewhere. What is compared with such an image says
something of the fault and nothing of the words; so each comparison with it is undefined, in every space alike, and the
other images of its triplet stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch

NAN, FILTERED, BLACK = "nan", "filtered", "black"
WHY = {
    NAN: "its latents or pixels are no finite numbers",
    FILTERED: "a safety checker replaced it",
    BLACK: "every pixel of it is black",
}


def reason(fault: str) -> str:
    """Return why an image is left out, as tables give it; of a fault that is not known, its name."""
    return f"image left out: {WHY.get(fault, fault)}"


def faults(
    images: NDArray[np.floating], latents: torch.Tensor | None = None, flagged: Sequence[bool] | None = None
) -> list[str | None]:
    """Return what is at fault with each image of a batch; None where nothing is.

    Parameters
    ----------
    images : ndarray, shape (n, height, width, 3)
        In [0, 1].
    latents : torch.Tensor, shape (n, ...), optional
        As the last step left them.
    flagged : sequence of bool, optional
        Which images a safety checker has replaced (``nsfw_content_detected`` of diffusers).

    Examples
    --------
    >>> grey = np.full((4, 2, 2, 3), 0.5)
    >>> grey[1], grey[2, 0, 0] = 0.001, np.nan
    >>> faults(grey, flagged=[False, False, True, True])
    [None, 'black', 'nan', 'filtered']
    """
    finite = np.isfinite(images).all(axis=(1, 2, 3))
    if latents is not None:
        finite &= latents.isfinite().flatten(1).all(1).cpu().numpy()
    replaced = np.zeros(len(images), bool) if flagged is None else np.asarray(flagged, bool)
    lit = (
        np.nan_to_num(images).max(axis=(1, 2, 3)) * 255 >= 0.5
    )  # some pixel is above 0 once rounded to 8 bits
    return [
        NAN if not fine else FILTERED if gone else None if light else BLACK
        for fine, gone, light in zip(finite, replaced, lit)
    ]


def counts(found: Sequence[str | None]) -> dict[str, int]:
    """Return how often each fault occurs, in the order of `WHY`; nothing where there is none.

    Examples
    --------
    >>> counts([None, "black", "nan", "black"])
    {'nan': 1, 'black': 2}
    """
    there: list[Any] = [fault for fault in found if fault]
    return {fault: there.count(fault) for fault in dict.fromkeys([*WHY, *there]) if fault in there}


def sentence(number: dict[str, int], images: int) -> str:
    """Return what the command line says of a run with images at fault.

    Examples
    --------
    >>> sentence({"nan": 1, "black": 2}, 36)
    '3 of 36 images are left out of every mean (nan: 1, black: 2): see the column `fault` of samples/'
    """
    each = ", ".join(f"{fault}: {n}" for fault, n in number.items())
    total = sum(number.values())
    left_out = "is left out" if total == 1 else "are left out"
    return f"{total} of {images} images {left_out} of every mean ({each}): see the column `fault` of samples/"
