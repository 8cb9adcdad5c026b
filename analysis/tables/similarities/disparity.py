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
from analysis.tables.similarities.gap import GapChoices
from analysis.tables.similarities.similarities import Similarities

DISPARITY_COLUMNS = (
    *("space", "site", "step", "metric", "pair", "mean", "ci_low", "ci_high"),
    *("n_prompts", "n", "reason", "version"),
)


def disparity(family: Similarities, choices: GapChoices) -> pd.DataFrame:
    r"""Return the mean similarity of every pair at every site and step.

    .. math:: s(\mathcal{P}, \mathcal{P}') = \frac{1}{|\mathcal{P}|} \sum_i s(p_i, p'_i)

    with a prompt's value the mean over its seeds. The interval over prompts is ``envelope`` of
    `analysis.stats.bootstrap.bootstrap_interval`, cut off where the metric's values end; where all prompts of a seed
    share their noise, that of `analysis.stats.crossed`. One row per (site, step, pair), with `DISPARITY_COLUMNS`;
    ``mean`` is in the units of the metric: a cosine or SSIM of at most 1, which is no difference, or Diff. Pix. from 0
    (no difference) to 100.

    Source: Wu et al. 2025, equations 1 and 2.
    """
    n_pairs, tables, known = len(family.pairs), [], definition(family.metric)
    for _, block in family.blocks(n_pairs):
        # columns first, pairs inside, as the rows will stand
        values = block.values.transpose(1, 2, 3, 0).reshape(*block.values.shape[1:3], -1).astype(np.float64)
        if choices.crossed(family.space):
            result = crossed_mean(values, level=choices.level)
        else:
            options = {"level": choices.level, "resamples": choices.resamples, "seed": choices.seed}
            result = bootstrap_interval(prompt_means(values), **options)
        rows = block.columns.loc[np.repeat(block.columns.index, n_pairs)].reset_index(drop=True)
        columns = {
            "space": family.space,
            "metric": family.metric,
            "pair": family.pairs * len(block.columns),
            "mean": result.mean,
            "ci_low": np.maximum(result.low, known.low),
            "ci_high": np.minimum(result.high, known.high),
            "n_prompts": result.n,
            "n": (~np.isnan(values)).sum(axis=(0, 1)),
            "reason": result.reason,
            "version": known.version,
        }
        tables.append(rows.assign(**columns)[[*DISPARITY_COLUMNS]])
    return pd.concat(tables, ignore_index=True)
