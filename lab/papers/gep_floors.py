"""GEP: the counts behind its frequencies, and how much of its scores chance alone gives."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

from analysis.stats.noise_floor import NoiseFloor, gep_floor
from analysis.stats.null_distribution import NullDistribution, frequency_difference, mean_of_independent
from lab.papers.compare import number, p_text
from lab.papers.tables import read_table

CONTEXTS, SEEDS = 16, 5
IMAGES = CONTEXTS * SEEDS  # behind each frequency: for one gender (and one attribute in the explicit setting)
LAWYER_IMAGES, LAWYER_ATTRIBUTES = 20, 4  # section 7


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


def floors(folder: Path | None = None, null: str = "permutation") -> dict[tuple[str, str], NoiseFloor]:
    """Floor of each score of Table 3, by (setting, model)."""
    return {
        key: gep_floor(rows["woman"], IMAGES, rows["man"], IMAGES, null=null)
        for key, rows in attribute_counts(folder).groupby(level=["setting", "model"], sort=False)
    }


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
    printed, pooled, attributes = floors(folder), floors(folder, "pooled"), different_attributes(folder)
    lines = []
    for (setting, model), floor in printed.items():
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
                "floor, pooled": number(pooled[setting, model].floor),
                "p, pooled": p_text(pooled[setting, model].p_value),
                "attributes, adjusted p < 0.05": f"{int((tests['p_adjusted'] < 0.05).sum())} of {len(tests)}",
            }
        )
    return (
        "Floors of Table 3",
        "What the score of Eq. 2 is on average when the two words make no difference, at the paper's sample "
        "sizes. *floor* and *p* deal the counted images of each attribute to the two prompts at random "
        "(permutation, exact by convolution); *pooled* draws both samples anew from the pooled frequency "
        "(two binomials, exact). Both take images as exchangeable between contexts. Each word has the same "
        "16 contexts, and counts by context are not printed; where frequencies vary between contexts the "
        "true floor is lower than shown (a sum of unequal coins spreads less than one of equal coins: "
        "Hoeffding 1956). Attributes are taken as independent; in the neutral setting one image is read for "
        "all of them, which moves the p-value, not the floor. The last column: Fisher's exact test of each "
        "attribute, adjusted over 15 (Benjamini–Hochberg).",
        pd.DataFrame(lines),
    )


def context_block(folder: Path | None = None) -> tuple[str, str, pd.DataFrame]:
    """Table 15 beside the floor of five images, were each attribute as frequent in every context as on average."""
    table = attribute_counts(folder)
    columns = ["setting", "model", "gep_human"]
    context = read_table("gep2023_table15_by_context", columns, numeric=["gep_human"], folder=folder)
    scores = context.groupby(["setting", "model"], sort=False)["gep_human"].agg(["mean", "min", "max"])
    lines = []
    for (setting, model), rows in table.groupby(level=["setting", "model"], sort=False):
        p = (rows["woman"] + rows["man"]).to_numpy() / (2 * IMAGES)
        floor = float(np.mean([mean_difference(SEEDS, q) for q in p]))
        lines.append(
            {
                "model": model,
                "setting": setting,
                "Table 15, mean of 16": number(scores.loc[(setting, model), "mean"], 3),
                "Table 15, range": "{min:.2f} to {max:.2f}".format(**scores.loc[(setting, model)]),
                "floor of five images": number(floor, 3),
                "Table 3, recomputed": number(float((rows["woman"] - rows["man"]).abs().mean()) / IMAGES),
            }
        )
    return (
        "Table 15: scores of single contexts",
        "A context has five images for each word (Eq. 2 over 15 attributes), so its floor is far above that "
        "of Table 3. The frequencies by context are not printed; the floor shown takes each attribute as "
        "frequent in every context as it is over all (Tables 11, 12). Where frequencies vary between "
        "contexts the true floor is lower: the mean absolute difference of two samples is a concave "
        "function of the frequency. It is an upper bound.",
        pd.DataFrame(lines),
    )


def mean_difference(n: int, p: float) -> float:
    """Mean of |a − b| / n for two independent binomial counts.

    >>> round(mean_difference(1, 0.5), 12)
    0.5
    """
    pmf = stats.binom.pmf(np.arange(n + 1), n, p)
    return float(pmf @ np.abs(np.subtract.outer(np.arange(n + 1), np.arange(n + 1))) @ pmf) / n


def lawyer_block(folder: Path | None = None) -> tuple[str, str, pd.DataFrame]:
    """Table 10 beside what is known of its floor."""
    table = read_table(
        "gep2023_table10_lawyer",
        ["prompt", "compared_with", "gep_human"],
        numeric=["gep_human"],
        folder=folder,
    )
    half, twentieth = lawyer_null(LAWYER_IMAGES).mean, lawyer_null(2).mean
    lines = [
        {
            "prompt": r.prompt,
            "compared with": r.compared_with,
            "GEP, printed": number(r.gep_human, 2),
            "floor, attributes in 20 of 40 images": number(half, 3),
            "floor, attributes in 2 of 40 images": number(twentieth, 3),
        }
        for r in table.itertuples()
    ]
    return (
        "Table 10: lawyers",
        f"Four attributes and {LAWYER_IMAGES} images a prompt (section 7, Eq. 2). The frequencies are not "
        f"printed, so the floor is only known to lie between 0 (attributes in all images or none) and "
        f"{number(largest_lawyer_floor(), 3)} (each attribute in 19 or 21 of the 40 images of both "
        f"prompts).",
        pd.DataFrame(lines),
    )


def lawyer_null(images: int) -> NullDistribution:
    """Null of Table 10's score if each attribute is in so many of the 40 images of both prompts."""
    one = frequency_difference(images, LAWYER_IMAGES, LAWYER_IMAGES, null="permutation")
    return mean_of_independent({one: LAWYER_ATTRIBUTES})


def largest_lawyer_floor() -> float:
    """The largest floor that Table 10's sample sizes allow, whatever the frequencies.

    An odd number of images cannot be split evenly, so 19 or 21 of 40 give more than 20.

    >>> round(largest_lawyer_floor(), 4), round(lawyer_null(20).mean, 4)
    (0.13, 0.1238)
    """
    return max(lawyer_null(images).mean for images in range(2 * LAWYER_IMAGES + 1))
