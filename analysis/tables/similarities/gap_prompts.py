"""The gap of each triplet by every headline measure: the numbers whose mean over prompts ``tables/gap`` holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.metrics.registry import NO_STEP, Metric, headline_metrics
from analysis.stats.bootstrap import prompt_means
from analysis.tables.similarities.families import stacked
from analysis.tables.similarities.gap import single_gaps
from analysis.tables.similarities.similarities import Similarities, similarities

COLUMNS = (
    *("triplet", "prompt_id", "contrast", "space", "site", "step", "metric", "measure", "gap"),
    *("similarity_first", "similarity_second", "n_seeds", "reason", "version"),
)
SEED = "seed"  # a further column where every seed has a row
NO_PAIR = "no seed has both similarities"


def gap_prompts(
    pairs: Similarities | pd.DataFrame,
    *,
    indicators: Sequence[str],
    reference: str,
    contrasts: Sequence[tuple[str, str]],
    prompt_ids: Mapping[int, str],
    text_readout: str = "sequence",
    each_seed: bool = False,
) -> pd.DataFrame:
    """Return the gap of every triplet, with the two similarities that it is the difference of.

    One row per (headline measure, contrast, triplet), with `COLUMNS`, in the units of the metric; with `each_seed`, of
    a run of one prompt, one per seed with a column `SEED`. All are means over the ``n_seeds`` seeds that have both
    similarities; NaN, with a ``reason``, where none has.
    """
    tables = []
    for metric in headline_metrics(text_readout):
        chosen = similarities(pairs).only({metric.place})
        for family in chosen.families():
            for contrast in contrasts:
                near = [family.pair(reference, side, indicators) for side in contrast]
                table = _rows(metric, near, family.prompts, chosen.seeds if each_seed else None)
                tables.append(table.assign(contrast="-".join(contrast)))
    before, after = COLUMNS[:2], COLUMNS[2:]
    columns = [*before, *([SEED] if each_seed else []), *after]
    table = stacked(tables, columns)
    table["prompt_id"] = table["triplet"].map(prompt_ids)
    return table[columns]


def _rows(
    metric: Metric,
    near: Sequence[NDArray[np.float64]],
    triplets: NDArray[np.int64],
    seeds: Sequence[int] | None,
) -> pd.DataFrame:
    """Rows of one measure and contrast: one a triplet, or one a seed of each where seeds are given."""
    single, _ = single_gaps([metric.sign * side for side in near])
    known = ~np.isnan(single[..., 0])
    values = np.concatenate([single, *(np.where(known[..., None], side, np.nan) for side in near)], axis=2)
    own: dict[str, object] = {"triplet": triplets}
    if seeds is not None:
        own = {"triplet": np.repeat(triplets, len(seeds)), SEED: np.tile(seeds, len(triplets))}
        values, known = values.reshape(-1, 1, values.shape[2]), known.reshape(-1, 1)
    gap, first, second = prompt_means(values).T
    return pd.DataFrame(
        own
        | dict(zip(("space", "site", "metric"), metric.place))
        | {
            "step": NO_STEP,
            "measure": metric.key,
            "gap": gap,
            "similarity_first": first,
            "similarity_second": second,
            "n_seeds": known.sum(axis=1),
            "reason": np.where(np.isnan(gap), NO_PAIR, "").astype(object),
            "version": metric.version,
        }
    )
