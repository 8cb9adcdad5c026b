"""Agreement of annotators."""

from __future__ import annotations

import numpy as np
import pandas as pd

from analysis.methods.audit.design import ALL, Design
from analysis.methods.audit.labels import MISSING
from analysis.stats.annotators import krippendorff_alpha, no_alpha
from analysis.stats.resampling import resample_counts

AGREEMENT = ("model", "alpha", "low", "high", "pictures", "annotators", "same", "reason")


def agreement_table(rows: pd.DataFrame, design: Design, resamples: int) -> pd.DataFrame:
    """Krippendorff's alpha with its bootstrap interval over pictures, of all models and of each.

    ``pictures`` are those with two answers or more, ``same`` is the share of these on which all answers are equal. No
    rows where there is one annotator.
    """
    given = rows[rows["label"] != MISSING]
    if given["annotator"].nunique() < 2:
        return pd.DataFrame(columns=list(AGREEMENT))
    models = list(rows["model"].unique())
    table = []
    for model in (ALL, *(models if len(models) > 1 else ())):
        chosen = given if model == ALL else given[given["model"] == model]
        codes = chosen.assign(code=pd.factorize(chosen["label"])[0].astype(float))
        answers = codes.pivot(index="annotator", columns="image", values="code").to_numpy(float)
        answers = answers[:, (~np.isnan(answers)).sum(axis=0) >= 2]
        alpha, low, high = krippendorff_alpha(answers), np.nan, np.nan
        if np.isfinite(alpha):
            counts = resample_counts(answers.shape[1], resamples, design.seed)
            alphas = [krippendorff_alpha(np.repeat(answers, times, axis=1)) for times in counts]
            low, high = np.nanquantile(alphas, [(1 - design.level) / 2, (1 + design.level) / 2])
        size = answers.shape[1]
        same = float((np.nanmin(answers, axis=0) == np.nanmax(answers, axis=0)).mean()) if size else np.nan
        reason = no_alpha(answers) if size else "no picture has two answers"
        table.append((model, alpha, low, high, size, chosen["annotator"].nunique(), same, reason))
    return pd.DataFrame(table, columns=list(AGREEMENT))
