"""The page of the docs that lists every site with its shape: ``python -m lab.pages.sites > docs/reference/sites.md``.

The models are the published architectures at their true depth and width, built without weights; nothing is
fetched.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from typing import Any

import torch

from hooks import sites
from hooks.sites import shapes
from lab.templates import render

_INNER = re.compile(r"(.*?\.(?:attn|layers)\.[^.]+\.)(.+)")  # places inside a block of attention or a layer
_BLOCKS = re.compile(r"((?:unet\.(?:down|up)|vae\.decoder\.up)\.\d+)?(.*)")
_NUMBER = re.compile(r"(?<=\.)\d+(?=\.|$)")


_CLIP_L = dict(hidden_size=768, intermediate_size=3072, num_hidden_layers=12, num_attention_heads=12)
_OPEN_CLIP_H = dict(hidden_size=1024, intermediate_size=4096, num_hidden_layers=23, num_attention_heads=16)
_OPEN_CLIP_G = dict(
    hidden_size=1280,
    intermediate_size=5120,
    num_hidden_layers=32,
    num_attention_heads=20,
    projection_dim=1280,
)


def stable_diffusion_1() -> Any:
    """Stable Diffusion 1.x, 512x512."""
    from diffusers import StableDiffusionPipeline

    return _pipeline(StableDiffusionPipeline, [_CLIP_L], safety_checker=None, feature_extractor=None)


def stable_diffusion_2() -> Any:
    """Stable Diffusion 2.x, 768x768."""
    from diffusers import StableDiffusionPipeline

    unet = dict(
        sample_size=96,
        attention_head_dim=(5, 10, 20, 20),
        cross_attention_dim=1024,
        use_linear_projection=True,
    )
    return _pipeline(
        StableDiffusionPipeline, [_OPEN_CLIP_H], unet, safety_checker=None, feature_extractor=None
    )


def stable_diffusion_xl() -> Any:
    """Stable Diffusion XL, 1024x1024."""
    from diffusers import StableDiffusionXLPipeline

    unet = dict(
        sample_size=128,
        block_out_channels=(320, 640, 1280),
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"),
        transformer_layers_per_block=(1, 2, 10),
        attention_head_dim=(5, 10, 20),
        cross_attention_dim=2048,
        use_linear_projection=True,
        addition_embed_type="text_time",
        addition_time_embed_dim=256,
        projection_class_embeddings_input_dim=2816,
    )
    return _pipeline(StableDiffusionXLPipeline, [_CLIP_L, _OPEN_CLIP_G], unet, add_watermarker=False)


def _pipeline(
    cls: Any, texts: list[dict[str, int]], unet: dict[str, Any] | None = None, **settings: Any
) -> Any:
    from diffusers import DDIMScheduler
    from transformers import CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection

    with torch.device("meta"):
        parts = dict(
            text_encoder=CLIPTextModel(CLIPTextConfig(**texts[0])), vae=_vae(), unet=_unet(**unet or {})
        )
        if len(texts) > 1:
            second = CLIPTextModelWithProjection(CLIPTextConfig(**texts[1]))
            parts |= dict(text_encoder_2=second, tokenizer_2=None)
    return cls(**parts, tokenizer=None, scheduler=DDIMScheduler(), **settings)


def _unet(**settings: Any) -> Any:
    from diffusers import UNet2DConditionModel

    own = dict(
        sample_size=64,
        block_out_channels=(320, 640, 1280, 1280),
        down_block_types=("CrossAttnDownBlock2D",) * 3 + ("DownBlock2D",),
        up_block_types=("UpBlock2D",) + ("CrossAttnUpBlock2D",) * 3,
        layers_per_block=2,
        attention_head_dim=8,
        cross_attention_dim=768,
    )
    return UNet2DConditionModel(**(own | settings))


def _vae() -> Any:
    from diffusers import AutoencoderKL

    return AutoencoderKL(
        block_out_channels=(128, 256, 512, 512),
        down_block_types=("DownEncoderBlock2D",) * 4,
        up_block_types=("UpDecoderBlock2D",) * 4,
        layers_per_block=2,
        latent_channels=4,
        sample_size=512,
    )


def rows(pipe: Any) -> list[tuple[str, tuple[int, ...], bool]]:
    """Return the addresses of a pipeline's sites, equal ones of a block in one, with their shapes and defaults."""
    found = shapes(pipe)
    groups: dict[tuple[str, tuple[int, ...], bool], list[tuple[int, ...]]] = {}
    for site in sites.available(pipe):
        block, rest = _BLOCKS.fullmatch(site.address).groups()
        pattern = (block or "") + _NUMBER.sub("#", rest)
        numbers = tuple(int(number) for number in _NUMBER.findall(rest))
        groups.setdefault((pattern, found[site.address], site.default), []).append(numbers)
    return [
        (address, shape, default)
        for (pattern, shape, default), numbers in groups.items()
        for address in _written(pattern, numbers)
    ]


def _written(pattern: str, numbers: list[tuple[int, ...]]) -> list[str]:
    """A pattern with ranges for its `#`, or one address for each if the numbers fill no ranges."""
    columns = [sorted(set(column)) for column in zip(*numbers)]
    filled = all(column == list(range(column[0], column[-1] + 1)) for column in columns)
    if filled and sorted(numbers) == list(itertools.product(*columns)):
        choices = [tuple(f"<{c[0]}-{c[-1]}>" if len(c) > 1 else str(c[0]) for c in columns)]
    else:
        choices = numbers
    written = []
    for choice in choices:
        address = pattern
        for part in choice:
            address = address.replace("#", str(part), 1)
        written.append(address)
    return written


def merged(lines: Iterable[tuple[str, tuple[Any, ...], bool]]) -> list[tuple[str, tuple[Any, ...], bool]]:
    """Return lines of the page in which places inside a block that have one shape are one address with braces."""
    inner: dict[tuple[str, tuple[Any, ...], bool], list[str]] = {}
    for address, shape, default in lines:
        block, name = _INNER.fullmatch(address).groups() if _INNER.fullmatch(address) else (address, "")
        inner.setdefault((block, shape, default), []).append(name)
    return [
        (block + (names[0] if len(names) == 1 else f"{{{', '.join(names)}}}"), shape, default)
        for (block, shape, default), names in inner.items()
    ]


def page() -> str:
    """Return the whole page in Markdown."""
    first, second, xl = (
        rows(make()) for make in (stable_diffusion_1, stable_diffusion_2, stable_diffusion_xl)
    )
    pairs = zip(first, second, strict=True)
    both = merged((address, (shape, other), default) for (address, shape, default), (_, other, _) in pairs)
    layers = max(
        int(number) for address, *_ in second for number in re.findall(r"^text\.layers\.<0-(\d+)>$", address)
    )
    return render("sites", both=both, xl=merged(xl), layers=layers)


if __name__ == "__main__":
    print(page(), end="")
