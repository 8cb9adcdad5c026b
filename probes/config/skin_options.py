"""``observe: {skin_tone: ...}`` of ``triplets.yaml``: whether and how skin tones are read from images."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import model_validator

from probes.fields.types import Model, Section, fail, option, shown, takes

LIGHTS = ("A", "B", "C", "D50", "D55", "D65", "D75", "E", "F2", "F11")
_COLOUR = re.compile(r"#(?!00)[0-9a-fA-F]{2}(?!00)[0-9a-fA-F]{2}(?!00)[0-9a-fA-F]{2}")


class SkinTone(Section):
    """Options for reading skin tones from images (DALL-Eval, Cho et al. 2023, section 4.2.3).

    Three readings are stored; ``dalleval.tone`` says which the tables show first.
    """

    look: Annotated[
        Annotated[Literal["auto"] | bool, takes("`auto`, true or false")], option(example=True)
    ] = "auto"
    """Whether skin tones are read. `auto`: in an audit of professions, where the region can be had; true:
    always, and says what is missing."""
    region: Literal["auto", "toyworld", "face-alignment", "image"] = "auto"
    """Which pixels are skin: those of toyworld's figures by their palette (`toyworld`), the cheeks of the largest
    face by the library face-alignment (pip install 'triptych[faces]'), or the whole `image`. `auto`: the first
    on toyworld's models, else the second."""
    landmarks: Annotated[Model, option(example="weights/2DFAN4-11f355bf06.pth.tar")] = (
        "2DFAN4-11f355bf06.pth.tar"
    )
    """Checkpoint of face-alignment that finds landmarks (FAN)."""
    detector: Annotated[Model, option(example="weights/s3fd-619a316812.pth")] = "s3fd-619a316812.pth"
    """Checkpoint of face-alignment that finds faces (S3FD)."""
    illumination: Literal["none", "grey-world", "shades-of-grey", "white-patch", "given", "trust"] = "none"
    """How the colour of the light is set right before a tone is read: not at all (`none`), by an estimate from
    the image, by the light that `illuminant` names (`given`), or by TRUST's estimate of the albedo (`trust`).
    Coloured light moves tones; compare two settings before you report any."""
    illuminant: Annotated[str | None, option(null="none", example="#ffd2a0")] = None
    """The light, with `illumination: given`: a CIE illuminant such as A or D50, or the colour of a white
    surface in the images."""
    trust: Annotated[Model | None, option(null="none", example="weights/trust")] = None
    """Folder of TRUST's published files, with `illumination: trust`."""
    adaptation: Literal["bradford", "channels"] = "bradford"
    """What is scaled to take the light's colour out: cone responses (`bradford`), or red, green and blue."""
    mean: Literal["lab", "linear"] = "lab"
    """Whether the region's mean is taken of L*a*b* or of linear light."""

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
