"""Which sites a pipeline has, and the module behind each. Imports no torch."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from hooks.errors import HookError

TEXT_ENCODERS = {"text": "text_encoder", "text_2": "text_encoder_2"}
SUPPORTED_PIPELINES = (
    "StableDiffusionPipeline",
    "StableDiffusionImg2ImgPipeline",
    "StableDiffusionInpaintPipeline",
    "StableDiffusionInstructPix2PixPipeline",
    "StableDiffusionXLPipeline",
    "StableDiffusionXLImg2ImgPipeline",
    "StableDiffusionXLInpaintPipeline",
)
PROJECTIONS = ("query", "key", "value")


@dataclass(frozen=True)
class Site:
    """One place to read.

    Attributes
    ----------
    address : str
    kind : str
        text, unet, latent, noise_pred, x0_pred, vae or image.
    module : str
        Path from the pipeline, such as "unet.mid_block.resnets.0".
    per_step : bool
        Whether it is read at every UNet call.
    default : bool
        Whether it is compared unless told otherwise; the others are read where they are named.
    read : {"output", "input"}
        Which end of the module is read.
    part : (int, int) or None
        Number of a slice and number of slices of the last dimension, where projections are fused.
    heads : int or None
        Heads that the last dimension is divided into.
    """

    address: str
    kind: str
    module: str
    per_step: bool
    default: bool = True
    read: str = "output"
    part: tuple[int, int] | None = None
    heads: int | None = None

    def values(self, tensor: Any) -> Any:
        """What the site gives of a tensor that its module was given, or gave."""
        if self.part is not None:
            index, parts = self.part
            tensor = tensor.chunk(parts, dim=-1)[index]
        if self.heads is not None:
            tensor = tensor.unflatten(-1, (self.heads, -1))
        return tensor


def module_at(pipe: Any, path: str) -> Any:
    """The module at a dotted path from the pipeline."""
    return functools.reduce(getattr, path.split("."), pipe)


def x0_unavailable(scheduler: Any) -> str | None:
    """Why `x0_pred` cannot be computed under this scheduler, or None if it can."""
    name = type(scheduler).__name__
    if getattr(scheduler, "alphas_cumprod", None) is None:
        return f"{name} has no alphas_cumprod"
    if getattr(scheduler.config, "use_flow_sigmas", False):
        return f"{name} has use_flow_sigmas on"
    prediction_type = getattr(scheduler.config, "prediction_type", "epsilon")
    if prediction_type not in ("epsilon", "v_prediction", "sample"):
        return f"{name} has prediction_type {prediction_type!r}"
    return None


def require_supported(pipe: Any) -> None:
    """Raise a HookError that names the pipeline unless `pipe` is one whose batches and modules are known."""
    name = type(pipe).__name__
    if not any(base.__name__ in SUPPORTED_PIPELINES for base in type(pipe).__mro__):
        found = name
        if getattr(pipe, "transformer", None) is not None:
            found += " (its denoiser is a transformer)"
        elif hasattr(type(pipe), "image_guidance_scale"):
            found += " (its guidance runs three branches in one batch)"
        raise HookError(f"pipeline: expected one of {', '.join(SUPPORTED_PIPELINES)}, but got {found}")
    for part in ("unet", "vae", *TEXT_ENCODERS.values()):
        if hasattr(getattr(pipe, part, None), "_orig_mod"):
            raise HookError(
                f"{name}.{part}: expected a plain module, but got a compiled one, "
                f"into which no hook reaches: set pipe.{part} = pipe.{part}._orig_mod"
            )
        modules = getattr(getattr(pipe, part, None), "modules", list)()
        if any(getattr(module, "_compiled_call_impl", None) is not None for module in modules):
            raise HookError(
                f"{name}.{part}: expected a plain module, but got one compiled in place, "
                "into which no hook reaches: load the pipeline again and leave .compile() out"
            )
    unet = type(getattr(pipe, "unet", None))
    if not any(base.__name__ == "UNet2DConditionModel" for base in unet.__mro__):
        raise HookError(f"{name}.unet: expected a UNet2DConditionModel, but got {unet.__name__}")


def available(pipe: Any) -> list[Site]:
    """All sites of a pipeline, in the order in which they run.

    Raises
    ------
    HookError
        If the pipeline is of a kind that is not supported; the message names it.
    """
    require_supported(pipe)
    return list(table(pipe))


def attention_sites(pipe: Any, kind: str) -> list[Site]:
    """The sites of the UNet's cross-attentions or self-attentions, in the order in which they run.

    Parameters
    ----------
    kind : {"cross", "self"}
    """
    return [
        site
        for site in available(pipe)
        if site.kind == "unet"
        and site.module.endswith((".attn1", ".attn2"))
        and module_at(pipe, site.module).is_cross_attention == (kind == "cross")
    ]


def cross_attentions(pipe: Any) -> list[tuple[str, str]]:
    """Address and module path of each cross-attention of the UNet, in the order in which they run."""
    return [(site.address, site.module) for site in attention_sites(pipe, "cross")]


def table(pipe: Any) -> Iterator[Site]:
    """All sites, in the order in which they run."""
    for name, part in TEXT_ENCODERS.items():
        yield from _text_sites(pipe, name, part)
    yield Site("text.final", "text", "unet", per_step=False)
    yield Site("latent", "latent", "unet", per_step=True)
    yield from _unet_sites(pipe.unet)
    branches = ["unconditional", "conditional", "guided"]
    if hasattr(type(pipe), "image_guidance_scale"):
        branches.insert(1, "image")
    for branch in branches:
        yield Site(f"noise_pred.{branch}", "noise_pred", "unet", per_step=True)
    if x0_unavailable(pipe.scheduler) is None:
        yield Site("x0_pred", "x0_pred", "unet", per_step=True)
    yield from _vae_sites(pipe.vae)


def text_core(pipe: Any, part: str) -> str | None:
    """Path of the module that holds `embeddings`, `encoder.layers` and `final_layer_norm`, or None if there
    is none.

    It is the text encoder itself (`CLIPTextModel` of transformers 5) or its `text_model`.
    """
    encoder = getattr(pipe, part, None)
    for path, module in ((f"{part}.text_model", getattr(encoder, "text_model", None)), (part, encoder)):
        parts = ("embeddings", "encoder", "final_layer_norm")
        if all(hasattr(module, p) for p in parts) and hasattr(module.encoder, "layers"):
            return path
    return None


def _text_sites(pipe: Any, name: str, part: str) -> Iterator[Site]:
    core = text_core(pipe, part)
    if core is None:
        return
    yield Site(f"{name}.embeddings", "text", f"{core}.embeddings", per_step=False)
    for k, layer in enumerate(module_at(pipe, core).encoder.layers):
        address, path = f"{name}.layers.{k}", f"{core}.encoder.layers.{k}"

        def deep(
            inner: str, module: str, address: str = address, path: str = path, **more: Any
        ) -> Iterator[Site]:
            yield Site(
                f"{address}.{inner}", "text", f"{path}.{module}", per_step=False, default=False, **more
            )

        attention = getattr(layer, "self_attn", None)
        if attention is not None:
            if hasattr(attention, "out_proj") and hasattr(attention, "num_heads"):
                yield from deep(
                    "attn.heads", "self_attn.out_proj", read="input", heads=int(attention.num_heads)
                )
            yield from deep("attn", "self_attn")
        if hasattr(layer, "layer_norm2"):
            yield from deep("middle", "layer_norm2", read="input")
        if hasattr(layer, "mlp"):
            yield from deep("mlp", "mlp")
        yield Site(address, "text", path, per_step=False)


def _unet_sites(unet: Any) -> Iterator[Site]:
    def site(address: str, path: str, **more: Any) -> Site:
        return Site(f"unet.{address}", "unet", f"unet.{path}", per_step=True, **more)

    def attention(address: str, path: str, module: Any, default: bool) -> Iterator[Site]:
        heads = int(module.heads)
        for name, (inner, part) in _projections(module).items():
            yield site(f"{address}.{name}", f"{path}.{inner}", default=False, part=part)
        yield site(f"{address}.heads", f"{path}.to_out.0", default=False, read="input", heads=heads)
        yield site(address, path, default=default)

    def transformer(address: str, path: str, blocks: Sequence[Any]) -> Iterator[Site]:
        for k, inner in enumerate(blocks):
            number = f".{k}" if len(blocks) > 1 else ""
            where = f"{path}.transformer_blocks.{k}"
            if getattr(inner, "attn1", None) is not None:
                yield from attention(f"{address}.self{number}", f"{where}.attn1", inner.attn1, False)
            if getattr(inner, "attn2", None) is not None:
                yield from attention(f"{address}.cross{number}", f"{where}.attn2", inner.attn2, True)
            if getattr(inner, "ff", None) is not None:
                yield site(f"{address}.ff{number}", f"{where}.ff", default=False)
            yield site(f"{address}.block{number}", where, default=False)

    def block(address: str, path: str, module: Any) -> Iterator[Site]:
        resnets = children(module, "resnets")
        attentions = children(module, "attentions")
        for i in range(max(len(resnets), len(attentions))):
            if i < len(resnets):
                yield site(f"{address}.resnet.{i}", f"{path}.resnets.{i}")
            if i < len(attentions):
                inside = children(attentions[i], "transformer_blocks")
                yield from transformer(f"{address}.attn.{i}", f"{path}.attentions.{i}", inside)
                yield site(f"{address}.attn.{i}", f"{path}.attentions.{i}")
        for name, attribute in (("downsample", "downsamplers"), ("upsample", "upsamplers")):
            if children(module, attribute):
                yield site(f"{address}.{name}", f"{path}.{attribute}.0")
        yield site(address, path)

    yield site("conv_in", "conv_in")
    for b, module in enumerate(unet.down_blocks):
        yield from block(f"down.{b}", f"down_blocks.{b}", module)
    if unet.mid_block is not None:
        yield from block("mid", "mid_block", unet.mid_block)
    for b, module in enumerate(unet.up_blocks):
        yield from block(f"up.{b}", f"up_blocks.{b}", module)


def _projections(attention: Any) -> dict[str, tuple[str, tuple[int, int] | None]]:
    """Where an attention's query, key and value come from, and which slice of it each is."""
    if runs_fused(attention):
        if attention.is_cross_attention:
            return {"query": ("to_q", None), "key": ("to_kv", (0, 2)), "value": ("to_kv", (1, 2))}
        return {name: ("to_qkv", (i, 3)) for i, name in enumerate(PROJECTIONS)}
    return {name: (f"to_{name[0]}", None) for name in PROJECTIONS}


