"""Wu et al. 2025: the arithmetic of Tables 4 and 11–13, the directions of Tables 5, 6 and 10, and Tables 7–9."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from analysis.studies.labels.nouns import published
from lab.papers.compare import Paper, PrintedTable, compared, paired
from lab.papers.tables import read_table, read_values

# Cells of Table 13 where the reference table holds a repaired value: what the page prints.
PRINTED_TABLE13 = {("GCC", "implicitly guided", "explicitly independent"): 0.63}
EXPLICIT = ("explicitly guided", "explicitly independent")
OVER = ["dataset", "over_group", "group"]


def directions() -> pd.DataFrame:
    """Each pair of cells of Tables 5, 6 and 10: is the neutral prompt nearer to the masculine one?"""
    parts = []
    for name, label, columns in (
        ("wu2025_table5_representational_disparity", "5", ["model", "dataset", "metric"]),
        ("wu2025_table6_cooccurrence_similarity", "6", ["model", "dataset"]),
        ("wu2025_table10_intra_prompt", "10", ["model", "metric"]),
    ):
        wide = read_values(name, *columns, "pair", "value").unstack("pair").reset_index()
        parts.append(wide.assign(table=label))
    table = pd.concat(parts, ignore_index=True).fillna({"metric": "s_O", "dataset": "one GCC caption"})
    gap = np.where(table["metric"] == "diff_pix", -1, 1) * (table["neu-mas"] - table["neu-fem"])
    nearer = np.select([gap > 0, gap < 0, gap == 0], ["masculine", "feminine", "same"], "not readable")
    return table.assign(nearer=nearer)[["table", "model", "dataset", "metric", "nearer"]]


def intersections() -> pd.DataFrame:
    """Table 13 from whole numbers of objects: printed and recomputed percentages by dataset and group.

    The number of objects in both groups is read from the ratio over the smaller group, where a percentage of two
    decimals pins it; Table 12 gives the amounts.
    """
    amount = read_values("wu2025_table12_object_amounts", "dataset", "group", "amount")
    ratio = read_values("wu2025_table13_group_intersection", *OVER, "percent")
    rows = []
    for (dataset, over, group), value in ratio.items():
        small, large = sorted((over, group), key=lambda g: (amount[dataset, g], g))
        objects = int(np.rint(ratio[dataset, small, large] * amount[dataset, small] / 100))
        printed = PRINTED_TABLE13.get((dataset, over, group), value)
        rows.append((dataset, over, group, printed, 100 * objects / amount[dataset, over]))
    return pd.DataFrame(rows, columns=[*OVER, "printed", "recomputed"]).set_index(OVER)


def paper() -> Paper:
    """Everything the page says of this paper."""
    nearer, over = directions(), intersections()["recomputed"]
    five = nearer[nearer["table"] == "5"]
    other = five[five["nearer"] == "feminine"].groupby(["metric", "dataset"], sort=False)["model"]
    found = {
        "five": five["nearer"].value_counts(),
        "feminine": [(*key, [model.removeprefix("SD ") for model in models]) for key, models in other],
        "rest": nearer.loc[nearer["table"] != "5", "nearer"].value_counts(),
        "guided": {
            dataset: max(
                over[dataset, f"implicitly {kind}", "explicitly guided"] for kind in ("guided", "independent")
            )
            for dataset in over.index.unique("dataset")
        },
        **_chi_square(),
    }
    return Paper("Wu et al. 2025", printed_tables(), found)


def printed_tables() -> list[PrintedTable]:
    """Every table that follows from another, with its recomputed cells."""
    numeric = ["triplets", "prompts", "seeds", "images"]
    data = read_table("wu2025_table4_datasets", ["dataset", *numeric], numeric=numeric).set_index("dataset")
    presence = read_values("wu2025_table11_group_presence", "dataset", "group", "percent_of_images")
    seen, shared = published().set_index("word").loc["all"], intersections()
    images = data["images"].reindex(presence.index, level="dataset")
    possible = 100 * (presence * images / 100).round() / images
    both = [("all", seen["percent_both"], 100 * seen["both"] / seen["nouns"])]
    return [
        compared("nouns found by both, %", "section 7.3", "none", 2, both),
        compared("prompts", "4", "3 × triplets", 0, paired(data["prompts"], 3 * data["triplets"])),
        compared(
            "images", "4", "prompts × seeds", 0, paired(data["images"], data["prompts"] * data["seeds"])
        ),
        compared(
            "images with a group: nearest k/n, %",
            "11 from 4",
            "Definitions 1, 2",
            2,
            paired(presence, possible),
        ),
        compared(
            "objects of a group in another, %",
            "13 from 12",
            "intersection / amount",
            2,
            paired(shared["printed"], shared["recomputed"]),
        ),
    ]


def _chi_square() -> dict[str, Any]:
    """What p-values alone tell of the chi-square tests behind Tables 7–9."""
    columns = ["dataset", "group", "comparison", "p"]
    table = read_table("wu2025_tables7to9_chi_square", columns, numeric=["p"])
    calm = table[table["group"].isin(EXPLICIT) & (table["dataset"] != "COCO")]
    return {
        "hidden": table.loc[table["group"] == "hidden", "p"],
        "calm": calm["p"],
        "alone": calm.loc[calm["comparison"] == "triplet", "p"],
        "caps": calm.loc[(calm["dataset"] == "TextCaps") & (calm["group"] == "explicitly guided"), "p"],
    }
