"""What a model can do of what a configuration asks: size, sites, what is kept; before anything is written."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from hooks import sites
from hooks.errors import HookError
from probes.config.schema import Config
from probes.errors import UserError
from probes.models import edits, loading
from probes.models.description import read_card
from probes.models.sizes import image_size

_UNGUIDED = "noise_pred.unconditional"  # the one site that is not there without guidance


def check(config: Config, source: loading.Source) -> None:
    """Refuse what the model cannot do: its class, scheduler, steps, size, sites, what is kept.

    Raises
    ------
    UserError
        Names the field, or what the description lacks.
    """
    pipe = loading.without_weights(source, config.sampler.scheduler, config.sampler.steps)
    default = inspect.signature(type(pipe).__call__).parameters["guidance_scale"].default
    check_edit(pipe, config, source)
    check_pipeline(pipe, config, float(read_card(source).get("guidance_scale", default)))


def check_edit(pipe: Any, config: Config, source: loading.Source) -> None:
    """Refuse an edit of sites that the model does not have, or with words that its tokenizers cannot spell."""
    if config.edit is not None:
        edits.require(pipe, config.edit, *loading.tokenizers(source))


def check_pipeline(pipe: Any, config: Config, default_guidance: float) -> None:
    """Refuse what a pipeline cannot do; it needs no weights.

    Parameters
    ----------
    default_guidance
        The guidance scale where the configuration leaves it to the model.
    """
    image_size(pipe, config)  # raises
    scale = config.sampler.guidance_scale
    guided = (
        default_guidance if scale is None else scale
    ) > 1 and pipe.unet.config.time_cond_proj_dim is None
    capture = config.capture
    for field, patterns in (("sites", capture.sites), ("keep", capture.keep), ("pool", capture.pool)):
        if patterns and patterns != "default":
            _check_sites(pipe, f"capture.{field}", patterns, guided)


def _check_sites(pipe: Any, field: str, patterns: Sequence[str], guided: bool) -> None:
    for pattern in patterns:
        try:
            chosen = {site.address for site in sites.resolve(pipe, [pattern])}
        except HookError as error:
            raise UserError(f"{field}: {str(error).removeprefix('sites: ')}") from None
        if chosen == {_UNGUIDED} and not guided:
            raise UserError(
                f"{field}: expected sites that are there without guidance, got {pattern!r}:"
                " take it out, or set sampler.guidance_scale above 1"
            )
