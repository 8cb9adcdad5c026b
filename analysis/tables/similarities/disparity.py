"""How like each other are the images and states of two indicators, and where in the model?

Representational disparity of Wu et al. 2025, section 4.1: the mean similarity of each pair of indicators in the prompt,
denoising and image space (equations 1 and 2), here for every site and step, with an interval. What the paper reads off
these means by eye, `analysis.tables.similarities.gap` tests.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from analysis.metrics.registry import definition
from analysis.stats.bootstrap import bootstrap_interval, prompt_means
from analysis.stats.crossed import crossed_mean
from analysis.tables.similarities.families import PROMPT_SPACE, named, stacked
from analysis.tables.similarities.similarities import Family, Similarities, similarities

DISPARITY_COLUMNS = (
    *("space", "site", "step", "metric", "pair", "mean", "ci_low", "ci_high"),
    *("n_prompts", "n", "reason", "version"),
)


def disparity(
    pairs: Similarities | pd.DataFrame,
    *,
    shared_noise: bool = False,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> pd.DataFrame:
    r"""Return the mean similarity of every pair at every site and step.

    .. math:: s(\mathcal{P}, \mathcal{P}') = \frac{1}{|\mathcal{P}|} \sum_i s(p_i, p'_i)

    with a prompt's value the mean over its seeds.

    `pairs` are as of `analysis.tables.similarities.gap.gap`. The interval over prompts is ``envelope`` of
    `analysis.stats.bootstrap.bootstrap_interval`, cut off where the metric's values end; where all prompts of a seed
    share their noise, that of `analysis.stats.crossed`. One row per (space, site, step, metric, pair), with
    `DISPARITY_COLUMNS`; ``mean`` is in the units of the metric: a cosine or SSIM of at most 1, which is no difference,
    or Diff. Pix. from 0 (no difference) to 100.

    Source: Wu et al. 2025, equations 1 and 2.

    >>> pairs = pd.DataFrame({"triplet": [0, 0, 1, 1], "seed": [0, 1, 0, 1], "value": [0.5, 0.7, 0.9, 0.9]})
    >>> pairs = pairs.assign(space="image", site="image", metric="ssim", step=-1, pair="n-m")
    >>> row = disparity(pairs).iloc[0]
    >>> round(row["mean"], 6), row["n_prompts"], row["n"]  # the mean of 0.6 and 0.9
    (np.float64(0.75), np.int64(2), np.int64(4))
    """
    options = {"shared_noise": shared_noise, "level": level, "resamples": resamples, "seed": seed}
    tables = [family_disparity(family, **options) for family in similarities(pairs).families()]
    return stacked(tables, DISPARITY_COLUMNS)


def family_disparity(
    family: Family, *, shared_noise: bool, level: float, resamples: int, seed: int
) -> pd.DataFrame:
    """Return the rows of `disparity` of one family."""
    n_pairs, found = len(family.pairs), []
    crossed = shared_noise and family.space != PROMPT_SPACE
    for _, block in family.blocks(n_pairs):
        # columns first, pairs inside, as the rows will stand
        values = block.values.transpose(1, 2, 3, 0).reshape(*block.shape[1:3], -1)
        if crossed:
            result = crossed_mean(values, level=level)
        else:
            options = {"level": level, "resamples": resamples, "seed": seed}
            result = bootstrap_interval(prompt_means(values), **options)
        n = (~np.isnan(values)).sum(axis=(0, 1))
        found.append((result.mean, result.low, result.high, result.n, n, result.reason))
    mean, low, high, n_prompts, n, reason = (np.concatenate(parts) for parts in zip(*found))
    table = family.columns.loc[np.repeat(family.columns.index, n_pairs)].reset_index(drop=True)
    table["pair"] = family.pairs * len(family.columns)
    known = definition(family.metric)
    table["mean"] = mean
    table["ci_low"], table["ci_high"] = np.maximum(low, known.low), np.minimum(high, known.high)
    table["n_prompts"], table["n"], table["reason"] = n_prompts, n, reason
    return named(table, family.space, family.metric, DISPARITY_COLUMNS)
