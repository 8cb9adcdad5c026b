"""The supported architectures, which of them a pipeline is of, and why others are not read. Imports no torch."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from hooks.architectures.base import Architecture
from hooks.architectures.layout import Layout
from hooks.architectures.unet import UNet
from hooks.errors import HookError

ARCHITECTURES: list[Architecture] = [UNet()]  # asked before the transformers
_NO_ROW = "no row of hooks/architectures/transformer_rows.py describes its transformer yet"
_VIDEO = "it makes videos, and sites, maps and metrics are those of one picture"
_GIVEN = "it starts from pictures, or is given some beside the text"
_FURTHER = "its guidance runs a further branch, which is not told apart yet"
_BY_LAYER = "each block is given another layer of the text encoder, and sites know one text for all"
# a pattern of names, and what is missing; the first that fits counts
_UNREAD = (
    (
        r"^(Wan|HunyuanVideo|HunyuanSkyreels|LTX|CogVideoX|Mochi|Allegro|Latte|ConsisID|SkyReels|EasyAnimate|Lucy"
        r"|Cosmos(?!2TextToImage)|Helios|ChronoEdit|Sana(Video|ImageToVideo|WM)|MotifVideo|StableVideo|AnimateDiff"
        r"|AnyFlow|TextToVideo|I2VGen|Kandinsky(5(T2V|I2V)|6))",
        _VIDEO,
    ),
    (r"^(StableAudio|AudioLDM|MusicLDM|AceStep|LongCatAudio)", "it makes sound"),
    (r"PAG\w*Pipeline$", _FURTHER),
    (
        r"(Img2Img|I2I|Inpaint|ControlNet|Control|Fill|Kontext|Redux|Edit|Layered|Upscale|InstructPix2Pix|Refiner"
        r"|ZImageOmni|Adapter|Depth2Img|KleinKV)\w*Pipeline$",
        _GIVEN,
    ),
    (
        r"^Flux2Pipeline",
        "its text stands behind padding, and its tokenizer is within a processor of pictures",
    ),
    (r"^BriaPipeline|^ErnieImage", "its prompts are encoded one by one, and runs of a text encoder hold all"),
    (r"^HiDreamImage|^BriaFibo", _BY_LAYER),
    (r"^QwenImage21", "its text reads no image, and an attention's last call is the image's, not the first"),
    (
        r"^Ideogram4",
        "its text has several layers of the encoder for each token, on an axis of their own",
    ),
    (r"^NucleusMoE", "its blocks ask with the image alone, and a cache gives the text's keys and values"),
    (r"^HunyuanImage", "its guidance is a component of its own, which a run does not load"),
    (r"^GlmImage", "a language model draws the image's tokens first, and the transformer is given no prompt"),
    (
        r"^PRX",
        "it encodes prompts and negative prompts in one run, of which the prompts' half is not told apart yet",
    ),
    (
        r"^Kandinsky5",
        "its tokenizer is within a processor of pictures, and its latents have their channels last",
    ),
    (r"^(LuminaPipeline|OmniGen|VisualCloze|DreamLite|Cosmos2TextToImage|DiT)", _NO_ROW),
    (r"^Kolors", "its tokenizer, ChatGLM's, does not tell the characters of a token"),
    (r"^Kandinsky", "its U-Net is of another kind than that of Stable Diffusion"),
    (
        r"^(StableCascade|Wuerstchen|IF|UnCLIP|StableUnCLIP|Paella|Amused)",
        "its denoiser is none that is read",
    ),
)


def architectures() -> Iterator[Architecture]:
    """Yield all architectures; those of diffusion transformers come last, and are imported only then."""
    yield from ARCHITECTURES
    yield from _transformers()


@cache
def _transformers() -> list[Architecture]:
    """Return the architectures of diffusion transformers."""
    from hooks.architectures.transformer import Transformer
    from hooks.architectures.transformer_rows import ROWS

    return [*map(Transformer, ROWS)]


def supported_pipelines() -> tuple[str, ...]:
    """Names of the pipeline classes of diffusers that hooks can read, as can their subclasses."""
    return tuple(name for architecture in architectures() for name in architecture.pipelines)


def generating_pipelines() -> dict[str, tuple[Architecture, Layout]]:
    """Architecture and layout of each pipeline that a run can generate images with, by class name."""
    return {layout.pipeline: (kind, layout) for kind in architectures() for layout in kind.layouts}


def generating_pipeline(name: str) -> tuple[Architecture, Layout] | None:
    """Architecture and layout of a pipeline class by its name; None if no run can generate images with it."""
    pairs = ((kind, layout) for kind in architectures() for layout in kind.layouts)
    return next((pair for pair in pairs if pair[1].pipeline == name), None)


def architecture_of(pipe: Any) -> Architecture:
    """The architecture that reads a pipeline; a HookError with reason and remedy if its class is not supported."""
    classes = [base.__name__ for base in type(pipe).__mro__]
    for architecture in architectures():
        if not {*classes}.isdisjoint(architecture.pipelines):
            return architecture
    reasons = [*filter(None, map(why_unread, classes))]
    if getattr(pipe, "transformer", None) is not None:
        reasons.append("its denoiser is a transformer that is not known")
    reason = f" ({reasons[0]})" if reasons else ""
    # the pipeline that can be read and draws from texts with the same parts
    plain = re.sub(r"(PAG|ControlNet|Img2Img|Inpaint)+(?=Pipeline$)", "", classes[0])
    remedy = (
        f"use diffusers.{plain}.from_pipe(pipe)" if plain in supported_pipelines() else "choose one of these"
    )
    raise HookError(
        f"pipeline: expected one of hooks.sites.SUPPORTED_PIPELINES, but got {classes[0]}{reason}: {remedy}"
    )


def why_unread(pipeline: str) -> str | None:
    """The reason why hooks cannot read this pipeline class of diffusers; None if no reason is listed for its name.

    Examples
    --------
    >>> why_unread("WanPipeline")
    'it makes videos, and sites, maps and metrics are those of one picture'
    >>> why_unread("MyPipeline") is None
    True
    """
    return next((why for pattern, why in _UNREAD if re.search(pattern, pipeline)), None)
