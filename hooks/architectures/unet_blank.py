"""The arguments of a UNet's call on torch's meta device, where it computes nothing but shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

TIMES = 6  # numbers that XL is told of sizes and crops


def text_arguments(outputs: Sequence[Any]) -> dict[str, Any]:
    """See `UNet.text_arguments`."""
    if len(outputs) == 1:
        return _arguments(outputs[0][0], None)
    states = [output.hidden_states[-2] for output in outputs]
    return _arguments(torch.cat(states, dim=-1), outputs[-1][0])


def blank_text(config: Any, tokens: int) -> dict[str, Any]:
    """See `Architecture.blank_text`; `config` is that of the UNet."""
    width = config.cross_attention_dim
    states = torch.zeros(1, tokens, width if isinstance(width, int) else width[0], device="meta")
    if config.addition_embed_type != "text_time":
        return _arguments(states, None)
    pooled = config.projection_class_embeddings_input_dim - TIMES * config.addition_time_embed_dim
    return _arguments(states, torch.zeros(1, pooled, device="meta"))


def _arguments(states: Tensor, pooled: Tensor | None) -> dict[str, Any]:
    added = None
    if pooled is not None:
        added = {"text_embeds": pooled, "time_ids": torch.zeros(1, TIMES, device="meta")}
    return {"encoder_hidden_states": states, "added_cond_kwargs": added}


def blank_call(config: Any, size: tuple[int, int], text: Mapping[str, Any]) -> dict[str, Any]:
    """See `Architecture.blank_call`; `config` is that of the UNet."""
    distilled = config.time_cond_proj_dim  # such models are told the guidance scale
    return {
        "sample": torch.zeros(1, config.in_channels, *size, device="meta"),
        "timestep": torch.zeros(1, device="meta"),
        "timestep_cond": None if distilled is None else torch.zeros(1, distilled, device="meta"),
        **text,
    }
