"""Where a pipeline can be read: stable addresses, and the modules behind them.

================================  ==========================================================  ===============
address                           what is read                                                a row is
================================  ==========================================================  ===============
`text.embeddings`                 token and position embeddings                               (tokens, width)
`text.layers.<k>`                 output of layer k, before the final layer norm              (tokens, width)
`text_2.…`                        the same of SDXL's second text encoder                      (tokens, width)
`text.final`                      the conditional `encoder_hidden_states` given to the UNet   (tokens, width)
`unet.conv_in`                    first convolution                                           (c, h, w)
`unet.down.<b>.resnet.<i>`        residual block; also `unet.mid.…`, `unet.up.<b>.…`          (c, h, w)
`unet.down.<b>.attn.<i>`          transformer; also `unet.mid.…`, `unet.up.<b>.…`             (c, h, w)
`unet.down.<b>.attn.<i>.cross`    its cross-attention (`attn2`); `.cross.<k>` where the       (h*w, c)
                                  transformer has several blocks, as in SDXL
`unet.down.<b>.downsample`        downsampling; `unet.up.<b>.upsample`                        (c, h, w)
`unet.down.<b>`                   the whole block; `unet.mid`, `unet.up.<b>`                  (c, h, w)
`latent`                          x_t as the UNet is given it (scaled, for sigma schedulers)  (4, h, w)
`latent.final`                    z0, before division by the VAE scaling factor               (4, h, w)
`noise_pred.conditional`          the UNet's output; also `.unconditional` and `.guided`      (4, h, w)
`x0_pred`                         the image latent predicted from `noise_pred.guided`         (4, h, w)
`vae.post_quant`                  what the decoder is given                                   (4, h, w)
`vae.decoder.mid`                 decoder's mid block                                         (c, h, w)
`vae.decoder.up.<b>`              decoder's upsampling blocks                                 (c, H, W)
`image`                           decoder's output, float, about -1 to 1                      (3, H, W)
================================  ==========================================================  ===============

Where guidance doubles the batch, only the conditional half is read. This module imports no torch.
"""

from __future__ import annotations

import difflib
import fnmatch
import functools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from hooks.errors import HookError

DEFAULT_SITES = ("text*", "unet.*", "latent*", "noise_pred.*", "x0_pred", "vae.*", "image")

SUPPORTED_PIPELINES = (
    "StableDiffusionPipeline",
    "StableDiffusionImg2ImgPipeline",
    "StableDiffusionInpaintPipeline",
    "StableDiffusionXLPipeline",
    "StableDiffusionXLImg2ImgPipeline",
    "StableDiffusionXLInpaintPipeline",
)

TEXT_ENCODERS = {"text": "text_encoder", "text_2": "text_encoder_2"}


@dataclass(frozen=True)
class Site:
    """One place to read: its address, its kind, the module behind it, and whether it is read at every UNet
    call.
    """

    address: str
    kind: str  # text, unet, latent, noise_pred, x0_pred, vae or image
    module: str  # path from the pipeline, such as "unet.mid_block.resnets.0"
    per_step: bool


def available(pipe: Any) -> list[Site]:
    """All sites of a pipeline, in the order in which they run.

    Raises
    ------
    HookError
        If the pipeline is of a kind that is not supported; the message names it.
    """
    require_supported(pipe)
    return list(_table(pipe))


def resolve(pipe: Any, patterns: str | Iterable[str]) -> list[Site]:
    """The sites that match any of the patterns, in the order of `available`, each once.

    Patterns are shell globs whose `*` also matches dots: `unet.*` is everything inside the UNet, `latent`
    only the site of that name, `latent*` also `latent.final`.

    Raises
    ------
    HookError
        If a pattern matches nothing (the message lists the nearest addresses), or there is no pattern.
    """
    patterns = [patterns] if isinstance(patterns, str) else list(patterns)
    if not patterns:
        raise HookError("sites: expected at least one address or pattern, but got none")
    sites = available(pipe)
    wanted: set[str] = set()
    for pattern in patterns:
        matched = {site.address for site in sites if fnmatch.fnmatchcase(site.address, str(pattern))}
        if not matched:
            raise HookError(_nothing_matches(str(pattern), sites, pipe))
        wanted |= matched
    return [site for site in sites if site.address in wanted]


def module_at(pipe: Any, path: str) -> Any:
    """The module at a dotted path from the pipeline."""
    return functools.reduce(getattr, path.split("."), pipe)


