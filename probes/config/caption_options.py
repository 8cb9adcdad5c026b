"""``observe: {captions: ...}`` of ``triplets.yaml``: whether and by what images are captioned. Imports no torch."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from probes.config.types import CHARACTERS, Model, Positive, Section

CHECKER = "toyworld-checker"  # which is no captioning network


class Captions(Section):
    """Captions of the images (DALL-Eval, Cho et al. 2023, appendix D.1), kept verbatim; none unless ``model`` is named.

    ``model`` is a folder or a hub id of BLIP (``Salesforce/blip-image-captioning-base``) or BLIP-2
    (``Salesforce/blip2-opt-2.7b``), or ``toyworld-checker``, which puts what it reads exactly into a sentence and is no
    captioning network. ``prompt`` is what a caption goes on from, ``beams`` how many captions are searched at a time,
    ``tokens`` how long one may be. The network sees ``batch`` images at a time.
    """

    model: Model | None = None
    prompt: Annotated[str, Field(max_length=CHARACTERS)] = ""
    beams: Annotated[int, Field(ge=1, le=100)] = 3
    tokens: Annotated[int, Field(ge=1, le=1000)] = 30
    batch: Positive = 8
