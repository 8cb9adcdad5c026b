"""Pipelines of diffusers that are known and not read, and what is missing for each. Imports no torch."""

from __future__ import annotations

import re

_NO_ROW = "no row of hooks/architectures/transformer_rows.py describes its transformer yet"
_FUSED = "its single blocks make queries, keys, values and feed-forward in one projection, which is not taken apart yet"
_VIDEO = "it makes videos, and sites, maps and metrics are those of one picture"
_GIVEN = "it starts from pictures, and runs compare what texts alone make"
_UNREAD = (
    (r"^Flux2", _FUSED),
    (
        r"^(Wan|HunyuanVideo|HunyuanSkyreels|LTX|CogVideoX|Mochi|Allegro|Latte|ConsisID|SkyReels|EasyAnimate|Cosmos"
        r"|Helios|ChronoEdit|SanaVideo|MotifVideo|StableVideo|AnimateDiff|TextToVideo|I2VGen|Kandinsky5(T2V|I2V))",
        _VIDEO,
    ),
    (
        r"(Img2Img|Inpaint|ControlNet|Control|Fill|Kontext|Redux|Edit|Layered|PAG|Upscale|InstructPix2Pix|Sprint)"
        r"\w*Pipeline$",
        _GIVEN,
    ),
    (
        r"^(HunyuanDiT|HunyuanImage|HiDreamImage|OmniGen|CogView|Bria|OvisImage|GlmImage|PRX|LongCatImage|Lumina|Krea"
        r"|VisualCloze|Ideogram|NucleusMoE|ErnieImage|JoyImage|Kandinsky|QwenImage|ZImage|Flux|Sana|DiT)\w*Pipeline$",
        _NO_ROW,
    ),
    (r"^(StableCascade|Wuerstchen|IF|UnCLIP|Paella|Amused)", "its denoiser is none that is read"),
)


def why_unread(pipeline: str) -> str | None:
    """What is missing to read a class of pipelines of diffusers that is known; None for others.

    Examples
    --------
    >>> why_unread("WanPipeline")
    'it makes videos, and sites, maps and metrics are those of one picture'
    >>> why_unread("MyPipeline") is None
    True
    """
    return next((why for pattern, why in _UNREAD if re.search(pattern, pipeline)), None)
