"""Images: files of them, their pixels as a viewer shows them, what is at fault with some, and masks.

Images at fault are recorded, counted and left out of every mean: each comparison with one is undefined, in every space,
and the other images of its triplet stay. One whose numbers overflowed has no pixels, one that a safety checker replaced
shows what the checker put there, and one of a single color all over is what either leaves behind elsewhere.

Masks are stored as COCO's compressed run lengths; ``objects/`` holds their counts as text.
"""

from __future__ import annotations

import contextlib
import io
import re
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from PIL import Image, ImageOps
from pycocotools import mask as coco

from probes.paths import require_regular

if TYPE_CHECKING:
    import torch

# the formats of pictures; Pillow knows more, and has Ghostscript run what an EPS says
FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "AVIF", "JPEG2000", "PPM")
KINDS = ("PNG", "JPEG", "WebP", "GIF", "BMP", "TIFF", "AVIF")  # the usual ones, as messages name them
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
_ORIENTATION, _SIDEWAYS = 0x0112, (5, 6, 7, 8)  # of EXIF: which way up a camera was held


def read_image(data: bytes | None) -> Image.Image:
    """Return an image file's bytes as an RGB image, rotated as its EXIF says; ValueError if it cannot be read.

    Of several frames it is the first, of 16 bits of gray the 8 upper ones; alpha is dropped.
    """
    with _open_image(data) as image:
        image.load()
        if image.mode.startswith("I;16") or (image.mode == "I" and image.format == "PNG"):
            grey = (np.asarray(image).astype(np.uint32) >> 8).astype(np.uint8)
            return Image.fromarray(grey).convert("RGB")
        if image.mode in ("I", "F"):
            raise ValueError(f"expected 8 or 16 bits a channel, got 32 (mode {image.mode})")
        # what a camera says of itself may be damaged where its picture is not
        with contextlib.suppress(Exception):
            image = ImageOps.exif_transpose(image)
        return image.convert("RGB")


def find_images(folder: Path) -> tuple[list[Path], list[Path]]:
    """Return the image files (by content) below a folder, and the other files, both sorted, without hidden ones."""
    files = sorted(
        file
        for file in folder.rglob("[!.]*")
        if not require_regular(file).is_dir()
        and not any(part.startswith(".") for part in file.relative_to(folder).parts)
    )
    images = [file for file in files if read_header(file)[0]]
    return images, sorted({*files} - {*images})


def skipped_files_note(folder: Path, skipped: Sequence[Path]) -> str:
    """Return a line that counts a folder's `skipped` files (no images) and names the first five; empty if none."""
    shown = ", ".join(file.relative_to(folder).as_posix() for file in skipped[:5])
    more = f" and {len(skipped) - 5} more" if len(skipped) > 5 else ""
    what = f"no {', '.join(KINDS[:-1])} or {KINDS[-1]} image by content"
    return f"{folder}: {len(skipped)} not read, {what}: {shown}{more}" if skipped else ""


def read_header(data: bytes | Path) -> tuple[str, tuple[int, int] | None]:
    """Return an image's format in lower case and its (width, height) after rotation; ("", None) if it is no image."""
    try:
        with _open_image(data, limit=None) as image:
            width, height = image.size
            kind = (image.format or "").lower()
            with contextlib.suppress(Exception):  # as above
                if kind != "tiff" and image.getexif().get(_ORIENTATION) in _SIDEWAYS:
                    width, height = height, width
            return kind, (width, height)
    except ValueError:
        return "", None


@contextlib.contextmanager
def _open_image(data: bytes | Path | None, limit: int | None = PIXELS) -> Iterator[Image.Image]:
    """Yield an open image of one of `FORMATS`; any failure, also too many pixels, is a ValueError, never a warning."""
    if not data:
        raise ValueError("no bytes are stored")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            Image.init()
            formats = [name for name in FORMATS if name in Image.OPEN]  # not every Pillow is built with each
            with Image.open(io.BytesIO(data) if isinstance(data, bytes) else data, formats=formats) as image:
                if limit and image.width * image.height > limit:
                    raise ValueError(f"expected at most {limit:,} pixels, got {image.width} x {image.height}")
                yield image
    except Exception as error:  # of damaged and of hostile images Pillow raises errors of every kind
        # the address of the stream that Pillow names differs from run to run
        text = re.sub(r" <_io\.BytesIO object at 0x[0-9a-f]+>", "", str(error))
        raise ValueError(text.splitlines()[0][:120] if text else type(error).__name__) from error


def fault_reason(fault: str) -> str:
    """Return the reason that tables give for leaving out an image with a fault such as "black"."""
    return f"image left out: {WHY.get(fault, fault)}"


def fault_of_size(width: int, height: int) -> str | None:
    """Return the fault "size" if an image is too small, too elongated or too large, else None."""
    short, long = sorted((width, height))
    return SIZE if short < SIDE or long > RATIO * short or width * height > PIXELS else None


def fault_of_pixels(pixels: NDArray[np.uint8]) -> str | None:
    """Return the fault of pixels (height, width, 3) that are all black or all of one color, else None."""
    if not pixels.any():
        return BLACK
    return BLANK if (pixels == pixels[0, 0]).all() else None


def find_faults(
    images: NDArray[np.floating], latents: torch.Tensor | None = None, flagged: Sequence[bool] | None = None
) -> list[str | None]:
    """Return for each image of a batch its fault (not finite, replaced by a safety checker, one color) or None.

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
    """Return a float image in [0, 1] scaled to 0 to 255 and rounded, as diffusers does."""
    return (np.asarray(image) * 255).round().astype(np.uint8)


def fault_counts(faults: Sequence[str | None]) -> dict[str, int]:
    """Return the number of images with each fault in a list of faults (None: no fault), in the order of `WHY`."""
    return {fault: faults.count(fault) for fault in WHY if fault in faults}


def faults_line(counts: dict[str, int], images: int, sample_ids: Sequence[str] = ()) -> str:
    """Return a line that counts the images left out of means, by fault, and names the first five of `sample_ids`."""
    each = ", ".join(f"{fault}: {n}" for fault, n in counts.items())
    total = sum(counts.values())
    left_out = "is left out" if total == 1 else "are left out"
    which = ", ".join(sample_ids[:NAMED]) + (", ..." if len(sample_ids) > NAMED else "")
    where = f"see the column `fault` of samples/{f' ({which})' if which else ''}"
    return f"{total} of {images} images {left_out} of every mean ({each}): {where}"


def run_lengths(mask: ArrayLike) -> dict[str, Any]:
    """Return a (height, width) bool mask as a run-length dict of pycocotools: ``size`` and compressed ``counts``."""
    return coco.encode(np.asfortranarray(mask, dtype=np.uint8))


def encode_mask(mask: np.ndarray) -> str:
    """Return a (height, width) bool mask as text: the counts of COCO's compressed run lengths."""
    return run_lengths(mask)["counts"].decode("ascii")


def decode_mask(counts: str, height: int, width: int) -> np.ndarray:
    """Return the (height, width) bool mask of a text of `encode_mask`; the sum of its run lengths is not checked."""
    return coco.decode({"counts": counts.encode("ascii"), "size": [height, width]}).astype(bool)
