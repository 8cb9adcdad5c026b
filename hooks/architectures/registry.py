"""The architectures that are known, and which of them a pipeline is of. Imports no torch."""

from __future__ import annotations

from typing import Any

from hooks.architectures.base import Architecture
from hooks.architectures.layout import Layout
from hooks.architectures.transformer import Transformer
from hooks.architectures.transformer_rows import ROWS
from hooks.architectures.unet import UNet
from hooks.architectures.unread import plain_pipeline, why_unread
from hooks.errors import HookError

ARCHITECTURES: list[Architecture] = [UNet(), *map(Transformer, ROWS)]
# names of the pipeline classes that can be read, as can their subclasses
SUPPORTED_PIPELINES = tuple(name for architecture in ARCHITECTURES for name in architecture.pipelines)


def drawing_pipelines() -> tuple[str, ...]:
    """Names of the pipeline classes that a run can draw with."""
    return tuple(layout.pipeline for architecture in ARCHITECTURES for layout in architecture.layouts)


def drawn_by(pipeline: str) -> tuple[Architecture, Layout]:
    """The architecture that a run draws with, and what its pipeline is made of, by the name of the pipeline's class."""
    known = {layout.pipeline: (one, layout) for one in ARCHITECTURES for layout in one.layouts}
    return known[pipeline]


def architecture_of(pipe: Any) -> Architecture:
    """The architecture of a pipeline's denoiser."""
    classes = {base.__name__ for base in type(pipe).__mro__}
    for architecture in ARCHITECTURES:
        if classes & set(architecture.pipelines):
            return architecture
    name = type(pipe).__name__
    reasons = [why for base in type(pipe).__mro__ if (why := why_unread(base.__name__))]
    if getattr(pipe, "transformer", None) is not None:
        reasons.append("its denoiser is a transformer that is not known")
    reason = f" ({reasons[0]})" if reasons else ""
    remedy = "choose one of these"
    if plain := plain_pipeline(name, SUPPORTED_PIPELINES):
        remedy = f"use diffusers.{plain}.from_pipe(pipe)"
    raise HookError(
        f"pipeline: expected one of hooks.sites.SUPPORTED_PIPELINES, but got {name}{reason}: {remedy}"
    )
