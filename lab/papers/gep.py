"""Zhang et al. 2023 (GEP): Table 3 from Tables 11–14, the floors of its scores, and the smaller tables."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

from analysis.stats.permutation import NoiseFloor
from lab.papers.compare import PaperSection, PrintedNumber, PrintedTable, family, number, p_text
from lab.papers.gep_floors import (
    CONTEXTS,
    IMAGES,
    SEEDS,
    attribute_counts,
    different_attributes,
    floor_block,
    floors,
)
from lab.papers.tables import read_table

AMPLIFIED = {"CogView2": 15, "DALLE-2": 9, "Stable Diffusion": 11}  # section 5, attributes of 15


def section(folder: Path | None = None) -> PaperSection:
    """Everything the page says of this paper."""
    table = attribute_counts(folder)
    difference = (table["woman"] - table["man"]) / IMAGES
    printed = read_table(
        "gep2023_table3", ["setting", "model", "gep_human"], numeric=["gep_human"], folder=folder
    )
    vectors = read_table(
        "gep2023_table13_14_gep_vectors",
        ["setting", "model", "attribute", "difference"],
        numeric=["difference"],
        folder=folder,
    ).set_index(["setting", "model", "attribute"])["difference"]
    score = difference.abs().groupby(level=["setting", "model"], sort=False).mean()
    from_vectors = vectors.abs().groupby(level=["setting", "model"], sort=False).mean()
    rows = []
    for _, r in printed.iterrows():
        key = (r["setting"], r["model"])
        name = f"GEP, {r['model']}, {r['setting']}"
        source = "11" if r["setting"] == "neutral" else "12"
        rows.append(
            PrintedNumber(
                name, f"Table 3 from Table {source}", "Eq. 1, 2", r["gep_human"], float(score[key]), 2
            )
        )
        source = "13" if r["setting"] == "neutral" else "14"
        rows.append(
            PrintedNumber(
                name, f"Table 3 from Table {source}", "Eq. 2", r["gep_human"], float(from_vectors[key]), 2
            )
        )
    amplified = _amplified(table)
    for model, times in AMPLIFIED.items():
        rows.append(
            PrintedNumber(
                f"attributes amplified, {model}",
                "section 5 from Tables 11, 12",
                "Eq. 2",
                times,
                amplified[model],
                0,
            )
        )
    rows += _ranks(folder)
    floors_of, attributes = floors(folder), different_attributes(folder)
    return PaperSection(
        "GEP (Zhang et al. 2023)",
        f"Zhang, Jiang, Turk and Yang, *Auditing Gender Presentation Differences in Text-to-Image Models*, "
        f"arXiv:2302.03675. {CONTEXTS} contexts × {SEEDS} images, so every frequency is a count of {IMAGES} "
        f"images; the recomputed scores use the counts that the printed frequencies stand for.",
        rows,
        _families(table, vectors, folder),
        [floor_block(folder)],
        _findings(floors_of, attributes, rows),
        NOT_RECOMPUTED,
    )


def _amplified(table: pd.DataFrame) -> dict[str, int]:
    """Attributes whose count differs more in the explicit than in the neutral setting, by model."""
    size = (table["woman"] - table["man"]).abs().unstack("setting")
    return (size["explicit"] > size["neutral"]).groupby(level="model").sum().astype(int).to_dict()


def _ranks(folder: Path | None) -> list[PrintedNumber]:
    """Kendall's tau of Table 6 from its own scores."""
    table = read_table(
        "gep2023_table6_scores",
        ["estimator", "setting", "model", "score", "rank", "estimator_kendall_tau"],
        numeric=["score", "rank", "estimator_kendall_tau"],
        folder=folder,
    )
    human = table[table["estimator"] == "GEP_human"].set_index(["setting", "model"])["rank"]
    rows = []
    for estimator, scores in table[table["estimator"] != "GEP_human"].groupby("estimator", sort=False):
        scores = scores.set_index(["setting", "model"])
        tau = stats.kendalltau(scores["score"].rank(), human[scores.index]).statistic
        rows.append(
            PrintedNumber(
                f"Kendall's tau, {estimator} with human",
                "Table 6",
                "section 6",
                scores["estimator_kendall_tau"].iloc[0],
                float(tau),
                3,
            )
        )
    return rows


