"""Pipelines of diffusers that are known and not read, and what is missing for each. Imports no torch."""

from __future__ import annotations

import re
from collections.abc import Collection

_NO_ROW = "no row of hooks/architectures/transformer_rows.py describes its transformer yet"
_FUSED = "its single blocks make queries, keys, values and feed-forward in one projection, which is not taken apart yet"
_VIDEO = "it makes videos, and sites, maps and metrics are those of one picture"
_GIVEN = "it starts from pictures, or is given some beside the text"
_FURTHER = "its guidance runs a further branch, which is not told apart yet"
_DISTILLED = "its class is not read, its parts are"
_UNREAD = (
    (r"^Flux2", _FUSED),
    (
        r"^(Wan|HunyuanVideo|HunyuanSkyreels|LTX|CogVideoX|Mochi|Allegro|Latte|ConsisID|SkyReels|EasyAnimate|Cosmos"
        r"|Helios|ChronoEdit|SanaVideo|MotifVideo|StableVideo|AnimateDiff|TextToVideo|I2VGen|Kandinsky5(T2V|I2V))",
        _VIDEO,
    ),
    (r"PAG\w*Pipeline$", _FURTHER),
    (
        r"(Img2Img|Inpaint|ControlNet|Control|Fill|Kontext|Redux|Edit|Layered|Upscale|InstructPix2Pix)\w*Pipeline$",
        _GIVEN,
    ),
    (r"^LatentConsistencyModel", _DISTILLED),
    (
        r"^(HunyuanDiT|HunyuanImage|HiDreamImage|OmniGen|CogView|Bria|OvisImage|GlmImage|PRX|LongCatImage|Lumina|Krea"
        r"|VisualCloze|Ideogram|NucleusMoE|ErnieImage|JoyImage|Kandinsky|QwenImage|ZImage|Flux|Sana|DiT)\w*Pipeline$",
        _NO_ROW,
    ),
    (r"^(StableCascade|Wuerstchen|IF|UnCLIP|Paella|Amused)", "its denoiser is none that is read"),
)


def why_unread(pipeline: str) -> str | None:
    """Reason why a class of pipelines of diffusers that is known cannot be read; None for others.

    Examples
    --------
    >>> why_unread("WanPipeline")
    'it makes videos, and sites, maps and metrics are those of one picture'
    >>> why_unread("MyPipeline") is None
    True
    """
    return next((why for pattern, why in _UNREAD if re.search(pattern, pipeline)), None)


def plain_pipeline(pipeline: str, readable: Collection[str]) -> str | None:
    """The pipeline that can be read and draws from texts with the same parts; None if there is none.

    Examples
    --------
    >>> plain_pipeline("FluxInpaintPipeline", ["FluxPipeline"])
    'FluxPipeline'
    >>> plain_pipeline("Flux2Pipeline", ["FluxPipeline"]) is None
    True
    """
    plain = re.sub(r"(PAG|ControlNet|Img2Img|Inpaint)+(?=Pipeline$)", "", pipeline)
    plain = re.sub(r"^LatentConsistencyModel(?=Pipeline$)", "StableDiffusion", plain)
    return plain if plain in readable else None
