"""The page of the docs that lists every site with its shape: ``python -m lab.pages.sites > docs/reference/sites.md``.

The models are the published architectures at their true depth and width, built without weights; nothing is
fetched.
"""

from __future__ import annotations

import math
import re
from typing import Any

import torch

from hooks import sites
from hooks.sites import shapes
from lab.templates import render

_INNER = re.compile(r"(.*?\.(?:attn|layers)\.[^.]+\.)(.+)")  # places inside a block of attention or a layer
_BLOCKS = re.compile(r"((?:unet\.(?:down|up)|vae\.decoder\.up)\.\d+)?(.*)")
_NUMBER = re.compile(r"(?<=\.)\d+(?=\.|$)")


def stable_diffusion_1() -> Any:
    """Stable Diffusion 1.x, 512x512."""
    from diffusers import StableDiffusionPipeline
    from transformers import CLIPTextModel

    return _pipeline(
        StableDiffusionPipeline,
        dict(text_encoder=_text(CLIPTextModel, 768, 12)),
        block_out_channels=(320, 640, 1280, 1280),
        down_block_types=("CrossAttnDownBlock2D",) * 3 + ("DownBlock2D",),
        up_block_types=("UpBlock2D",) + ("CrossAttnUpBlock2D",) * 3,
        attention_head_dim=8,
        cross_attention_dim=768,
    )


def stable_diffusion_xl() -> Any:
    """Stable Diffusion XL, 1024x1024."""
    from diffusers import StableDiffusionXLPipeline
    from transformers import CLIPTextModel, CLIPTextModelWithProjection

    second = _text(CLIPTextModelWithProjection, 1280, 32, projection_dim=1280)
    return _pipeline(
        StableDiffusionXLPipeline,
        dict(text_encoder=_text(CLIPTextModel, 768, 12), text_encoder_2=second, tokenizer_2=None),
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


def _text(kind: Any, width: int, layers: int, **more: int) -> Any:
    from transformers import CLIPTextConfig

    sizes = dict(hidden_size=width, intermediate_size=4 * width, num_attention_heads=width // 64)
    with torch.device("meta"):
        return kind(CLIPTextConfig(**sizes, num_hidden_layers=layers, **more))


def _pipeline(kind: Any, texts: dict[str, Any], sample_size: int = 64, **unet: Any) -> Any:
    from diffusers import DDIMScheduler, UNet2DConditionModel

    with torch.device("meta"):
        parts = dict(vae=_vae(), unet=UNet2DConditionModel(sample_size, layers_per_block=2, **unet))
    absent = dict.fromkeys(("safety_checker", "feature_extractor", "tokenizer"))
    if "tokenizer_2" in texts:
        absent = {"tokenizer": None, "add_watermarker": False}
    return kind(**parts, **texts, **absent, scheduler=DDIMScheduler())


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
    """Return the addresses of a pipeline's sites, places of one shape in a block in one, with shapes and defaults."""
    found = shapes(pipe)
    numbered: dict[tuple[str, tuple[int, ...], bool], list[list[str]]] = {}
    for site in sites.available(pipe):
        block, rest = _BLOCKS.fullmatch(site.address).groups("")
        key = (block + _NUMBER.sub("{}", rest), found[site.address], site.default)
        numbered.setdefault(key, []).append(_NUMBER.findall(rest))
    inner: dict[tuple[str, tuple[int, ...], bool], list[str]] = {}
    for (pattern, shape, default), numbers in numbered.items():
        ends = [(column[0], column[-1]) for column in zip(*numbers)]
        if math.prod(int(last) - int(first) + 1 for first, last in ends) != len(numbers):
            raise ValueError(f"{pattern}: expected numbers that fill ranges, got {numbers}")
        address = pattern.format(*(first if first == last else f"<{first}-{last}>" for first, last in ends))
        block, name = inside.groups() if (inside := _INNER.fullmatch(address)) else (address, "")
        inner.setdefault((block, shape, default), []).append(name)
    return [
        (block + (names[0] if len(names) == 1 else f"{{{', '.join(names)}}}"), shape, default)
        for (block, shape, default), names in inner.items()
    ]


def page() -> str:
    """Return the whole page in Markdown."""
    return render("sites", first=rows(stable_diffusion_1()), xl=rows(stable_diffusion_xl()))


if __name__ == "__main__":
    print(page(), end="")