def cross_attentions(pipe: Any) -> list[tuple[str, str]]:
    """Address and module path of each cross-attention of the UNet, in the order in which they run."""
    return [
        (site.address, site.module)
        for site in available(pipe)
        if site.kind == "unet" and site.module.endswith(".attn2")
    ]


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
    unet = type(getattr(pipe, "unet", None))
    if not any(base.__name__ == "UNet2DConditionModel" for base in unet.__mro__):
        raise HookError(f"{name}.unet: expected a UNet2DConditionModel, but got {unet.__name__}")


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


def _table(pipe: Any) -> Iterator[Site]:
    for name, part in TEXT_ENCODERS.items():
        yield from _text_sites(pipe, name, part)
    yield Site("text.final", "text", "unet", per_step=False)
    yield Site("latent", "latent", "unet", per_step=True)
    yield from _unet_sites(pipe.unet)
    for branch in ("unconditional", "conditional", "guided"):
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
    for k in range(len(module_at(pipe, core).encoder.layers)):
        yield Site(f"{name}.layers.{k}", "text", f"{core}.encoder.layers.{k}", per_step=False)


def _unet_sites(unet: Any) -> Iterator[Site]:
    def site(address: str, path: str) -> Site:
        return Site(f"unet.{address}", "unet", f"unet.{path}", per_step=True)

    def block(address: str, path: str, module: Any) -> Iterator[Site]:
        resnets = _children(module, "resnets")
        attentions = _children(module, "attentions")
        for i in range(max(len(resnets), len(attentions))):
            if i < len(resnets):
                yield site(f"{address}.resnet.{i}", f"{path}.resnets.{i}")
            if i < len(attentions):
                inside = _children(attentions[i], "transformer_blocks")
                crossed = [k for k, inner in enumerate(inside) if getattr(inner, "attn2", None) is not None]
                for k in crossed:
                    number = f".{k}" if len(inside) > 1 else ""
                    yield site(
                        f"{address}.attn.{i}.cross{number}",
                        f"{path}.attentions.{i}.transformer_blocks.{k}.attn2",
                    )
                yield site(f"{address}.attn.{i}", f"{path}.attentions.{i}")
        for name, attribute in (("downsample", "downsamplers"), ("upsample", "upsamplers")):
            if _children(module, attribute):
                yield site(f"{address}.{name}", f"{path}.{attribute}.0")
        yield site(address, path)

    yield site("conv_in", "conv_in")
    for b, module in enumerate(unet.down_blocks):
        yield from block(f"down.{b}", f"down_blocks.{b}", module)
    if unet.mid_block is not None:
        yield from block("mid", "mid_block", unet.mid_block)
    for b, module in enumerate(unet.up_blocks):
        yield from block(f"up.{b}", f"up_blocks.{b}", module)


def _vae_sites(vae: Any) -> Iterator[Site]:
    decoder = vae.decoder
    has_post_quant = getattr(vae, "post_quant_conv", None) is not None
    entrance = "vae.post_quant_conv" if has_post_quant else "vae.decoder"
    yield Site("latent.final", "latent", entrance, per_step=False)
    if has_post_quant:
        yield Site("vae.post_quant", "vae", "vae.post_quant_conv", per_step=False)
    if getattr(decoder, "mid_block", None) is not None:
        yield Site("vae.decoder.mid", "vae", "vae.decoder.mid_block", per_step=False)
    for b in range(len(_children(decoder, "up_blocks"))):
        yield Site(f"vae.decoder.up.{b}", "vae", f"vae.decoder.up_blocks.{b}", per_step=False)
    yield Site("image", "image", "vae.decoder", per_step=False)


def _children(module: Any, name: str) -> Sequence[Any]:
    found = getattr(module, name, None)
    return [] if found is None else found


def _nothing_matches(pattern: str, sites: list[Site], pipe: Any) -> str:
    if pattern == "x0_pred":
        return f"sites: 'x0_pred' cannot be computed, {x0_unavailable(pipe.scheduler)}: leave it out"
    addresses = [site.address for site in sites]
    near = difflib.get_close_matches(pattern, addresses, n=4, cutoff=0.4)
    if not near:
        first = pattern.split(".")[0]
        near = [a for a in addresses if a.split(".")[0] == first][:4] or addresses[:2] + addresses[-2:]
    return f"sites: {pattern!r} matches no site of {type(pipe).__name__}: the nearest are {', '.join(near)}"
