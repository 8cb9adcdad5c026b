"""Whether a run is guided: what is known of it before the model is loaded."""

from __future__ import annotations

from pathlib import Path

from probes.config.schema import Config
from probes.errors import UserError
from probes.json_text import parse_json
from probes.models.loading import Source

# what the pipelines' own signatures say where nothing else does; both guide
_PIPELINES = 7.5


def guidance_scale(config: Config, source: Source) -> float:
    """Return the scale of classifier-free guidance: the configuration's, the model's, or the pipeline's."""
    if config.sampler.guidance_scale is not None:
        return float(config.sampler.guidance_scale)
    card = _described(source.card).get("guidance_scale")
    return float(card) if isinstance(card, (int, float)) else _PIPELINES


def guided(config: Config, source: Source) -> bool:
    """Tell whether the U-Net is called with and without the prompt: a scale above 1, not fed to the U-Net itself."""
    distilled = _described(source.described("unet/config.json")).get("time_cond_proj_dim") is not None
    return guidance_scale(config, source) > 1 and not distilled


def check_negative_prompt(config: Config, source: Source, place: str) -> None:
    """Refuse a negative prompt that would change nothing.

    Parameters
    ----------
    place
        Where the negative prompt was written, for the error.

    Raises
    ------
    UserError
        There is a negative prompt and no guidance.
    """
    if not config.sampler.negative_prompt or guided(config, source):
        return
    scale = guidance_scale(config, source)
    whose = "" if config.sampler.guidance_scale is not None else ", the model's own"
    raise UserError(
        f"{place}: expected guidance, without which a negative prompt changes nothing, got a guidance scale of"
        f" {scale:g}{whose}: set sampler.guidance_scale (--guidance-scale) above 1, or take the negative prompt out"
    )


def _described(file: Path) -> dict:
    """What a file beside the weights says; nothing where it is not there or damaged, which loading will tell."""
    try:
        data = parse_json(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}
