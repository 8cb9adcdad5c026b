"""``observe: {skin_tone: ...}`` of ``triplets.yaml``: whether and how skin tones are read from images."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import Field, model_validator

from probes.config.types import Model, Section, fail, shown

LIGHTS = ("A", "B", "C", "D50", "D55", "D65", "D75", "E", "F2", "F11")
_COLOUR = re.compile(r"#(?!00)[0-9a-fA-F]{2}(?!00)[0-9a-fA-F]{2}(?!00)[0-9a-fA-F]{2}")


class SkinTone(Section):
    """Options for reading skin tones from images (DALL-Eval, Cho et al. 2023, section 4.2.3).

    ``look``: ``auto`` looks in an audit of professions, where the ``region`` can be had; true always, and says what is
    missing; false never. The ``region`` is the skin of toyworld's figures by their palette (``toyworld``), of the
    largest face by the landmarks of the library ``face-alignment`` (`pip install triptych[faces]`; FAN, as in the
    paper), or the whole ``image``; ``auto``: the first on toyworld's models, else the second. Of a face it is its
    ``skin``: the two ``cheeks``, as the paper's mask, or all of the ``face`` less eyes, brows and mouth. ``landmarks``
    and ``detector`` are checkpoint files of that library.

    ``illumination`` sets the colour of the light right before: an estimate from the image (``grey-world``,
    ``shades-of-grey``, ``white-patch``), the light that ``illuminant`` names (``given``; a CIE illuminant such as
    ``A`` or ``D50``, or the colour of a white surface in the images as ``#ffd2a0``), or TRUST's estimate of the albedo
    (``trust``; the folder ``trust`` holds its published files). By ``adaptation`` cone responses (``bradford``) or
    red, green and blue (``channels``) are scaled. ``mean`` of the region is taken of L*a*b* or of linear light. Three
    readings are stored; ``dalleval.tone`` says which the tables show first.
    """

    look: Annotated[Literal["auto"] | bool, Field(description="`auto`, true or false")] = "auto"
    region: Literal["auto", "toyworld", "face-alignment", "image"] = "auto"
    skin: Literal["cheeks", "face"] = "cheeks"
    landmarks: Model = "2DFAN4-11f355bf06.pth.tar"
    detector: Model = "s3fd-619a316812.pth"
    illumination: Literal["none", "grey-world", "shades-of-grey", "white-patch", "given", "trust"] = "none"
    illuminant: str | None = None
    trust: Model | None = None
    adaptation: Literal["bradford", "channels"] = "bradford"
    mean: Literal["lab", "linear"] = "lab"

    @model_validator(mode="after")
    def _consistent(self) -> SkinTone:
        for name, kind in (("illuminant", "given"), ("trust", "trust")):
            value = getattr(self, name)
            if (value is not None) != (self.illumination == kind):
                wanted = "a value" if value is None else "nothing"
                raise fail(
                    f"expected {wanted} with illumination {self.illumination}, got {shown(value)}:"
                    f" name it where `illumination: {kind}` stands, and only there",
                    at=(name,),
                )
        light = self.illuminant
        if light is not None and light not in LIGHTS and not _COLOUR.fullmatch(light):
            raise fail(
                f"expected {', '.join(LIGHTS)} or a colour with some red, green and blue, as #ffd2a0, got"
                f" {shown(light)}: choose one",
                at=("illuminant",),
            )
        if self.illumination == "trust" and self.region in ("toyworld", "image"):
            raise fail(
                f"expected face-alignment with illumination trust, got {self.region}: TRUST takes a face by its"
                " landmarks",
                at=("region",),
            )
        return self
