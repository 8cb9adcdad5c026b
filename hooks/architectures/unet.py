"""Stable Diffusion 1, 2 and XL: denoisers of the class UNet2DConditionModel. Imports no torch."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hooks.architectures import decoder, unet_size
from hooks.architectures.base import Site, children, module_at, tensor_of
from hooks.architectures.batch import Inputs
from hooks.architectures.places import DENOISING, GROUPS, Place, shared_place, within_block
from hooks.architectures.text_encoders import TEXT_ENCODERS, text_sites
from hooks.architectures.unet_batch import batch_of, three_way
from hooks.errors import HookError

if TYPE_CHECKING:
    from torch import Tensor

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
TEXT = 2  # place of the text among the positional arguments of a UNet
_BLOCK = re.compile(r"^unet\.(?:(down|up)\.(\d+)|(mid))(?:\.(.+))?$")
_BY_STEP = "the scheduler makes it: write it through the pipeline's callback_on_step_end"
_AFTER = (
    "it is read off what the UNet returned: write at unet.up.* for the noise prediction, or at the latents"
)


class UNet:
    """The architecture (`hooks.architectures.base.Architecture`) of a convolutional UNet with cross-attention."""

    pipelines = SUPPORTED_PIPELINES

    def place(self, address: str) -> Place | None:
        """See `place`."""
        return place(address)

    def require_readable(self, pipe: Any) -> None:
        """Refuse compiled modules, into which no hook reaches, and another class of UNet."""
        name = type(pipe).__name__
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

    def sites(self, pipe: Any) -> Iterator[Site]:
        """All sites, in the order in which they run."""
        yield from text_sites(pipe, "unet", place)
        yield _site("latent", "unet", read="pipeline", read_only=_BY_STEP)
        yield from _unet_sites(pipe.unet)
        branches = ["unconditional", "conditional", "guided"]
        if three_way(pipe):
            branches.insert(1, "image")
        for branch in branches:
            yield _site(f"noise_pred.{branch}", "unet", read="pipeline", read_only=_AFTER)
        if x0_unavailable(pipe.scheduler) is None:
            yield _site("x0_pred", "unet", read="pipeline", read_only=_AFTER)
        yield from decoder.decoder_sites(pipe.vae, place)

    def unavailable(self, pipe: Any, address: str) -> str | None:
        """Why `x0_pred` cannot be computed, where it cannot."""
        return x0_unavailable(pipe.scheduler) if address == "x0_pred" else None

    def denoiser(self, pipe: Any) -> Any:
        """The UNet."""
        return pipe.unet

    def attentions(self, pipe: Any, kind: str) -> Iterator[tuple[Site, int]]:
        """The UNet's cross- or self-attentions, with the factor by which their block is smaller than the latent."""
        factors = _factors(pipe.unet)
        for site in _unet_sites(pipe.unet):
            is_attention = site.module.endswith((".attn1", ".attn2"))
            if is_attention and module_at(pipe, site.module).is_cross_attention == (kind == "cross"):
                yield site, factors[_BLOCK.match(site.address).group(1, 2, 3)]

    def inputs(self, pipe: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Inputs:
        """What the UNet is given."""
        names = ("sample", "timestep", "encoder_hidden_states")
        sample, timestep, states = (args[i] if i < len(args) else kwargs.get(n) for i, n in enumerate(names))
        masks = (kwargs.get(name) for name in ("encoder_attention_mask", "attention_mask"))
        batch = batch_of(pipe, sample)
        # an inpainting UNet is given a mask and an image behind the latent's channels
        latent = batch.conditional(sample, "latent")[:, : pipe.vae.config.latent_channels]
        text = batch.conditional(states, "text.final")
        return Inputs(batch, timestep, latent, text, any(mask is not None for mask in masks))

    def with_texts(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], rows: Sequence[int]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """States of the tokens and, of XL, the pooled text of the rows named; all else stays each row's own."""
        given, named = list(args), dict(kwargs)
        if len(given) > TEXT:
            given[TEXT] = given[TEXT][list(rows)]
        else:
            named["encoder_hidden_states"] = named["encoder_hidden_states"][list(rows)]
        added = named.get("added_cond_kwargs") or {}
        if "text_embeds" in added:
            named["added_cond_kwargs"] = {**added, "text_embeds": added["text_embeds"][list(rows)]}
        return tuple(given), named

    def predictions(
        self, pipe: Any, inputs: Inputs, output: Any, wanted: Collection[str]
    ) -> Iterator[tuple[str, Tensor]]:
        """The noise prediction by branch, guided, and the image latent that it points to."""
        from hooks.architectures.unet_prediction import guided_prediction, predict_x0, signal_level

        output, batch = tensor_of(output), inputs.batch
        branches = {name: batch.branch(name, output, "noise_pred") for name in batch.branches}
        for name, values in branches.items():
            yield f"noise_pred.{name}", values
        if not {"noise_pred.guided", "x0_pred"} & set(wanted):
            return
        guided = guided_prediction(pipe, branches)
        yield "noise_pred.guided", guided
        if "x0_pred" in wanted:
            level = signal_level(pipe.scheduler, inputs.timestep, guided.device)
            kind = getattr(pipe.scheduler.config, "prediction_type", "epsilon")
            yield "x0_pred", predict_x0(inputs.latent, guided, level, kind)

    def final_latent(self, pipe: Any, given: Tensor) -> Tensor:
        """See `hooks.architectures.decoder.final_latent`."""
        return decoder.final_latent(pipe, given)

    def latent_scale(self, pipe: Any) -> int:
        """See `hooks.architectures.decoder.latent_scale`."""
        return decoder.latent_scale(pipe.vae)

    def latent_size(self, pipe: Any, height: int | None, width: int | None) -> tuple[int, int]:
        """See `hooks.architectures.unet_size.latent_size`."""
        return unet_size.latent_size(pipe, height, width)

    def without_weights(self, pipe: Any) -> Any:
        """UNet, VAE and scheduler."""
        from hooks.architectures.unet_blank import without_weights

        return without_weights(pipe)

    def run_once(self, bare: Any, size: tuple[int, int], tokens: int) -> None:
        """Run UNet and decoder."""
        from hooks.architectures.unet_blank import run_once

        run_once(bare, size, tokens)


def place(address: str) -> Place | None:
    """What an address says of a site of the UNet, of what stands before it and behind it; None of any other.

    Examples
    --------
    >>> place("unet.up.2.attn.1.cross").label, place("unet.up.2.attn.1.cross").space
    ('2 · attn 1 · cross', 'denoising')
    >>> place("transformer.3") is None
    True
    """
    if address == "unet.conv_in":
        return Place((1, 1), "in", "conv_in", "denoising", DENOISING)
    match = _BLOCK.match(address)
    if match is None:
        return shared_place(address)
    side, number, _, inner = match.groups()
    rank, label = within_block(inner)
    group = side or "mid"
    labelled = label if number is None else f"{number} · {label}"
    return Place((GROUPS.index(group), int(number or 0), *rank), group, labelled, "denoising", DENOISING)


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


def _site(address: str, module: str, **more: Any) -> Site:
    return Site(address, module, place(address), **more)


def _unet_sites(unet: Any) -> Iterator[Site]:
    def site(address: str, path: str, **more: Any) -> Site:
        return _site(f"unet.{address}", f"unet.{path}", **more)

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


def _factors(unet: Any) -> dict[tuple[str | None, ...], int]:
    """By side, number and middle, as `_BLOCK` reads them: side of the latent over side of the block's grid."""
    factors: dict[tuple[str | None, ...], int] = {}
    factor = 1
    for b, block in enumerate(unet.down_blocks):
        factors["down", str(b), None] = factor
        factor *= 2 if getattr(block, "downsamplers", None) else 1
    factors[None, None, "mid"] = factor
    for b, block in enumerate(unet.up_blocks):
        factors["up", str(b), None] = factor
        factor //= 2 if getattr(block, "upsamplers", None) else 1
    return factors
