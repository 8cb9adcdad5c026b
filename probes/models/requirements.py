"""Requirements of a configuration on its model, checked before anything is written."""

from __future__ import annotations

from typing import Any

from hooks.architectures.registry import architecture_of
from hooks.attention import definitions
from hooks.errors import HookError
from hooks.sites import resolve
from probes.config.schema import Config
from probes.errors import UserError
from probes.models import additions, loading
from probes.models.source import Source
from probes.models.weights import pick_device

_UNGUIDED = "noise_pred.unconditional"  # the one site that is not there without guidance


def guidance_scale(config: Config, source: Source) -> float:
    """Return the scale of classifier-free guidance: the configuration's, else the model's default."""
    scale = config.sampler.guidance_scale
    return loading.default_guidance(source) if scale is None else float(scale)


def uses_guidance(config: Config, source: Source) -> bool:
    """Return whether a run uses classifier-free guidance, so that the denoiser also runs without the prompt."""
    scale, true_scale = guidance_scale(config, source), config.sampler.true_cfg_scale
    return source.architecture.is_guided(source.denoiser_config, scale, true_scale)


def check_before_weights(config: Config, source: Source) -> None:
    """Raise a `UserError` if the configuration of a run does not fit the model's files; needs no weights.

    Checked are number format, guidance, negative prompt, the definition of word maps, and edits.
    """
    loading.pick_model_dtype(source, config.generate.dtype, "cuda")
    architecture, layout = source.architecture, source.layout
    custom = source.kind == "bundled" and architecture.transformer  # a pipeline of their own
    if config.generate.from_images is not None and (custom or not layout.pictured):
        raise UserError(
            "generate.from_images: expected a Stable Diffusion 1, 2, XL or 3 or FLUX.1, got"
            f" {source.name} ({layout.pipeline}), which is not run from pictures here: take it out"
        )
    scale = config.sampler.guidance_scale
    if scale is not None and not architecture.takes_guidance(source.denoiser_config):
        raise UserError(
            f"sampler.guidance_scale: expected none for this model, which was distilled without one (guidance_embeds is"
            f" false), got {scale:g}: take it out"
        )
    true_scale = config.sampler.true_cfg_scale
    if true_scale is not None and layout.guidance != "distilled":
        raise UserError(
            f"sampler.true_cfg_scale: expected none for {architecture.models}, whose guidance was not distilled, got"
            f" {true_scale:g}: put it in sampler.guidance_scale (--guidance-scale)"
        )
    place, negative = "sampler.negative_prompt", config.sampler.negative_prompt
    if negative and not architecture.takes_negative():
        raise UserError(
            f"{place}: expected none for {architecture.models}, whose pipeline takes none, got {negative!r:.60}:"
            " take it out"
        )
    if negative and not uses_guidance(config, source):
        if layout.guidance == "distilled":
            raise UserError(
                f"{place}: expected none for {architecture.models}, whose guidance was distilled into one branch, got"
                f" {negative!r:.60}: set sampler.true_cfg_scale above 1, or take it out"
            )
        whose = "" if scale is not None else ", the model's own"
        raise UserError(
            f"{place}: expected guidance, without which a negative prompt changes nothing, got a guidance scale of"
            f" {guidance_scale(config, source):g}{whose}: set sampler.guidance_scale (--guidance-scale) above 1, or"
            " take the negative prompt out"
        )
    definition, allowed = config.capture.definition, definitions.names(*architecture.readings)
    if config.capture.words and definition not in ("default", *allowed):
        raise UserError(
            f"capture.definition: expected one of {', '.join(allowed)} for {architecture.models}, got"
            f" {definition}, which is made of other attentions: set it to default, or take it out"
        )
    if config.edit is not None and architecture.transformer:
        raise UserError(
            f"edit: expected a Stable Diffusion 1, 2 or XL, got {source.name} ({layout.pipeline}), a diffusion"
            " transformer, whose weights are not edited here: take `edit` out"
        )
    if config.edit is not None and (source.added.loras or source.quantized):
        got = "a LoRA beside them" if source.added.loras else "quantized ones"
        raise UserError(f"edit: expected plain weights, which are edited, got {got}: take one of both out")


def image_size(pipe: Any, config: Config) -> tuple[int, int]:
    """Return (height, width) in pixels of a run's images; a `UserError` if the model cannot generate that size."""
    architecture = architecture_of(pipe)
    multiple = architecture.image_multiple(pipe)
    configured = config.sampler.height, config.sampler.width
    for name, pixels in zip(("height", "width"), configured):
        if pixels is not None and pixels % multiple:
            raise UserError(
                f"sampler.{name}: expected a multiple of {multiple} for this model, got {pixels}:"
                f" use {max(1, round(pixels / multiple)) * multiple}"
            )
    return architecture.image_size(pipe, *configured)


def check(config: Config, source: Source) -> None:
    """Raise a `UserError` if the model lacks the scheduler, steps, image size, edit or captured sites of a run."""
    architecture = source.architecture
    pipe = loading.meta_pipeline(source, config.sampler.scheduler, config.sampler.steps)
    if config.edit is not None:
        from probes.models import edits

        edits.check_edit(pipe, config.edit, source.tokenizers, source.token_limit)
    additions.check(source, config.generate.device)
    image_size(pipe, config)  # raises
    for way, method in (("tiled", "enable_tiling"), ("sliced", "enable_slicing")):
        if way in config.generate.decoding and not hasattr(pipe.vae, method):
            kind = type(pipe.vae).__name__
            raise UserError(
                f"generate.decoding: expected a way in which a {kind} decodes, got {way}: take it out"
            )
    if config.generate.offload and pick_device(config.generate.device).type == "cpu":
        raise loading.offload_error(config.generate.offload)
    capture = config.capture
    for field, patterns in (("sites", capture.sites), ("keep", capture.keep), ("pool", capture.pool)):
        for pattern in patterns if patterns and patterns != "default" else ():
            try:
                chosen = {site.address for site in resolve(pipe, [pattern])}
            except HookError as error:
                raise UserError(f"capture.{field}: {str(error).removeprefix('sites: ')}") from None
            if chosen == {_UNGUIDED} and not uses_guidance(config, source):
                raise UserError(
                    f"capture.{field}: expected sites that are there without guidance, got {pattern!r}:"
                    " take it out, or set sampler.guidance_scale above 1"
                )
    if source.layout.template and capture.pool:
        of_tokens = [site.address for site in resolve(pipe, capture.pool) if site.is_by_token]
        if of_tokens:
            raise UserError(
                f"capture.pool: expected sites of the image for {architecture.models}, whose pipeline alters a prompt"
                f" or puts more around it, got {of_tokens[0]}: leave it out, or name it in capture.keep"
            )
