"""Image files: which of a folder are images, their format and size, and their pixels as a viewer shows them."""

from __future__ import annotations

import contextlib
import io
import re
import warnings
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

from probes.paths import require_regular
from probes.runs.image_faults import PIXELS

# the formats of pictures; Pillow knows more, and has Ghostscript run what an EPS says
FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "AVIF", "JPEG2000", "PPM")
KINDS = ("PNG", "JPEG", "WebP", "GIF", "BMP", "TIFF", "AVIF")  # the usual ones, as messages name them
_ORIENTATION, _SIDEWAYS = 0x0112, (5, 6, 7, 8)  # of EXIF: which way up a camera was held


def read_image(data: bytes | None) -> Image.Image:
    """Decode a stored image, RGB, as a viewer shows it: the right way up, of several frames the first, without alpha.

    16 bits of grey are taken as the 8 upper ones.
    """
    with _opened(data) as image:
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
    """Return the files below a folder that are images by their content, whatever their endings, and the others.

    Both are sorted; hidden files are in neither.
    """
    files = sorted(
        file
        for file in folder.rglob("[!.]*")
        if not require_regular(file).is_dir()
        and not any(part.startswith(".") for part in file.relative_to(folder).parts)
    )
    images = {file for file in files if read_header(file)[0]}
    return [file for file in files if file in images], [file for file in files if file not in images]


def unread_note(folder: Path, files: Sequence[Path]) -> str:
    """Return the line on files of a folder that are no images; empty where there are none."""
    shown = ", ".join(file.relative_to(folder).as_posix() for file in files[:5])
    more = f" and {len(files) - 5} more" if len(files) > 5 else ""
    what = f"no {', '.join(KINDS[:-1])} or {KINDS[-1]} image by content"
    return f"{folder}: {len(files)} not read, {what}: {shown}{more}" if files else ""


def read_header(data: bytes | Path) -> tuple[str, tuple[int, int] | None]:
    """Return format and size, width and height as `read_image` gives them, of an image by its first bytes.

    Nothing of what is no image.
    """
    try:
        with _opened(data, most=None) as image:
            width, height = image.size
            kind = (image.format or "").lower()
            with contextlib.suppress(Exception):  # as above
                if kind != "tiff" and image.getexif().get(_ORIENTATION) in _SIDEWAYS:
                    width, height = height, width
            return kind, (width, height)
    except ValueError:
        return "", None


@contextlib.contextmanager
def _opened(data: bytes | Path | None, most: int | None = PIXELS) -> Iterator[Image.Image]:
    """An image of one of `FORMATS`; whatever Pillow says of it is one kind of error, and no warning."""
    if not data:
        raise ValueError("no bytes are stored")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            file = io.BytesIO(data) if isinstance(data, bytes) else data
            with Image.open(file, formats=_formats()) as image:
                if most and image.width * image.height > most:
                    raise ValueError(f"expected at most {most:,} pixels, got {image.width} x {image.height}")
                yield image
    except Exception as error:  # of damaged and of hostile images Pillow raises errors of every kind
        # the address of the stream that Pillow names differs from run to run
        text = re.sub(r" <_io\.BytesIO object at 0x[0-9a-f]+>", "", str(error))
        raise ValueError(text.splitlines()[0][:120] if text else type(error).__name__) from error


@cache
def _formats() -> tuple[str, ...]:
    Image.init()
    return tuple(name for name in FORMATS if name in Image.OPEN)  # not every Pillow is built with each
