"""``observe: {captions: ...}`` of ``triplets.yaml``: whether and by what images are captioned. Imports no torch."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from probes.fields.types import CHARACTERS, Model, Positive, Section, option

CHECKER = "toyworld-checker"  # which is no captioning network


class Captions(Section):
    """Captions of the images (DALL-Eval, Cho et al. 2023, appendix D.1), kept verbatim."""

    model: Annotated[
        Model | None,
        option(null="none, and nothing is captioned", example="Salesforce/blip-image-captioning-base"),
    ] = None
    """The network that captions the images: a folder or a hub id of BLIP or BLIP-2, or `toyworld-checker`,
    which puts into a sentence what it reads exactly."""
    prompt: Annotated[str, Field(max_length=CHARACTERS), option(example="a photo of")] = ""
    """The words from which a caption goes on."""
    beams: Annotated[int, Field(ge=1, le=100), option(unit="captions", example=1)] = 3
    """Captions that are searched at a time (beam search). Fewer are faster."""
    tokens: Annotated[int, Field(ge=1, le=1000), option(unit="tokens", example=50)] = 30
    """Longest caption."""
    batch: Annotated[Positive, option(unit="images", example=2)] = 8
    """Images that the network sees at once. Lower it where memory runs out."""
