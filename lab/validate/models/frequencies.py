"""Frequencies of things in a benchmark model's images: ground truth, and the exact checker's counts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from PIL import Image

from analysis.stats.sign_flips import sign_flip_test
from probes.toyworld.checker import THINGS, read_images
from probes.toyworld.scene import parse
from probes.toyworld.truth import planted
from probes.toyworld.world import GROUPS, load_world


def seen_and_planted(
    samples: pd.DataFrame, images: Sequence[Image.Image] | np.ndarray, model: str
) -> pd.DataFrame:
    """Return what the checker sees and what was planted.

    Parameters
    ----------
    samples : pandas.DataFrame
        One row per image: ``triplet``, ``seed``, ``indicator``, ``prompt``.
    images : sequence of PIL.Image.Image, or numpy.ndarray of shape (n, 64, 64, 3)
    model : str
        Name of the world: ``toyworld``, ``toyworld-mirror``, ``toyworld-null``, ``toyworld-work``.

    Returns
    -------
    pandas.DataFrame
        One row per (image, thing): ``triplet``, ``seed``, ``indicator``, ``thing``, ``seen`` (bool), ``planted``
        (probability), ``named`` (the caption names it).

    Raises
    ------
    UserError
        Nothing was planted in the model.
    """
    world = load_world(model)
    seen = read_images(images)
    truths = {prompt: planted(prompt, world) for prompt in samples["prompt"].unique()}
    named = {prompt: parse(prompt, world).things for prompt in truths}
    tables = [
        samples[["triplet", "seed", "indicator"]].assign(
            thing=thing,
            seen=seen[thing].to_numpy(),
            planted=[truths[prompt][thing] for prompt in samples["prompt"]],
            named=[thing in named[prompt] for prompt in samples["prompt"]],
        )
        for thing in THINGS
    ]
    return pd.concat(tables, ignore_index=True)


def frequency_table(table: pd.DataFrame, groups: Sequence[str] = GROUPS) -> pd.DataFrame:
    """Frequency of what no caption names, one row per thing: planted and seen for each indicator, images, p-values.

    The test is of seen(feminine) - seen(masculine), paired by prompt, with flips of sign and max-T over things.
    """
    free = table[~table["named"] & table["indicator"].isin(groups)]
    open_things = free.groupby("thing")["planted"].max()
    free = free[free["thing"].isin(open_things[open_things > 0].index)]
    means = free.groupby(["thing", "indicator"], sort=False)[["planted", "seen"]].mean().unstack("indicator")
    out = pd.DataFrame(index=means.index)
    for group in groups:
        out[f"{group} planted"] = means["planted", group]
        out[f"{group} seen"] = means["seen", group]
    out["images"] = free.groupby("thing").size() // len(groups)
    by_prompt = free.groupby(["triplet", "thing", "indicator"])["seen"].mean().unstack("indicator")
    difference = (by_prompt["feminine"] - by_prompt["masculine"]).unstack("thing")[out.index]
    test = sign_flip_test(difference.to_numpy(dtype=float))
    out["p"], out["p adjusted"] = test.p_value, test.p_adjusted
    return out