def runs_fused(attention: Any) -> bool:
    """Whether the processor in use runs the fused projections (which stay there after unfusing)."""
    processor = type(getattr(attention, "processor", None)).__name__
    return getattr(attention, "fused_projections", False) and processor.startswith("Fused")


def _vae_sites(vae: Any) -> Iterator[Site]:
    decoder = vae.decoder

    def site(address: str, path: str, default: bool = False) -> Site:
        return Site(f"vae.{address}", "vae", f"vae.{path}", per_step=False, default=default)

    def inside(address: str, path: str, module: Any) -> Iterator[Site]:
        for i in range(len(children(module, "resnets"))):
            yield site(f"{address}.resnet.{i}", f"{path}.resnets.{i}")
            if i < len(children(module, "attentions")) and module.attentions[i] is not None:
                yield site(f"{address}.attn.{i}", f"{path}.attentions.{i}")
        if children(module, "upsamplers"):
            yield site(f"{address}.upsample", f"{path}.upsamplers.0")
        yield site(address, path, default=True)

    has_post_quant = getattr(vae, "post_quant_conv", None) is not None
    entrance = "vae.post_quant_conv" if has_post_quant else "vae.decoder"
    yield Site("latent.final", "latent", entrance, per_step=False)
    if has_post_quant:
        yield site("post_quant", "post_quant_conv", default=True)
    if hasattr(decoder, "conv_in"):
        yield site("decoder.conv_in", "decoder.conv_in")
    if getattr(decoder, "mid_block", None) is not None:
        yield from inside("decoder.mid", "decoder.mid_block", decoder.mid_block)
    for b, module in enumerate(children(decoder, "up_blocks")):
        yield from inside(f"decoder.up.{b}", f"decoder.up_blocks.{b}", module)
    yield Site("image", "image", "vae.decoder", per_step=False)


def children(module: Any, name: str) -> Sequence[Any]:
    """A list of modules under this name, empty if there is none."""
    found = getattr(module, name, None)
    return [] if found is None else found
