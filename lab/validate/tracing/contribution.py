"""Attention contribution: how much of what a cross-attention gives comes through one word."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hooks import Probe
from hooks import sites as site_table
from hooks.errors import HookError
from hooks.sites import module_at
from lab.validate.tracing.site_values import SiteValues
from probes.stages.trace.triplet_draw import TripletDraw

PARTS = ("query", "key", "value")


def attention_contribution(
    pipe: Any,
    draws: Sequence[TripletDraw],
    indicator: str,
    *,
    steps: int,
    guidance_scale: float | None = None,
) -> SiteValues:
    r"""Return the norm of what a word adds to each cross-attention's output, over the norm of the output.

    At a pixel `n` the word's tokens `j` add :math:`\sum_j W_O\,[a^1_{nj} v^1_j; \dots; a^H_{nj} v^H_j]`; the ratio of
    norms is averaged over pixels. Only the conditional half of the batch is read.

    Parameters
    ----------
    pipe
        A pipeline of Stable Diffusion.
    draws
        Triplets, each with its noise; all are rows of one batch.
    indicator : str
        Whose word, see `TripletDraw.groups`.
    steps, guidance_scale
        Of the pipeline.

    Returns
    -------
    SiteValues
        From 0 up; 1 where the whole output is as long as what comes through the word.

    Raises
    ------
    HookError
        A prompt in which the word has no one place.

    Source
    ------
    Norms of weighted vectors instead of weights: Kobayashi et al. 2020.
    """
    for one in draws:
        if not one.groups[indicator]:
            raise HookError(f"contribution: {one.prompts[indicator]!r} has no one place for its word")
    sites = site_table.attention_sites(pipe, "cross")
    kept = [f"{site.address}.{part}" for site in sites for part in PARTS]
    guidance = {} if guidance_scale is None else {"guidance_scale": guidance_scale}
    with Probe(pipe, keep=kept) as probe:
        pipe(
            [one.prompts[indicator] for one in draws],
            generator=[torch.Generator("cpu").manual_seed(one.noise_seed) for one in draws],
            num_inference_steps=steps,
            output_type="latent",
            **guidance,
        )
    words = [list(one.groups[indicator]["word"]) for one in draws]
    found = [
        _ratios(
            module_at(pipe, site.module),
            *(probe.kept[f"{site.address}.{part}"].values for part in PARTS),
            words,
        )
        for site in sites
    ]
    return SiteValues(tuple(site.address for site in sites), np.stack(found, axis=1))


def _ratios(
    attention: Any, query: Tensor, key: Tensor, value: Tensor, words: Sequence[Sequence[int]]
) -> NDArray[np.float64]:
    """By row and call, from queries (calls, rows, pixels, channels), keys and values (calls, rows, tokens, ...)."""
    out = attention.to_out[0].weight.detach().float().cpu()
    ratios = np.empty((query.shape[1], query.shape[0]))
    for row, word in enumerate(words):
        for call in range(len(query)):
            q, k, v = (
                one[call, row].unflatten(-1, (attention.heads, -1)).transpose(0, 1)
                for one in (query, key, value)
            )
            weights = (q @ k.transpose(-1, -2) * attention.scale).softmax(-1)
            whole, through = (
                (weights[..., some] @ v[:, some]).transpose(0, 1).flatten(1) @ out.T
                for some in (slice(None), list(word))
            )
            ratios[row, call] = float((through.norm(dim=-1) / whole.norm(dim=-1)).mean())
    return ratios
