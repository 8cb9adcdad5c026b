"""GEP: the counts behind its frequencies, and how much of its scores chance alone gives."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from analysis.stats.permutation import NoiseFloor
from lab.papers.tables import read_table

CONTEXTS, SEEDS = 16, 5
IMAGES = CONTEXTS * SEEDS  # behind each frequency: for one gender (and one attribute in the explicit setting)


def attribute_counts(folder: Path | None = None) -> pd.DataFrame:
    """Counts of 80 images behind Tables 11, 12: index (setting, model, attribute), columns woman, man."""
    index = ["setting", "model", "attribute"]
    columns = [*index, "gender", "frequency"]
    table = read_table("gep2023_table11_12_frequencies", columns, numeric=["frequency"], folder=folder)
    table["k"] = np.rint(table["frequency"] * IMAGES).astype(int)
    return table.pivot_table(index=index, columns="gender", values="k", sort=False).astype(int)


def floors() -> dict[tuple[str, str], NoiseFloor]:
    """Floor of each score of Table 3, by (setting, model)."""
    return {
        key: _floor(*rows[["woman", "man"]].to_numpy().T)
        for key, rows in attribute_counts().groupby(level=["setting", "model"], sort=False)
    }


def _floor(first: NDArray[np.int64], second: NDArray[np.int64]) -> NoiseFloor:
    """Floor of the score (Zhang et al. 2023, Eq. 2) of counts of `IMAGES`, each attribute dealt at random.

    The sum of the attributes' differences is a convolution of hypergeometric distributions.
    """
    chance = np.ones(1)
    for successes in first + second:
        k = np.arange(max(0, successes - IMAGES), min(IMAGES, successes) + 1)
        weight = stats.hypergeom.pmf(k, 2 * IMAGES, successes, IMAGES)
        chance = np.convolve(chance, np.bincount(np.abs(2 * k - successes), weights=weight))
    scores = np.arange(len(chance)) / IMAGES / len(first)
    value, floor = float(np.abs(first - second).mean() / IMAGES), float(scores @ chance)
    sd, p_value = float(np.sqrt((scores - floor) ** 2 @ chance)), float(chance[scores >= value - 1e-9].sum())
    return NoiseFloor(value, floor, sd, value - floor, p_value, "")


def different_attributes() -> pd.DataFrame:
    """Fisher's exact test of each attribute, adjusted by Benjamini–Hochberg over the 15 of a setting and model."""
    table = attribute_counts()
    table["p"] = [
        stats.fisher_exact([[k, IMAGES - k], [m, IMAGES - m]]).pvalue
        for k, m in table[["woman", "man"]].to_numpy()
    ]
    groups = table.groupby(level=["setting", "model"], sort=False)["p"]
    table["p_adjusted"] = groups.transform(lambda p: stats.false_discovery_control(p.to_numpy()))
    return table
