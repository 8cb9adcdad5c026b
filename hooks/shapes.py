"""The shape of a row at each site, from the modules' descriptions alone: nothing is computed.

Denoiser and decoder are built anew without weights (torch's meta device) and run once with the hooks that a
probe attaches; a text encoder's shapes follow from its configuration.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from hooks.architectures.base import Architecture
from hooks.architectures.batch import Batch
from hooks.architectures.registry import architecture_of
from hooks.architectures.site import Site, module_at
from hooks.architectures.text_encoders import TEXT_ENCODERS, text_config
from hooks.attach import attach_reader


def shapes(pipe: Any, height: int | None = None, width: int | None = None) -> dict[str, tuple[int, ...]]:
    """Shape of a row at each site, by address, for an image of this size in pixels or the model's own."""
    architecture = architecture_of(pipe)
    bare = architecture.without_weights(pipe)
    row: dict[str, tuple[int, ...]] = {}

    batches: list[Batch] = []

    def keep(site: Site) -> Callable[[Tensor], None]:
        def receive(values: Tensor) -> None:
            row[site.address] = tuple((site.of_stream(values, batches[0]) if batches else values).shape[1:])

        return receive

    def before(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        inputs = architecture.inputs(bare, args, kwargs)
        batches.append(inputs.batch)
        made = {"latent": inputs.latent, "text.final": inputs.text, "text.pooled": inputs.pooled}
        row.update({name: tuple(one.shape[1:]) for name, one in made.items() if one is not None})

    architecture.denoiser(bare).register_forward_pre_hook(before, with_kwargs=True)
    for site in architecture.sites(bare):
        if site.read != "pipeline":
            attach_reader(module_at(bare, site.module), site, keep(site))
    size = architecture.latent_size(pipe, height, width)
    with torch.no_grad():
        architecture.call_once(bare, size, architecture.prompt_tokens(pipe))
        architecture.decode_once(bare, size)
    for site in architecture.sites(pipe):
        if site.address not in row:  # predictions and the final latent are of the latent's shape
            row[site.address] = (
                _text_shape(architecture, pipe, site) if site.space == "prompt" else row["latent"]
            )
    return row


def _text_shape(architecture: Architecture, pipe: Any, site: Site) -> tuple[int, ...]:
    name = site.address.split(".")[0]
    width, tokens = (
        text_config(getattr(pipe, TEXT_ENCODERS[name])).hidden_size,
        architecture.tokens(pipe, name),
    )
    return (tokens, width) if site.heads is None else (tokens, site.heads, width // site.heads)
