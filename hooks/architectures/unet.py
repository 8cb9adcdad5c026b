"""Stable Diffusion 1, 2 and XL: denoisers of the class UNet2DConditionModel. Imports no torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hooks.architectures import latents
from hooks.architectures.base import Architecture
from hooks.architectures.layout import Layout, MisfitError
from hooks.architectures.site import (
    BY_STEP,
    Batch,
    Inputs,
    Site,
    attention_part_sites,
    branches_error,
    children,
    module_at,
)
from hooks.architectures.text_encoders import text_core, text_sites

if TYPE_CHECKING:
    from torch import Tensor

TIMES = 6  # numbers that XL gets of sizes and crops
TEXT = 2  # place of the text among the positional arguments of a UNet
_UNREAD = (
    "the pipeline takes the states before the last layer of this text encoder, so that nothing written here reaches an "
    "image: write at the layer before it"
)
_AFTER = (
    "it is read off what the UNet returned: write at unet.up.* for the noise prediction, or at the latents"
)
TOKENIZERS = ("CLIPTokenizer", "CLIPTokenizerFast")
TEXT_MODELS = ("CLIPTextModel", "CLIPTextModelWithProjection")
THREE_WAY = ("conditional", "image", "unconditional")  # InstructPix2Pix; "image": the image without the text
_DENOISER = ("unet", "UNet2DConditionModel")


class UNet(Architecture):
    """Architecture of Stable Diffusion 1, 2 and XL: a U-Net with cross-attention to the text."""

    name = "Stable Diffusion"
    models = "Stable Diffusion 1.x, 2.x or XL"
    denoiser_name = "U-Net"
    denoiser_part = "unet"
    layouts = (
        Layout.from_towers("StableDiffusionPipeline", _DENOISER, ((TOKENIZERS, TEXT_MODELS),), pictured=True),
        Layout.from_towers("LatentConsistencyModelPipeline", _DENOISER, ((TOKENIZERS, TEXT_MODELS),)),
        Layout.from_towers(
            "StableDiffusionXLPipeline",
            _DENOISER,
            ((TOKENIZERS, TEXT_MODELS), (TOKENIZERS, TEXT_MODELS[1:])),
            pooled=True,
            pictured=True,
        ),
    )
    pipelines = (
        *(name for layout in layouts for name in (layout.pipeline, *layout.pipelines_of_pictures)),
        "StableDiffusionInstructPix2PixPipeline",
        "StableDiffusionAdapterPipeline",
        "StableDiffusionXLAdapterPipeline",
    )
    predicts = ("epsilon", "v_prediction", "sample")

    def check_configuration(self, pipe: Any) -> None:
        """Raise a MisfitError for an unusable latent size or scaling, or U-Net channels other than the VAE's."""
        super().check_configuration(pipe)
        config, latent = pipe.unet.config, pipe.vae.config.latent_channels
        if (config.in_channels, config.out_channels) != (latent, latent):
            expected = f"{latent} channels in and out, as vae/config.json has in its latents"
            got = f"{config.in_channels} and {config.out_channels}"
            remedy = f"choose a text-to-image model of {self.models}, not one for inpainting or editing"
            raise MisfitError(self.denoiser_part, expected, got, remedy)

    def sites(self, pipe: Any) -> Iterator[Site]:
        """All sites of a pipeline with a U-Net, in the order in which they run."""
        # XL takes the states before the last layer; that of the second encoder makes the pooled text
        core = text_core(pipe, "text_encoder") if _is_xl(pipe) else None
        last = f"text.layers.{len(module_at(pipe, core.layers)) - 1}." if core else None
        for site in text_sites(pipe, "unet"):
            unread = last is not None and f"{site.address}.".startswith(last)
            yield replace(site, read_only=_UNREAD) if unread else site
        yield Site("latent", "unet", read="pipeline", read_only=BY_STEP)
        yield from _unet_sites(pipe.unet)
        branches = ["unconditional", "conditional", "guided"]
        if _has_image_branch(pipe):
            branches.insert(1, "image")
        for branch in branches:
            yield Site(f"noise_pred.{branch}", "unet", read="pipeline", read_only=_AFTER)
        if self.why_unavailable(pipe, "x0_pred") is None:
            yield Site("x0_pred", "unet", read="pipeline", read_only=_AFTER)
        yield from latents.decoder_sites(pipe.vae)

    def attentions(self, pipe: Any, kind: str) -> Iterator[tuple[Site, int]]:
        """Sites of a U-Net's "cross" or "self" attentions, each with the ratio of latent side to its grid's side."""
        factors = _grid_factors(pipe.unet)
        for site in _unet_sites(pipe.unet):
            is_attention = site.module.endswith((".attn1", ".attn2"))
            if is_attention and module_at(pipe, site.module).is_cross_attention == (kind == "cross"):
                yield site, next(factor for path, factor in factors.items() if site.module.startswith(path))

    def inputs(self, pipe: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Inputs:
        """Timestep, latents and texts of a U-Net call's conditional rows, from its arguments."""
        names = ("sample", "timestep", "encoder_hidden_states")
        sample, timestep, states = (args[i] if i < len(args) else kwargs.get(n) for i, n in enumerate(names))
        masks = (kwargs.get(name) for name in ("encoder_attention_mask", "attention_mask"))
        branches: tuple[str, ...] = ("conditional",)
        if getattr(pipe, "do_classifier_free_guidance", False):
            branches = THREE_WAY if _has_image_branch(pipe) else ("unconditional", "conditional")
        if sample.shape[0] % len(branches):
            raise branches_error(pipe, branches, len(sample), "a number that they do not divide")
        batch = Batch(sample.shape[0] // len(branches), branches, *sample.shape[-2:])
        # an inpainting UNet is given a mask and an image behind the latent's channels
        latent = batch.conditional(sample, "latent")[:, : pipe.vae.config.latent_channels]
        text = batch.conditional(states, "text.final")
        return Inputs(batch, timestep, latent, text, any(mask is not None for mask in masks))

    def exchange_texts(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], rows: Sequence[int]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments of a U-Net call in which batch row i has the token states and pooled text of row `rows[i]`."""
        positional, named = list(args), dict(kwargs)
        if len(positional) > TEXT:
            positional[TEXT] = positional[TEXT][list(rows)]
        else:
            named["encoder_hidden_states"] = named["encoder_hidden_states"][list(rows)]
        added = named.get("added_cond_kwargs") or {}
        if "text_embeds" in added:
            named["added_cond_kwargs"] = {**added, "text_embeds": added["text_embeds"][list(rows)]}
        return tuple(positional), named

    def final_latent(self, pipe: Any, decoder_input: Tensor) -> Tensor:
        """The final latent z0, scaled as the denoiser gives it, from the decoder's input; (rows, channels, h, w)."""
        return latents.final_latent(pipe.vae, decoder_input, normalized=_is_xl(pipe))

    def decoding_dtype(self, pipe: Any, dtype: str) -> str:
        """The number format of decoding: float32 for SDXL in float16 whose VAE sets `force_upcast`, else `dtype`.

        That VAE overflows in float16; the other pipelines do not read ``force_upcast``.
        """
        upcast = _is_xl(pipe) and dtype == "float16" and pipe.vae.config.force_upcast
        return "float32" if upcast else dtype

    def image_multiple(self, pipe: Any) -> int:
        """Pixels that an image's sides must be multiples of: the U-Net halves the latent at each level but the last."""
        return self.latent_scale(pipe) * 2 ** (len(pipe.unet.config.block_out_channels) - 1)

    def text_arguments(self, outputs: Sequence[Any]) -> dict[str, Any]:
        """Text arguments of a U-Net call, from one text encoder's last states, or from the outputs of SDXL's two."""
        import torch

        if len(outputs) == 1:
            return _denoiser_text_arguments(outputs[0][0])
        return _denoiser_text_arguments(
            torch.cat([output.hidden_states[-2] for output in outputs], -1), outputs[-1][0]
        )

    def meta_text_arguments(self, pipe: Any, tokens: int) -> dict[str, Any]:
        """Text arguments of a U-Net call for one text of this many tokens, as meta tensors (shapes without values)."""
        import torch

        config = pipe.unet.config
        width, pooled = config.cross_attention_dim, None
        if config.addition_embed_type == "text_time":
            length = config.projection_class_embeddings_input_dim - TIMES * config.addition_time_embed_dim
            pooled = torch.zeros(1, length, device="meta")
        width = width if isinstance(width, int) else width[0]
        return _denoiser_text_arguments(torch.zeros(1, tokens, width, device="meta"), pooled)

    def meta_arguments(self, pipe: Any, size: tuple[int, int], text: Mapping[str, Any]) -> dict[str, Any]:
        """All arguments of a U-Net call for one latent of (height, width) `size` and `text`, as meta tensors."""
        import torch

        config = pipe.unet.config
        distilled = config.time_cond_proj_dim  # such models take the guidance scale as an input
        return {
            "sample": torch.zeros(1, config.in_channels, *size, device="meta"),
            "timestep": torch.zeros(1, device="meta"),
            "timestep_cond": None if distilled is None else torch.zeros(1, distilled, device="meta"),
            **text,
        }


def _has_image_branch(pipe: Any) -> bool:
    """Return whether guidance has a third branch with the image but without the text (InstructPix2Pix)."""
    return any(base.__name__ == "StableDiffusionInstructPix2PixPipeline" for base in type(pipe).__mro__)


def _denoiser_text_arguments(states: Tensor, pooled: Tensor | None = None) -> dict[str, Any]:
    """Keyword arguments of a U-Net call for its text: token states and, for SDXL, pooled text with time ids of 0."""
    added = None
    if pooled is not None:
        added = {"text_embeds": pooled, "time_ids": pooled.new_zeros(1, TIMES)}
    return {"encoder_hidden_states": states, "added_cond_kwargs": added}


def _is_xl(pipe: Any) -> bool:
    """Return whether the pipeline class is one of Stable Diffusion XL, by its name."""
    return "XL" in type(pipe).__name__


def _unet_sites(unet: Any) -> Iterator[Site]:
    """Sites of a U-Net's modules, from `conv_in` to the last upsampling block, in the order in which they run."""

    def site(address: str, path: str, **more: Any) -> Site:
        """Return a `Site` from its address and module path, both without `unet.`."""
        return Site(f"unet.{address}", f"unet.{path}", **more)

    def transformer_sites(address: str, path: str, blocks: Sequence[Any]) -> Iterator[Site]:
        """Yield the sites of the transformer blocks of one attention module at `address`."""
        for k, inner in enumerate(blocks):
            number = f".{k}" if len(blocks) > 1 else ""
            where = f"{path}.transformer_blocks.{k}"
            for name, part in (("attn1", "self"), ("attn2", "cross")):
                if (attention := getattr(inner, name, None)) is not None:
                    parts, module = f"{address}.{part}{number}", f"{where}.{name}"
                    yield from attention_part_sites(f"unet.{parts}", f"unet.{module}", attention)
                    yield site(parts, module, default=part == "cross")
            if getattr(inner, "ff", None) is not None:
                yield site(f"{address}.ff{number}", f"{where}.ff", default=False)
            yield site(f"{address}.block{number}", where, default=False)

    def level_sites(address: str, path: str, module: Any) -> Iterator[Site]:
        """Yield the sites of one down, mid or up block in the order they run; both names without `unet.`."""
        resnets = children(module, "resnets")
        attentions = children(module, "attentions")
        for i in range(max(len(resnets), len(attentions))):
            if i < len(resnets):
                yield site(f"{address}.resnet.{i}", f"{path}.resnets.{i}")
            if i < len(attentions):
                inside = children(attentions[i], "transformer_blocks")
                yield from transformer_sites(f"{address}.attn.{i}", f"{path}.attentions.{i}", inside)
                yield site(
                    f"{address}.attn.{i}.update", f"{path}.attentions.{i}", default=False, read="update"
                )
                yield site(f"{address}.attn.{i}", f"{path}.attentions.{i}")
        for name, attribute in (("downsample", "downsamplers"), ("upsample", "upsamplers")):
            if children(module, attribute):
                yield site(f"{address}.{name}", f"{path}.{attribute}.0")
        yield site(address, path)

    yield site("conv_in", "conv_in")
    for b, module in enumerate(unet.down_blocks):
        yield from level_sites(f"down.{b}", f"down_blocks.{b}", module)
    if unet.mid_block is not None:
        yield from level_sites("mid", "mid_block", unet.mid_block)
    for b, module in enumerate(unet.up_blocks):
        yield from level_sites(f"up.{b}", f"up_blocks.{b}", module)


def _grid_factors(unet: Any) -> dict[str, int]:
    """How many times smaller each block's grid is than the latent, by path prefix such as `unet.down_blocks.1.`."""
    factors, factor = {}, 1
    for b, block in enumerate(unet.down_blocks):
        factors[f"unet.down_blocks.{b}."] = factor
        factor *= 2 if getattr(block, "downsamplers", None) else 1
    factors["unet.mid_block."] = factor
    for b, block in enumerate(unet.up_blocks):
        factors[f"unet.up_blocks.{b}."] = factor
        factor //= 2 if getattr(block, "upsamplers", None) else 1
    return factors
