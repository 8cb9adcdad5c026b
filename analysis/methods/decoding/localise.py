"""Probe separability as a method of localisation: a score for every site of a pipeline in hand.

It ranks sites by what can be read there. Readable is not used, so a method that intervenes must be held beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from analysis.methods.decoding import fit, places
from analysis.methods.decoding.defaults import SITES
from probes.prompts.alignment import fill
from probes.prompts.plan import noise_seed
from probes.stages import pooling


def site_scores(
    pipe: Any,
    prompts: Sequence[str],
    *,
    words: tuple[str, str] = ("man", "woman"),
    seeds: Sequence[int] = (0, 1),
    sites: Sequence[str] = SITES,
    choice: fit.Choice | None = None,
    **sampling: Any,
) -> pd.DataFrame:
    """Draw prompts with two words and score every site by how well probes tell these apart.

    Parameters
    ----------
    pipe : DiffusionPipeline
    prompts : sequence of str
        With ``{person}`` where the word goes.
    words : (str, str)
        Label 1, label 0.
    seeds : sequence of int
        Noise of each prompt.
    sites : sequence of str
        Addresses or globs, see `hooks.sites`.
    choice : Choice, optional
    **sampling
        Of the pipeline's call, such as ``num_inference_steps=10, guidance_scale=3.0``.

    Returns
    -------
    DataFrame
        See `analysis.methods.decoding.fit.separability`: one row per place, highest ``score`` first; ``step`` is -1 at
        sites that are read once.

    Raises
    ------
    hooks.HookError
        A site is not there.
    """
    texts, rows = [], []
    for triplet, template in enumerate(prompts):
        for seed in seeds:
            for word in words:
                texts.append(fill(template, word)[0])
                rows.append(
                    {"triplet": triplet, "seed": seed, "indicator": word, "noise": noise_seed(template, seed)}
                )
    samples = pd.DataFrame(rows)
    made = pooling.collect(
        pipe, texts, samples["indicator"].tolist(), samples["noise"].tolist(), sites=sites, **sampling
    )
    found = places.Activations(samples, dict(made.values), dict(made.timesteps))
    chosen = places.Roles(words[0], words[1], "", {})
    table = fit.decoding(found, chosen, np.full(len(samples), np.nan), choice)
    return fit.separability(table)
