"""Images with their objects drawn on them: masks, boxes and labels in the colour of the dependency group."""

from __future__ import annotations

import io
from collections.abc import Sequence

from PIL import Image, ImageDraw, ImageFont

from analysis.export.images import SeenObject
from analysis.metrics.dependency import GROUPS
from probes.runs.coco_masks import decode

SMALLEST, LARGEST = 256, 512  # pixels of the longer side: smaller images are enlarged, larger ones reduced
COLOURS = (
    "#0072b2",
    "#d55e00",
    "#56b4e9",
    "#e69f00",
    "#8a979e",
)  # of GROUPS as in the report, then of no group
_FILL = 100  # of 255: opacity of a mask
_QUALITY = 88
_TEXT = 12  # pixels


def overlay(image: Image.Image, detections: Sequence[SeenObject]) -> Image.Image:
    """Return an image with its objects drawn on it.

    Parameters
    ----------
    image : Image
        RGB.
    detections : sequence of SeenObject
        With boxes and masks in pixels of `image`.

    Returns
    -------
    Image
        RGB, its longer side from `SMALLEST` to `LARGEST` pixels.
    """
    longer = max(image.size)
    scale = max(SMALLEST, min(longer, LARGEST)) / longer
    size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
    how = Image.Resampling.NEAREST if scale > 1 else Image.Resampling.LANCZOS
    drawn = image.convert("RGB").resize(size, how)
    for seen in detections:  # all masks first: no fill covers a label
        mask = Image.fromarray(decode(seen.mask["counts"], *seen.mask["size"])).convert("L")
        fill = mask.resize(size, Image.Resampling.NEAREST).point(lambda value: _FILL if value else 0)
        drawn.paste(Image.new("RGB", size, _colour(seen)), mask=fill)
    pen, font = ImageDraw.Draw(drawn), ImageFont.load_default(_TEXT)
    for seen in detections:
        x, y, width, height = (scale * side for side in seen.box)
        pen.rectangle((x, y, x + width, y + height), outline=_colour(seen), width=2)
    for seen in detections:
        left, top, right, bottom = pen.textbbox((0, 0), seen.lemma, font=font)
        wide, high = right - left + 4, bottom - top + 4
        x = min(max(scale * seen.box[0], 0), max(size[0] - wide, 0))
        y = min(max(scale * seen.box[1], 0), max(size[1] - high, 0))
        pen.rectangle((x, y, x + wide, y + high), fill=_colour(seen))
        pen.text((x + 2 - left, y + 2 - top), seen.lemma, fill="white", font=font)
    return drawn


def overlay_bytes(image: Image.Image, detections: Sequence[SeenObject]) -> bytes:
    """Return `overlay` as JPEG; the same image gives the same bytes."""
    sink = io.BytesIO()
    overlay(image, detections).save(sink, "jpeg", quality=_QUALITY)
    return sink.getvalue()


def _colour(seen: SeenObject) -> str:
    return COLOURS[GROUPS.index(seen.group)] if seen.group in GROUPS else COLOURS[-1]
