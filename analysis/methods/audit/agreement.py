"""Agreement of annotators: Krippendorff's alpha over all pictures and by model, with intervals over pictures."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.methods.audit.labels import MISSING
from analysis.stats.annotators import krippendorff_alpha, no_alpha
from analysis.stats.resampling import resample_counts

ALL = "all"
COLUMNS = ("model", "alpha", "low", "high", "pictures", "annotators", "same", "reason")


def agreement_table(
    rows: pd.DataFrame, *, level: float = 0.95, resamples: int = 2000, seed: int = 0
) -> pd.DataFrame:
    """Krippendorff's alpha with its bootstrap interval over pictures, of all models and of each.

    ``pictures`` are those with two answers or more, ``same`` is the share of these on which all answers are equal. No
    rows where there is one annotator.
    """
    if rows.loc[rows["answer"] != MISSING, "annotator"].nunique() < 2:
        return pd.DataFrame(columns=list(COLUMNS))
    models = rows["model"].drop_duplicates()
    chosen = {ALL: rows} | ({name: rows[rows["model"] == name] for name in models} if len(models) > 1 else {})
    found = [{"model": name, **_agreement(own, level, resamples, seed)} for name, own in chosen.items()]
    return pd.DataFrame(found, columns=list(COLUMNS))


def _agreement(rows: pd.DataFrame, level: float, resamples: int, seed: int) -> dict:
    given = rows[rows["answer"] != MISSING]
    codes = given.assign(code=pd.factorize(given["answer"])[0].astype(float))
    answers = codes.pivot(index="annotator", columns="image", values="code").to_numpy(float)
    twice = answers[:, (~np.isnan(answers)).sum(axis=0) >= 2] if answers.size else np.empty((0, 0))
    alpha = krippendorff_alpha(twice) if twice.size else np.nan
    low, high = _ends(twice, level, resamples, seed) if np.isfinite(alpha) else (np.nan, np.nan)
    equal = [len({*one[~np.isnan(one)]}) == 1 for one in twice.T]
    return {
        "alpha": alpha,
        "low": low,
        "high": high,
        "pictures": twice.shape[1],
        "annotators": given["annotator"].nunique(),
        "same": float(np.mean(equal)) if equal else np.nan,
        "reason": no_alpha(twice) if equal else "no picture has two answers",
    }


def _ends(answers: NDArray[np.float64], level: float, resamples: int, seed: int) -> tuple[float, float]:
    counts = resample_counts(answers.shape[1], resamples, seed)
    draws = [krippendorff_alpha(np.repeat(answers, times, axis=1)) for times in counts]
    low, high = np.nanquantile(draws, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
