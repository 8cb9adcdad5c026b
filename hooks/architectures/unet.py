"""Stable Diffusion 1, 2 and XL: denoisers of the class UNet2DConditionModel. Imports no torch."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hooks.architectures import decoder
from hooks.architectures.base import Architecture
from hooks.architectures.batch import Inputs
from hooks.architectures.layout import Component, Layout, MisfitError, SingleFile
from hooks.architectures.places import DENOISING, GROUPS, Place, shared_place, within_block
from hooks.architectures.site import BY_STEP, Site, children, module_at, tensor_of
from hooks.architectures.text_encoders import text_core, text_sites
from hooks.architectures.unet_batch import batch_of, three_way
from hooks.architectures.unet_single_file import single_file

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
TIMES = 6  # numbers that XL gets of sizes and crops
TEXT = 2  # place of the text among the positional arguments of a UNet
_BLOCK = re.compile(r"^unet\.(?:(down|up)\.(\d+)|(mid))(?:\.(.+))?$")
_UNREAD = (
    "the pipeline takes the states before the last layer of this text encoder, so that nothing written here reaches an "
    "image: write at the layer before it"
)
_AFTER = (
    "it is read off what the UNet returned: write at unet.up.* for the noise prediction, or at the latents"
)
TOKENIZERS = ("CLIPTokenizer", "CLIPTokenizerFast")
TEXT_MODELS = ("CLIPTextModel", "CLIPTextModelWithProjection")


def _layout(pipeline: str, *text_models: tuple[str, ...], pooled: bool = False) -> Layout:
    """The components of a pipeline with text encoders of these classes."""
    numbers = ("", "_2")[: len(text_models)]
    return Layout(
        pipeline,
        tuple(Component(f"tokenizer{number}", "transformers", TOKENIZERS) for number in numbers),
        tuple(
            Component(f"text_encoder{number}", "transformers", classes)
            for number, classes in zip(numbers, text_models)
        ),
        Component("unet", "diffusers", ("UNet2DConditionModel",)),
        Component("vae", "diffusers", ("AutoencoderKL",)),
        pooled=pooled,
    )


class UNet(Architecture):
    """A convolutional UNet with cross-attention."""

    name = "Stable Diffusion"
    models = "Stable Diffusion 1.x, 2.x or XL"
    denoiser_name = "U-Net"
    denoiser_part = "unet"
    pipelines = SUPPORTED_PIPELINES
    layouts = (
        _layout("StableDiffusionPipeline", TEXT_MODELS),
        _layout("StableDiffusionXLPipeline", TEXT_MODELS, TEXT_MODELS[1:], pooled=True),
    )
    predicts = ("epsilon", "v_prediction", "sample")

    def place(self, address: str) -> Place | None:
        """See `place`."""
        return place(address)

    def check(self, pipe: Any) -> None:
        """Refuse a UNet that takes or gives anything but a latent, too."""
        super().check(pipe)
        config, latent = pipe.unet.config, _latent_channels(pipe)
        if (config.in_channels, config.out_channels) != (latent, latent):
            expected = f"{latent} channels in and out, as vae/config.json has in its latents"
            got = f"{config.in_channels} and {config.out_channels}"
            remedy = f"{self.another}, not one for inpainting or editing"
            raise MisfitError(self.denoiser_part, expected, got, remedy)

    def single_file(self, shapes: Mapping[str, tuple[int, ...]]) -> SingleFile:
        """Tell which of its pipelines a file in the original layout of Stable Diffusion holds."""
        return single_file(shapes, self.another)

    def sites(self, pipe: Any) -> Iterator[Site]:
        """All sites, in the order in which they run."""
        for site in text_sites(pipe, "unet", place):
            yield replace(site, read_only=_UNREAD) if _is_xl(pipe) and _unread(pipe, site) else site
        yield _site("latent", "unet", read="pipeline", read_only=BY_STEP)
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
        """Return why `x0_pred` cannot be computed, where it cannot."""
        return x0_unavailable(pipe.scheduler) if address == "x0_pred" else None

    def attentions(self, pipe: Any, kind: str) -> Iterator[tuple[Site, int]]:
        """The UNet's cross- or self-attentions, with the factor by which their block is smaller than the latent."""
        factors = _factors(pipe.unet)
        for site in _unet_sites(pipe.unet):
            is_attention = site.module.endswith((".attn1", ".attn2"))
            if is_attention and module_at(pipe, site.module).is_cross_attention == (kind == "cross"):
                yield site, factors[_BLOCK.match(site.address).group(1, 2, 3)]

    def inputs(self, pipe: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Inputs:
        """Return what the UNet is given."""
        names = ("sample", "timestep", "encoder_hidden_states")
        sample, timestep, states = (args[i] if i < len(args) else kwargs.get(n) for i, n in enumerate(names))
        masks = (kwargs.get(name) for name in ("encoder_attention_mask", "attention_mask"))
        batch = batch_of(pipe, sample)
        # an inpainting UNet is given a mask and an image behind the latent's channels
        latent = batch.conditional(sample, "latent")[:, : _latent_channels(pipe)]
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
        from hooks.architectures.prediction import guided_prediction, predict_x0, signal_level

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
            yield "x0_pred", predict_x0(inputs.latent, guided, level, self.prediction_type(pipe.scheduler))

    def final_latent(self, pipe: Any, given: Tensor) -> Tensor:
        """See `Architecture.final_latent`; XL's pipelines normalize latents where the VAE says so."""
        return decoder.final_latent(pipe.vae, given, normalized=_is_xl(pipe))

    def guided(self, config: Mapping[str, Any], scale: float, true_scale: float | None = None) -> bool:
        """See `Architecture.guided`; a distilled UNet takes the scale as an input, and is called once."""
        return scale > 1 and config.get("time_cond_proj_dim") is None

    def decoding_dtype(self, pipe: Any, dtype: str) -> str:
        """See `Architecture.decoding_dtype`; XL's pipeline keeps to float32 where its decoder says so.

        That decoder overflows in float16; its description has ``force_upcast``, which the other pipelines do not read.
        """
        upcast = _is_xl(pipe) and dtype == "float16" and pipe.vae.config.force_upcast
        return "float32" if upcast else dtype

    def image_multiple(self, pipe: Any) -> int:
        """See `Architecture.image_multiple`: the UNet halves its input once a level but the last.

        Other sizes would be cropped on the way up.
        """
        return self.latent_scale(pipe) * 2 ** (len(pipe.unet.config.block_out_channels) - 1)

    def text_arguments(self, outputs: Sequence[Any]) -> dict[str, Any]:
        """The first encoder's last states; of XL both encoders' last but one, and the second's pooled text."""
        import torch

        if len(outputs) == 1:
            return _text_arguments(outputs[0][0])
        return _text_arguments(
            torch.cat([output.hidden_states[-2] for output in outputs], -1), outputs[-1][0]
        )

    def blank_text(self, pipe: Any, tokens: int) -> dict[str, Any]:
        """See `Architecture.blank_text`."""
        import torch

        config = pipe.unet.config
        width, pooled = config.cross_attention_dim, None
        if config.addition_embed_type == "text_time":
            length = config.projection_class_embeddings_input_dim - TIMES * config.addition_time_embed_dim
            pooled = torch.zeros(1, length, device="meta")
        width = width if isinstance(width, int) else width[0]
        return _text_arguments(torch.zeros(1, tokens, width, device="meta"), pooled)

    def blank_call(self, pipe: Any, size: tuple[int, int], text: Mapping[str, Any]) -> dict[str, Any]:
        """See `Architecture.blank_call`."""
        import torch

        config = pipe.unet.config
        distilled = config.time_cond_proj_dim  # such models take the guidance scale as an input
        return {
            "sample": torch.zeros(1, config.in_channels, *size, device="meta"),
            "timestep": torch.zeros(1, device="meta"),
            "timestep_cond": None if distilled is None else torch.zeros(1, distilled, device="meta"),
            **text,
        }


def _text_arguments(states: Tensor, pooled: Tensor | None = None) -> dict[str, Any]:
    added = None
    if pooled is not None:
        added = {"text_embeds": pooled, "time_ids": pooled.new_zeros(1, TIMES)}
    return {"encoder_hidden_states": states, "added_cond_kwargs": added}


def _unread(pipe: Any, site: Site) -> bool:
    """Tell whether a site lies behind the states that XL takes of its first text encoder: those before the last layer.

    Of the second encoder the last layer makes the pooled text.
    """
    core = text_core(pipe, "text_encoder")
    if core is None:
        return False
    last = core.count(pipe) - 1
    return f"{site.address}.".startswith(f"text.layers.{last}.")


def _is_xl(pipe: Any) -> bool:
    return "XL" in type(pipe).__name__


def _latent_channels(pipe: Any) -> int:
    return pipe.vae.config.latent_channels


def place(address: str) -> Place | None:
    """Return what an address says of a site of the UNet, of what stands before it and behind it; None of any other.

    Examples
    --------
    >>> place("unet.up.2.attn.1.cross").label, place("unet.up.2.attn.1.cross").space
    ('2 · attn 1 · cross', 'denoising')
    >>> place("transformer.3") is None
    True
    """
    if address == "unet.conv_in":
        return Place((1, 1), "in", "conv_in", "denoising", DENOISING, between_blocks=True)
    match = _BLOCK.match(address)
    if match is None:
        return shared_place(address)
    side, number, _, inner = match.groups()
    rank, label = within_block(inner)
    group = side or "mid"
    labelled = label if number is None else f"{number} · {label}"
    rank = (GROUPS.index(group), int(number or 0), *rank)
    return Place(rank, group, labelled, "denoising", DENOISING, between_blocks=inner is None)


def x0_unavailable(scheduler: Any) -> str | None:
    """Return why `x0_pred` cannot be computed under this scheduler, or None if it can."""
    name = type(scheduler).__name__
    if getattr(scheduler, "alphas_cumprod", None) is None:
        return f"{name} has no alphas_cumprod"
    if getattr(scheduler.config, "use_flow_sigmas", False):
        return f"{name} has use_flow_sigmas on"
    prediction_type = getattr(scheduler.config, "prediction_type", "epsilon")
    if prediction_type not in UNet.predicts:
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
        yield from block(f"down.{b}", f"down_blocks.{b}", module)
    if unet.mid_block is not None:
        yield from block("mid", "mid_block", unet.mid_block)
    for b, module in enumerate(unet.up_blocks):
        yield from block(f"up.{b}", f"up_blocks.{b}", module)


def _projections(attention: Any) -> dict[str, tuple[str, tuple[int, int] | None]]:
    """Return where an attention's query, key and value come from, and which slice of it each is."""
    if runs_fused(attention):
        if attention.is_cross_attention:
            return {"query": ("to_q", None), "key": ("to_kv", (0, 2)), "value": ("to_kv", (1, 2))}
        return {name: ("to_qkv", (i, 3)) for i, name in enumerate(PROJECTIONS)}
    return {name: (f"to_{name[0]}", None) for name in PROJECTIONS}


def runs_fused(attention: Any) -> bool:
    """Return whether the processor in use runs the fused projections (which stay there after unfusing)."""
    processor = type(getattr(attention, "processor", None)).__name__
    return getattr(attention, "fused_projections", False) and processor.startswith("Fused")


def _factors(unet: Any) -> dict[tuple[str | None, ...], int]:
    """Factors by side, number and middle, as `_BLOCK` reads them: side of the latent over side of the block's grid."""
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
