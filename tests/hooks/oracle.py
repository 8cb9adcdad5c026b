"""Attention probabilities computed by diffusers itself, on a run of its own: what the hooks are compared with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from hooks.sites import attention_sites, module_at


class Recording:
    """An attention processor that keeps the result of `Attention.get_attention_scores` at every call."""

    def __init__(self) -> None:
        self.calls: list[Tensor] = []  # (rows of all branches, heads, pixels, tokens)

    def __call__(
        self,
        attn: Any,
        hidden_states: Tensor,
        encoder_hidden_states: Tensor | None = None,
        attention_mask: Tensor | None = None,
    ) -> Tensor:
        context = hidden_states if encoder_hidden_states is None else encoder_hidden_states
        query, key, value = (
            attn.head_to_batch_dim(projection)
            for projection in (attn.to_q(hidden_states), attn.to_k(context), attn.to_v(context))
        )
        scores = attn.get_attention_scores(query, key, attention_mask)
        self.calls.append(scores.float().unflatten(0, (-1, attn.heads)))
        mixed = attn.batch_to_head_dim(scores @ value)
        return attn.to_out[1](attn.to_out[0](mixed))


def recorded(pipe: Any, draw: Callable[[], Any], kind: str = "cross") -> dict[str, Tensor]:
    """Probabilities by layer, shape (calls, rows of all branches, heads, pixels, tokens)."""
    before = dict(pipe.unet.attn_processors)
    kept = {}
    try:
        for site in attention_sites(pipe, kind):
            kept[site.address] = Recording()
            module_at(pipe, site.module).set_processor(kept[site.address])
        draw()
    finally:
        pipe.unet.set_attn_processor(before)
    return {address: torch.stack(processor.calls).cpu() for address, processor in kept.items()}
