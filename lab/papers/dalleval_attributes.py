"""DALL-Eval's attributes: the differences of Tables 22–31, and how much of them nine images give by chance."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.methods.dalleval.scores import LEVEL
from analysis.stats.multiplicity import adjust_p_values
from analysis.stats.noise_floor import NoiseFloor, gep_floor, paired_floor
from lab.papers.compare import PrintedTable, family, number, p_text
from lab.papers.tables import read_table

IMAGES = 9  # a prompt
CONTRASTS = (("woman", "person"), ("man", "person"), ("woman", "man"))
KEY = ["model", "gender", "profession", "attribute"]


class AttributeContrast(NamedTuple):
    """Mean absolute differences of attributes: of averages over prompts, mean over prompts, and prompts tested."""

    averages: NoiseFloor
    prompts: NoiseFloor
    different: int
    tested: int


def attribute_contrast(first: NDArray[np.int64], second: NDArray[np.int64]) -> AttributeContrast:
    """Return how two words differ, from counts of `IMAGES` images a prompt, shape (n_prompts, n_attributes)."""
    each = [gep_floor(a, IMAGES, b, IMAGES).p_value for a, b in zip(first, second)]
    p_adjusted = adjust_p_values(each)
    return AttributeContrast(
        paired_floor((first - second) / IMAGES),
        gep_floor(first.ravel(), IMAGES, second.ravel(), IMAGES),
        int((p_adjusted < LEVEL).sum()),
        int((~np.isnan(p_adjusted)).sum()),
    )


def attribute_presence(folder: Path | None = None) -> pd.DataFrame:
    """Tables 23–31: index (model, gender, profession, attribute); columns presence, k, difference_from_person."""
    numeric = ["presence", "k", "difference_from_person"]
    table = read_table("dalleval2023_tables23to31_attributes", KEY + numeric, numeric=numeric, folder=folder)
    return table.set_index(KEY)


@cache
def attribute_contrasts(folder: Path | None = None) -> dict[tuple[str, str, str], AttributeContrast]:
    """Every pair of words of every model beside its floors, by (model, first, second).

    Examples
    --------
    >>> own = attribute_contrasts()["Stable Diffusion", "woman", "man"]
    >>> round(own.averages.value, 3), own.averages.floor < own.averages.value
    (0.061, True)
    """
    k = attribute_presence(folder)["k"].astype(int).unstack("attribute")
    by_pair = {}
    for model in k.index.get_level_values("model").unique():
        for first, second in CONTRASTS:
            a, b = k.loc[(model, first)].to_numpy(), k.loc[(model, second)].to_numpy()
            by_pair[model, first, second] = attribute_contrast(a, b)
    return by_pair


def attribute_families(folder: Path | None = None) -> list[PrintedTable]:
    """Tables 22–31, cell by cell."""
    table = attribute_presence(folder)
    person = table["presence"].xs("person", level="gender")
    others = table[table.index.get_level_values("gender") != "person"].reset_index()
    key = pd.MultiIndex.from_frame(others[["model", "profession", "attribute"]])
    difference = others["presence"] - person.loc[key].to_numpy()
    names = (
        others["model"] + ", " + others["gender"] + ", " + others["profession"] + ", " + others["attribute"]
    )
    printed = others["difference_from_person"].where(others["difference_from_person"].notna(), 0.0)

    absolute = read_table(
        "dalleval2023_tables23to31_mean_abs_diff",
        ["model", "gender", "profession", "mean_abs_diff"],
        numeric=["mean_abs_diff"],
        folder=folder,
    )
    index = ["model", "gender", "profession"]
    exact = _mean_absolute(table["k"] / IMAGES)
    from_cut = _mean_absolute(table["presence"])
    rows = list(zip(*[absolute[c] for c in index]))
    labels = [", ".join(row) for row in rows]

    table22 = read_table(
        "dalleval2023_table22_attributes",
        ["model", "gender", "attribute", "value"],
        numeric=["value"],
        folder=folder,
    )
    mean = (table["k"] / IMAGES).groupby(level=["model", "gender", "attribute"], sort=False).mean()
    averages22 = table22[table22["gender"] != "woman-man"]
    cells22 = [
        (f"{r.model}, {r.gender}, {r.attribute}", r.value, float(mean[r.model, r.gender, r.attribute]))
        for r in averages22.itertuples()
    ]
    value22 = table22.set_index(["model", "gender", "attribute"])["value"]
    between = [
        (f"{m}, {a}", value, value22[m, "woman", a] - value22[m, "man", a])
        for (m, a), value in value22.xs("woman-man", level="gender").items()
    ]

    averages = read_table(
        "dalleval2023_printed_averages",
        ["table", "model", "quantity", "average"],
        numeric=["average"],
        folder=folder,
    )
    averages = averages[averages["table"] == "Table 22"]
    cells = []
    for r in averages.itertuples():
        first, second = r.quantity.split(", ")[1].split("-")
        value = attribute_contrasts(folder)[r.model, first, second].averages.value
        cells.append((f"{r.model}, {first} − {second}", r.average, value))
    equation = "section 4.2.3"
    return [
        family(
            "difference from *person*",
            "Tables 24, 25, 27, 28, 30, 31",
            equation,
            zip(names, printed, difference),
            2,
            "from the printed presences, which are cut; an empty cell is read as no difference",
        ),
        family(
            "mean absolute difference, from printed presences",
            "Tables 24, 25, 27, 28, 30, 31, last column",
            equation,
            zip(labels, absolute["mean_abs_diff"], from_cut.loc[rows]),
            2,
        ),
        family(
            "mean absolute difference, from k/9",
            "Tables 24, 25, 27, 28, 30, 31, last column",
            equation,
            zip(labels, absolute["mean_abs_diff"], exact.loc[rows]),
            2,
            "from the counts the cut presences stand for",
        ),
        family(
            "average presence",
            "Table 22 from Tables 23–31",
            equation,
            cells22,
            2,
            "over 84 prompts: 83 professions and the one without",
        ),
        family("woman − man", "Table 22", equation, between, 2, "from the averages printed in Table 22"),
        family(
            "mean absolute difference of averages",
            "Table 22, last column",
            equation,
            cells,
            2,
            "over 15 attributes; the printed table shows eleven of them",
        ),
    ]


def _mean_absolute(values: pd.Series) -> pd.Series:
    """Mean over attributes of |word − person|, by (model, gender, profession)."""
    wide = values.unstack("attribute")
    person = wide.xs("person", level="gender")
    wide = wide[wide.index.get_level_values("gender") != "person"]
    key = wide.index.droplevel("gender")
    return pd.Series(np.abs(wide.to_numpy() - person.loc[key].to_numpy()).mean(axis=1), wide.index)


def attribute_block(folder: Path | None = None) -> tuple[str, str, pd.DataFrame]:
    """Floors of the attribute differences."""
    lines = [
        {
            "model": model,
            "words": f"{first} − {second}",
            "of averages (Table 22)": number(contrast.averages.value),
            "floor": number(contrast.averages.floor),
            "p": p_text(contrast.averages.p_value),
            "mean over prompts (Tables 24–31)": number(contrast.prompts.value),
            "floor ": number(contrast.prompts.floor),
            "excess": number(contrast.prompts.excess),
            "prompts, adjusted p < 0.05": f"{contrast.different} of {contrast.tested}",
        }
        for (model, first, second), contrast in attribute_contrasts(folder).items()
    ]
    return (
        "Floors of the attribute differences",
        "Presence and differences as in section 4.2.3. *of averages*: the mean over 15 attributes of the "
        "absolute difference of averages over 84 prompts (Table 22, last column), with a floor and p-value "
        "by sign flips that swap the two words in a whole prompt (9,999 draws, seed 0), so attributes of "
        "one image stay together. *mean over prompts*: the mean of the printed last column of Tables 24–31, "
        "each the difference of two samples of nine images; its floor deals the 18 images of each prompt "
        "and attribute to the two words at random (exact). *prompts, adjusted*: this test for each single "
        "prompt, attributes taken as independent, Benjamini–Hochberg over prompts. The mean over prompts of "
        "woman − man is not printed in the paper.",
        pd.DataFrame(lines),
    )


def attribute_findings(folder: Path | None = None) -> list[str]:
    """Return what the floors say of the attribute differences."""
    compared = attribute_contrasts(folder)
    single = {key: c for key, c in compared.items() if key[2] == "person"}
    share = {key: c.prompts.floor / c.prompts.value for key, c in single.items()}
    highest, lowest = max(share, key=share.get), min(share, key=share.get)
    different = sum(c.different for c in single.values())
    tested = sum(c.tested for c in single.values())
    return [
        f"Tables 24–31, last column: the mean absolute difference from *person* of a single prompt (nine "
        f"against nine images) is largely what chance gives. Averaged over prompts the floor makes up "
        f"{100 * share[lowest]:.0f} % ({lowest[0]}, {lowest[1]}) to {100 * share[highest]:.0f} % ({highest[0]}, "
        f"{highest[1]}) of it, and {different} of {tested} single prompts differ after adjustment. Over all 84 "
        f"prompts together the differences are beyond chance in "
        f"{sum(c.averages.p_value < 0.05 for c in compared.values())} of {len(compared)} pairs of words (Table 22, "
        f"last column).",
    ]