def _families(table: pd.DataFrame, vectors: pd.Series, folder: Path | None) -> list[PrintedTable]:
    averages = read_table(
        "gep2023_printed_averages",
        ["table", "model", "quantity", "average"],
        numeric=["average"],
        folder=folder,
    )
    average = averages.set_index(["model", "quantity"])["average"]
    difference = ((table["woman"] - table["man"]) / IMAGES).loc[vectors.index]
    mean = table.groupby(level=["setting", "model"], sort=False).mean() / IMAGES
    auc = read_table(
        "gep2023_table16_auc_by_attribute", ["estimator", "model", "auc"], numeric=["auc"], folder=folder
    )
    auc_mean = auc.groupby(["estimator", "model"], sort=False)["auc"].mean()
    table7 = read_table("gep2023_table7_auc", ["estimator", "model", "auc"], numeric=["auc"], folder=folder)
    context = read_table(
        "gep2023_table15_by_context",
        ["setting", "model", "context_number", "gep_human"],
        numeric=["gep_human"],
        folder=folder,
    )
    cells = 15 * SEEDS
    return [
        family(
            "difference woman − man",
            "Tables 13, 14 from 11, 12",
            "Eq. 2",
            zip([", ".join(key) for key in vectors.index], vectors, difference),
            2,
        ),
        family(
            "average frequency",
            "Tables 11, 12, column Avg",
            "Eq. 1",
            [
                (f"{m}, {s}, {g}", average[m, f"frequency, {s}, {g}"], mean.loc[(s, m), g])
                for s, m in mean.index
                for g in ("woman", "man")
            ],
            2,
        ),
        family(
            "score of one context, nearest multiple of 1/75",
            "Table 15",
            "Eq. 2",
            [
                (
                    f"{r.model}, {r.setting}, {r.context_number}",
                    r.gep_human,
                    np.rint(r.gep_human * cells) / cells,
                )
                for r in context.itertuples()
            ],
            2,
            "15 attributes × 5 images: a check that the printed score can occur, not of its value",
        ),
        family(
            "average AUC",
            "Table 16, column Avg",
            "section 6",
            [(f"{m}, {e}", average[m, f"AUC, {e}"], auc_mean[e, m]) for e, m in auc_mean.index],
            2,
            "from AUCs of two decimals",
        ),
        family(
            "average AUC",
            "Table 7 from Table 16",
            "section 6",
            [
                (f"{r.model}, {r.estimator}", round(r.auc, 2), auc_mean[r.estimator, r.model])
                for r in table7.itertuples()
            ],
            2,
            "compared at two decimals, as the AUCs of Table 16 have no more",
        ),
    ]


def _named(tests: pd.DataFrame) -> str:
    """The attributes that differ by their own test, with counts."""
    different = tests[tests["p_adjusted"] < 0.05]
    return "; ".join(
        f"{name} in {r.woman} images generated from feminine prompts and {r.man} from masculine prompts, of "
        f"{IMAGES} each (adjusted p = {p_text(r.p_adjusted)})"
        for name, r in zip(different.index, different.itertuples())
    )


def _findings(
    gep_floors: dict[tuple[str, str], NoiseFloor], attributes: pd.DataFrame, rows: list[PrintedNumber]
) -> list[str]:
    by_name = {row.quantity: row for row in rows}
    below = gep_floors["neutral", "CogView2"]
    shirt = by_name["attributes amplified, CogView2"]
    tau = [row for row in rows if row.quantity.startswith("Kendall") and row.agrees == "cut"]
    findings = [
        f"CogView2, neutral setting: the score {number(below.value)} (printed "
        f"{by_name['GEP, CogView2, neutral'].printed}) lies below the floor of {number(below.floor)} (p = "
        f"{p_text(below.p_value)}): as a score over 15 attributes it gives no evidence of a difference "
        f"associated with the words *woman* and *man*. Attribute by attribute there is one: "
        f"{_named(attributes.loc[('neutral', 'CogView2')])}. A mean of absolute differences dilutes a "
        f"difference in one attribute. The other five scores lie above their floors (largest p "
        f"{p_text(max(f.p_value for k, f in gep_floors.items() if k != ('neutral', 'CogView2')))}).",
    ]
    shares = {key: floor.floor / floor.value for key, floor in gep_floors.items() if floor.excess > 0}
    high, low = max(shares, key=shares.get), min(shares, key=shares.get)
    findings.append(
        f"Of the scores above their floors, the floor makes up between {100 * shares[low]:.0f} % ({low[1]}, "
        f"{low[0]}) and {100 * shares[high]:.0f} % ({high[1]}, {high[0]}). Scores of models with different "
        f"average frequencies are not comparable as they stand: rarely drawn attributes have a lower floor."
    )
    if shirt.agrees == "no":
        findings.append(
            f"The text counts {shirt.printed:.0f} of 15 attributes as amplified for CogView2; whole counts "
            f"give {shirt.recomputed:.0f}. The other one is a tie (shirt, 2 images of 80 in both settings) "
            f"that floating-point frequencies split."
        )
    if tau:
        findings.append(
            f"Kendall's tau of {tau[0].printed} in Table 6 is 7/15 = {tau[0].recomputed:.4f}, cut and not "
            f"rounded."
        )
    return findings


NOT_RECOMPUTED = [
    (
        "Table 3, CLIP score; Tables 4, 5, 8, 9, 18, 19, 21",
        "need the images or the automatic scores of each attribute, which are not printed",
    ),
    ("Tables 7, 16 (single AUCs)", "need the labels and scores of single images; only the averages follow"),
    ("Table 10", "frequencies of the four attributes are not printed"),
    ("Table 15 (values)", "frequencies by context are not printed"),
    ("web site, leaderboard", "needs the images; no counts are published"),
]
