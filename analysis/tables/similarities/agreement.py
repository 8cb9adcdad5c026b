"""How far the headline measures say one thing: the correlation of their gaps over prompts.

z₀, SSIM and Diff. Pix. look at the same images. Where their gaps rise and fall together over prompts, four measures
that point one way are not four findings.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pandas as pd

from analysis.metrics.registry import headline_metrics
from analysis.stats.bootstrap import prompt_means
from analysis.tables.similarities.similarities import Similarities
from analysis.tables.similarities.specifications import headline_values

COLUMNS = ("contrast", "first", "second", "correlation", "n_prompts", "reason")
FEWEST = 3  # prompts: two points always lie on a line


def agreement(
    pairs: Similarities | pd.DataFrame,
    *,
    indicators: Sequence[str],
    reference: str,
    contrasts: Sequence[tuple[str, str]],
    text_readout: str = "sequence",
) -> pd.DataFrame:
    """Return Pearson's correlation over prompts of the gaps of every two headline measures.

    One row per (contrast, two measures), with `COLUMNS`; measures go by their keys (``t``, ``z0``, ``ssim``,
    ``diff_pix``). A gap is signed so that positive is nearer to the first of the contrast, for every measure.
    """
    rows = []
    measured = {metric: headline_values(pairs, metric) for metric in headline_metrics(text_readout)}
    for first, second in contrasts:
        gaps = {}
        for metric, family in measured.items():
            if family is not None:
                near = [family.pair(reference, side, list(indicators)) for side in (first, second)]
                gap = metric.sign * prompt_means(near[0] - near[1])[:, 0]
                gaps[metric.key] = pd.Series(gap, index=family.prompts)
        for one, other in combinations(gaps, 2):
            # a measure may lack prompts that another has, such as those whose capture is gone
            both = pd.concat([gaps[one], gaps[other]], axis=1, join="inner").dropna()
            x, y = both.to_numpy().T
            known = len(both) >= FEWEST and np.ptp(x) > 0 and np.ptp(y) > 0
            rows.append(
                {
                    "contrast": f"{first}-{second}",
                    "first": one,
                    "second": other,
                    "correlation": float(np.corrcoef(x, y)[0, 1]) if known else np.nan,
                    "n_prompts": len(both),
                    "reason": "" if known else "fewer than three prompts, or the same gap in all",
                }
            )
    return pd.DataFrame(rows, columns=list(COLUMNS))
