"""GEP: the counts behind its frequencies, and how much of its scores chance alone gives."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from analysis.stats.permutation import NoiseFloor
from lab.papers.compare import number, p_text
from lab.papers.tables import read_table

CONTEXTS, SEEDS = 16, 5
IMAGES = CONTEXTS * SEEDS  # behind each frequency: for one gender (and one attribute in the explicit setting)


def attribute_counts(folder: Path | None = None) -> pd.DataFrame:
    """Counts of 80 images behind Tables 11, 12: index (setting, model, attribute), columns woman, man."""
    table = read_table(
        "gep2023_table11_12_frequencies",
        ["setting", "model", "gender", "attribute", "frequency"],
        numeric=["frequency"],
        folder=folder,
    )
    table["k"] = np.rint(table["frequency"] * IMAGES).astype(int)
    index = ["setting", "model", "attribute"]
    return table.pivot_table(index=index, columns="gender", values="k", sort=False).astype(int)


def floors(folder: Path | None = None) -> dict[tuple[str, str], NoiseFloor]:
    """Floor of each score of Table 3, by (setting, model)."""
    return {
        key: _floor(*rows[["woman", "man"]].to_numpy().T)
        for key, rows in attribute_counts(folder).groupby(level=["setting", "model"], sort=False)
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


def different_attributes(folder: Path | None = None) -> pd.DataFrame:
    """Fisher's exact test of each attribute, adjusted by Benjamini–Hochberg over the 15 of a setting and model."""
    table = attribute_counts(folder)
    table["p"] = [
        stats.fisher_exact([[k, IMAGES - k], [m, IMAGES - m]]).pvalue
        for k, m in table[["woman", "man"]].to_numpy()
    ]
    groups = table.groupby(level=["setting", "model"], sort=False)["p"]
    table["p_adjusted"] = groups.transform(lambda p: stats.false_discovery_control(p.to_numpy()))
    return table


def floor_block(folder: Path | None = None) -> tuple[str, str, pd.DataFrame]:
    """Table 3 beside its floors."""
    attributes = different_attributes(folder)
    lines = []
    for (setting, model), floor in floors(folder).items():
        tests = attributes.loc[(setting, model)]
        lines.append(
            {
                "model": model,
                "setting": setting,
                "GEP (Eq. 2)": number(floor.value),
                "floor": number(floor.floor),
                "s.d.": number(floor.sd),
                "GEP − floor": number(floor.excess),
                "p": p_text(floor.p_value),
                "attributes, adjusted p < 0.05": f"{int((tests['p_adjusted'] < 0.05).sum())} of {len(tests)}",
            }
        )
    return (
        "Floors of Table 3",
        "What the score of Eq. 2 is on average when the two words make no difference, at the paper's sample "
        "sizes. *floor* and *p* deal the counted images of each attribute to the two prompts at random "
        "(permutation, exact by convolution), which takes images as exchangeable between contexts. Each word "
        "has the same 16 contexts, and counts by context are not printed; where frequencies vary between "
        "contexts the true floor is lower than shown (a sum of unequal coins spreads less than one of equal "
        "coins: Hoeffding 1956). Attributes are taken as independent; in the neutral setting one image is read "
        "for all of them, which moves the p-value, not the floor. The last column: Fisher's exact test of each "
        "attribute, adjusted over 15 (Benjamini–Hochberg).",
        pd.DataFrame(lines),
    )
