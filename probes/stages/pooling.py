"""Pooled activations of texts drawn with a pipeline in hand, without a run: for scores of sites from Python."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from hooks import Probe
from hooks.prompt.positions import GROUPS, position_groups

BATCH = 16  # images drawn at a time


@dataclass(frozen=True)
class Pooled:
    """Activations by place: address of a site, and group of token positions ("" where the mean is over space)."""

    # shape (rows, calls, channels); NaN where a row's prompt has no token of the group
    values: dict[tuple[str, str], NDArray[np.float32]]
    timesteps: dict[tuple[str, str], list[float]]  # one a call; NaN at sites that are read once


def collect(
    pipe: Any,
    texts: Sequence[str],
    words: Sequence[str],
    noise: Sequence[int],
    *,
    sites: Sequence[str],
    batch: int = BATCH,
    **sampling: Any,
) -> Pooled:
    """Draw texts, each from the noise of its seed, and keep what is pooled at some sites, by groups around its word."""
    groups = [position_groups(pipe.tokenizer, text, word) for text, word in zip(texts, words, strict=True)]
    made: dict[tuple[str, str], list[NDArray[np.float32]]] = {}
    timesteps: dict[tuple[str, str], list[float]] = {}
    for start in range(0, len(texts), batch):
        chosen = slice(start, start + batch)
        with Probe(pipe, pool=tuple(sites), position_groups=groups[chosen]) as probe:
            pipe(
                prompt=list(texts[chosen]),
                generator=[torch.Generator("cpu").manual_seed(seed) for seed in noise[chosen]],
                output_type="latent",
                **sampling,
            )
        for site, record in probe.pooled.items():
            values = record.values.numpy()
            for index, group in enumerate(GROUPS if values.ndim == 4 else ("",)):
                place = (site, group)
                made.setdefault(place, []).append(
                    np.moveaxis(values[:, :, index] if group else values, 1, 0).astype(np.float32)
                )
                timesteps[place] = [float(one) for one in record.timestep]
    return Pooled({place: np.concatenate(rows) for place, rows in made.items()}, timesteps)
