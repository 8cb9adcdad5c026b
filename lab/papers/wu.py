"""Wu et al. 2025: the arithmetic of Tables 4 and 11–13, the directions of Tables 5, 6 and 10, and Tables 7–9."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from analysis.studies.labels.nouns import published
from lab.papers.compare import PaperSection, PrintedNumber, PrintedTable, family, number, printed_agreement
from lab.papers.tables import read_table
from lab.papers.wu_chi_square import chi_square_block, chi_square_findings

MODELS = ("SD v1.4", "SD v2.0", "SD v2.1")
METRICS = ("t", "z0", "SSIM", "diff_pix", "ResNet", "CLIP", "DINO", "split_product")
# Cells of Table 13 where the reference table holds a repaired value: what the page prints.
PRINTED_TABLE13 = {("GCC", "implicitly guided", "explicitly independent"): 0.63}
ONE_DECIMAL = {("TextCaps", "hidden", "explicitly guided"), ("TextCaps", "hidden", "implicitly guided")}


def directions(folder: Path | None = None) -> pd.DataFrame:
    """Each pair of cells of Tables 5, 6 and 10: is the neutral prompt nearer to the masculine one?"""
    parts = []
    for name, label, columns in (
        ("wu2025_table5_representational_disparity", "Table 5", ["model", "dataset", "pair", "metric"]),
        ("wu2025_table6_cooccurrence_similarity", "Table 6", ["model", "dataset", "pair"]),
        ("wu2025_table10_intra_prompt", "Table 10", ["model", "pair", "metric"]),
    ):
        table = read_table(name, [*columns, "value"], numeric=["value"], folder=folder)
        index = [c for c in columns if c != "pair"]
        wide = table.set_index([*index, "pair"])["value"].unstack("pair").reset_index()
        wide = wide.rename(columns={"neu-fem": "feminine", "neu-mas": "masculine"}).assign(table=label)
        if "metric" not in wide:
            wide["metric"] = "s_O"
        if "dataset" not in wide:
            wide["dataset"] = "one GCC caption"
        parts.append(wide)
    own = pd.concat(parts, ignore_index=True)
    gap = np.where(own["metric"] == "diff_pix", -1, 1) * (own["masculine"] - own["feminine"])
    own["nearer"] = np.select([gap > 0, gap < 0, gap == 0], ["masculine", "feminine", "same"], "not readable")
    return own[["table", "model", "dataset", "metric", "feminine", "masculine", "nearer"]]


def intersections(folder: Path | None = None) -> pd.DataFrame:
    """Table 13 from whole numbers of objects: printed and recomputed percentages by dataset and group.

    The number of objects in both groups is read from the ratio over the smaller group, where a percentage of two
    decimals pins it; Table 12 gives the amounts.
    """
    amounts = read_table(
        "wu2025_table12_object_amounts", ["dataset", "group", "amount"], numeric=["amount"], folder=folder
    )
    amount = amounts.set_index(["dataset", "group"])["amount"]
    table = read_table(
        "wu2025_table13_group_intersection",
        ["dataset", "over_group", "group", "percent"],
        numeric=["percent"],
        folder=folder,
    )
    ratio = table.set_index(["dataset", "over_group", "group"])["percent"]
    lines = []
    for (dataset, over, group), value in ratio.items():
        small, large = sorted((over, group), key=lambda g: (amount[dataset, g], g))
        objects = int(np.rint(ratio[dataset, small, large] * amount[dataset, small] / 100))
        printed = PRINTED_TABLE13.get((dataset, over, group), value)
        lines.append((dataset, over, group, printed, 100 * objects / amount[dataset, over], objects))
    columns = ["dataset", "over_group", "group", "printed", "recomputed", "objects"]
    return pd.DataFrame(lines, columns=columns).set_index(columns[:3])


def section(folder: Path | None = None) -> PaperSection:
    """Everything the page says of this paper."""
    data = read_table(
        "wu2025_table4_datasets",
        ["dataset", "triplets", "prompts", "seeds", "images"],
        numeric=["triplets", "prompts", "seeds", "images"],
        folder=folder,
    )
    seen = published().set_index("word").loc["all"]
    nearer, shared = directions(folder), intersections(folder)
    rows = [
        PrintedNumber(
            "nouns found by both, %",
            "section 7.3",
            "none",
            seen["percent_both"],
            100 * seen["both"] / seen["nouns"],
            2,
            f"{seen['both']:.0f} of {seen['nouns']:.0f}",
        )
    ]
    blocks = [_direction_block(nearer), chi_square_block(folder)]
    families = _families(data, shared, folder)
    return PaperSection(
        "Wu et al. 2025",
        "Wu, Nakashima and Garcia, *Revealing Gender Bias from Prompt to Image in Stable Diffusion*, "
        "Journal of Imaging 2025, 11, 35, doi 10.3390/jimaging11020035. Similarities and counts of single "
        "prompts and objects are not printed, so what follows is arithmetic, directions and consistency.",
        rows,
        families,
        blocks,
        [*_findings(nearer, families, shared), *chi_square_findings(folder)],
        NOT_RECOMPUTED,
    )


def _families(data: pd.DataFrame, shared: pd.DataFrame, folder: Path | None) -> list[PrintedTable]:
    presence = read_table(
        "wu2025_table11_group_presence",
        ["dataset", "group", "percent_of_images"],
        numeric=["percent_of_images"],
        folder=folder,
    )
    images = data.set_index("dataset")["images"]
    cells = []
    for r in presence.itertuples():
        n = images[r.dataset]
        cells.append(
            (f"{r.dataset}, {r.group}", r.percent_of_images, 100 * round(r.percent_of_images * n / 100) / n)
        )
    third = [(p, n / 3) for p, n in zip(presence["percent_of_images"], presence["dataset"].map(images))]
    fit = sum(printed_agreement(p, 100 * round(p * n / 100) / n, 2) == "rounded" for p, n in third)
    table13 = [(", ".join(key), r.printed, r.recomputed) for key, r in zip(shared.index, shared.itertuples())]
    return [
        family(
            "prompts",
            "Table 4",
            "3 × triplets",
            zip(data["dataset"], data["prompts"], 3 * data["triplets"]),
            0,
        ),
        family(
            "images",
            "Table 4",
            "prompts × seeds",
            zip(data["dataset"], data["images"], data["prompts"] * data["seeds"]),
            0,
        ),
        family(
            "images with an object of the group, nearest whole number of all images, %",
            "Table 11 from Table 4",
            "Definitions 1, 2",
            cells,
            2,
            f"a check that the percentage can occur, not of its value; as a percentage of one prompt "
            f"set, a third of the images, only {fit} of {len(third)} could",
        ),
        family(
            "objects of one group in another, %",
            "Table 13 from Table 12",
            "intersection / amount",
            table13,
            2,
            "whole numbers of objects, read from the ratio over the smaller group",
        ),
    ]


def _direction_block(nearer: pd.DataFrame) -> tuple[str, str, pd.DataFrame]:
    lines = []
    for (table, metric), rows in nearer.groupby(["table", "metric"], sort=False):
        count = rows["nearer"].value_counts()
        lines.append(
            {"table": table, "metric": metric}
            | {n: str(int(count.get(n, 0))) for n in ("masculine", "feminine", "same", "not readable")}
        )
    order = {m: i for i, m in enumerate(METRICS)}
    lines.sort(key=lambda line: (len(line["table"]), line["table"], order.get(line["metric"], 99)))
    return (
        "Which way each cell goes",
        "Number of (model, dataset) cells in which the neutral prompt is nearer to the masculine or to the "
        "feminine one (Table 5 with Eq. 1, 2 and the metrics of section 4.1.3; Table 6 with Eq. 4; Table "
        "10). For diff_pix a smaller value is nearer. The cells are no independent trials: the models share "
        "the prompts and the metrics the images.",
        pd.DataFrame(lines),
    )


def _findings(nearer: pd.DataFrame, families: list[PrintedTable], shared: pd.DataFrame) -> list[str]:
    five = nearer[nearer["table"] == "Table 5"]
    other, unread = five[five["nearer"] == "feminine"], five[five["nearer"] == "not readable"]
    listed = []
    for (metric, dataset), part in other.groupby(["metric", "dataset"], sort=False):
        versions = ", ".join(model.removeprefix("SD ") for model in part["model"])
        listed.append(f"{metric} on {dataset} ({versions})")
    listed = "; ".join(listed)
    one_way = (nearer.loc[nearer["table"] != "Table 5", "nearer"] == "masculine").all()
    size = nearer["table"].value_counts()
    findings = [
        f"Table 5: of the {len(five) - len(unread)} pairs of cells that can be read, "
        f"{int((five['nearer'] == 'masculine').sum())} have the neutral prompt nearer to the masculine one "
        f"and {len(other)} nearer to the feminine one: {listed}. {len(unread)} cannot be read in our copy. "
        f"Tables 6 and 10 "
        + (
            f"go one way in all {size['Table 6']} and {size['Table 10']} pairs."
            if one_way
            else "go both ways."
        )
    ]
    table13 = families[-1]
    one_decimal = {", ".join(key) for key in ONE_DECIMAL}
    for row in table13.disagreeing:
        note = " (printed to one decimal: agrees at that precision)" if row.quantity in one_decimal else ""
        cell = row.quantity.replace(", ", ", over ", 1)
        findings.append(
            f"Table 13, {cell}: printed {row.printed:.2f}, recomputed {row.recomputed:.2f}{note}."
        )
    over = shared["recomputed"]
    share = {
        d: max(over[d, g, "explicitly guided"] for g in ("implicitly guided", "implicitly independent"))
        for d in over.index.get_level_values("dataset").unique()
    }
    findings.append(
        "Section 7.2.3 puts the part of the objects of the implicit groups that are also in an explicit "
        "group at about ten percent, with GCC as the example. Over the five datasets the larger of the two "
        "ratios with the explicitly guided "
        "group in Table 13 is " + ", ".join(f"{number(v, 2)} % ({d})" for d, v in share.items()) + "."
    )
    return findings


NOT_RECOMPUTED = [
    (
        "Tables 5, 6, 10 (values)",
        "need the images; similarities of single prompts are not printed, so no interval or test can be had",
    ),
    ("Tables 7–9 (values)", "need the counts of each object in each prompt set; see the consistency above"),
    ("Table 11 (values)", "needs the groups of each image"),
    ("bias scores in the text (Eq. 5)", "counts of the objects are not printed"),
    ("section 5.3, p below 1e-5", "neither statistic nor counts are printed"),
]
