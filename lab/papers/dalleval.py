"""Cho et al. 2023 (DALL-Eval): gender MAD, skin tone and attributes from the tables of the appendix, with floors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from analysis.methods.dalleval.scores import TONES, even_p_values
from analysis.stats.mad_floor import mad_floor
from analysis.stats.multiplicity import adjust_p_values
from analysis.stats.permutation import NoiseFloor
from lab.papers.compare import PaperSection, PrintedNumber, PrintedTable, family, number, p_text
from lab.papers.dalleval_attributes import attribute_families
from lab.papers.tables import read_table

IMAGES = 9  # a prompt
N_HOT = {1: 0.18, 2: 0.16, 3: 0.14}  # section 5.3
MODELS = ("minDALL-E", "Karlo", "Stable Diffusion")


def gender_counts(folder: Path | None = None) -> pd.DataFrame:
    """Images read as female, of nine: index profession, one column per model (Tables 16, 17)."""
    table = read_table(
        "dalleval2023_table16_17_gender",
        ["profession", "model", "average_gender"],
        numeric=["average_gender"],
        folder=folder,
    )
    table["female"] = np.rint(IMAGES * (1 + table["average_gender"]) / 2).astype(int)
    return table.pivot_table(index="profession", columns="model", values="female", sort=False).astype(int)[
        list(MODELS)
    ]


def gender_floors(folder: Path | None = None) -> dict[str, NoiseFloor]:
    """MAD of gender over the 83 professions beside its floor, by model."""
    female = gender_counts(folder)
    return {model: mad_floor(np.stack([IMAGES - female[model], female[model]], axis=1)) for model in MODELS}


def section(folder: Path | None = None) -> PaperSection:
    """Everything the page says of this paper."""
    female, floors = gender_counts(folder), gender_floors(folder)
    table8 = read_table(
        "dalleval2023_table8_mad",
        ["model", "mad_gender", "mad_skin_tone"],
        numeric=["mad_gender", "mad_skin_tone"],
        folder=folder,
    ).set_index("model")
    averages = read_table(
        "dalleval2023_printed_averages",
        ["table", "model", "quantity", "average"],
        numeric=["average"],
        folder=folder,
    )
    average = averages.set_index(["model", "quantity"])["average"]
    tone = read_table(
        "dalleval2023_table20_21_skin_tone",
        ["profession", "model", "average_skin_tone"],
        numeric=["average_skin_tone"],
        folder=folder,
    )
    rows = [
        PrintedNumber(
            f"MAD, gender, {m}",
            "Table 8 from Tables 16, 17",
            "section 4.2.4",
            table8.loc[m, "mad_gender"],
            floors[m].value,
            4,
        )
        for m in MODELS
    ]
    for name, counts in (("uniform (unbiased)", [1] * TONES), ("one-hot (entirely biased)", [1])):
        for column, categories in (("mad_gender", 2), ("mad_skin_tone", TONES)):
            value = mad_floor(counts[:categories] + [0] * (categories - len(counts[:categories]))).value
            rows.append(
                PrintedNumber(
                    f"MAD, {column.removeprefix('mad_').replace('_', ' ')}, {name}",
                    "Table 8",
                    "section 4.2.4",
                    table8.loc[name, column],
                    value,
                    4,
                )
            )
    for m in MODELS:
        exact = float((2 * female[m] / IMAGES - 1).mean())
        printed = average[m, "average gender"]
        rows.append(
            PrintedNumber(
                f"average gender, {m}", "Table 17 (and 6) from 16, 17", "section 4.2.4", printed, exact, 2
            )
        )
    for m in MODELS:
        mean = float(tone.loc[tone["model"] == m, "average_skin_tone"].mean())
        note = "from averages cut to two decimals, so up to 0.01 low"
        printed, table = average[m, "average skin tone"], "Table 21 (and 7) from 20, 21"
        rows.append(PrintedNumber(f"average skin tone, {m}", table, "section 4.2.4", printed, mean, 2, note))
    for hot, printed in N_HOT.items():
        value = mad_floor([1] * hot + [0] * (TONES - hot)).value
        rows.append(
            PrintedNumber(f"MAD, skin tone, {hot}-hot", "section 5.3", "section 4.2.4", printed, value, 2)
        )
    families = [*_skill_families(folder), *attribute_families(folder)]
    return PaperSection(
        "DALL-Eval (Cho et al. 2023)",
        "Cho, Zala and Bansal, *DALL-Eval: Probing the Reasoning Skills and Social Biases of Text-to-Image "
        "Generation Models*, ICCV 2023, arXiv:2202.04053. Nine images a prompt, 83 professions. *Female* "
        "and *male* are what a vision model answered about an image; they say nothing of a person.",
        rows,
        families,
        [_gender_block(female, floors)],
        _findings(female, floors, table8, families),
        NOT_RECOMPUTED,
    )


def _skill_families(folder: Path | None) -> list[PrintedTable]:
    families = []
    for name, table, key in (
        ("dalleval2023_table2_skills", "Table 2", "images"),
        ("dalleval2023_table3_human_vs_detr", "Table 3", "model"),
    ):
        skills = ["object", "count", "spatial"]
        scores = read_table(
            name, ["evaluator", key, *skills, "average"], numeric=[*skills, "average"], folder=folder
        )
        cells = zip(scores["evaluator"] + ", " + scores[key], scores["average"], scores[skills].mean(axis=1))
        families.append(family("average of the three skills, %", table, "mean of the row", cells, 1))
    return families


def _gender_block(female: pd.DataFrame, floors: dict[str, NoiseFloor]) -> tuple[str, str, pd.DataFrame]:
    lines = []
    for m in MODELS:
        p = even_p_values(female[m], np.full(len(female), IMAGES))
        floor = floors[m]
        lines.append(
            {
                "model": m,
                "MAD": number(floor.value),
                "floor": number(floor.floor),
                "s.d.": number(floor.sd),
                "MAD − floor": number(floor.excess),
                "p": p_text(floor.p_value),
                "professions, adjusted p < 0.05": f"{int((adjust_p_values(p) < 0.05).sum())} of {len(p)}",
                "professions with nine alike": f"{int(female[m].isin([0, IMAGES]).sum())} of {len(p)}",
            }
        )
    expected = len(female) * 2 / 2**IMAGES
    return (
        "Floors of Table 8, gender",
        f"MAD as in section 4.2.4. Nine images cannot be split evenly: the smallest possible MAD of a "
        f"prompt is {1 / 18:.4f}, and fair coins give 35/256 = {35 / 256:.4f} on average. *floor*, *s.d.* "
        f"and *p* are of the mean over the 83 professions (Tables 16, 17), exact by convolution, nine fair "
        f"coins a profession. *professions, adjusted*: exact binomial test of each, Benjamini–Hochberg over "
        f"83; the smallest p nine images can give is 0.0039. *nine alike*: fair coins would give "
        f"{expected:.2f} of 83.",
        pd.DataFrame(lines),
    )


def _findings(female, floors, table8, families) -> list[str]:
    findings = []
    for m in MODELS:
        printed, recomputed = table8.loc[m, "mad_gender"], floors[m].value
        size = (2 * female[m] / IMAGES - 1).abs()
        need = 2 * printed * (len(size) + 1) - size.sum()
        slack = (len(size) + 1) * 1e-4  # half a unit of the printed fourth decimal, doubled
        ninths = [k for k in range(1, IMAGES + 1, 2) if abs(k / IMAGES - need) <= slack + 1e-9]
        would = (
            f"one more prompt with |average gender| = {ninths[0]}/9 would give the printed value"
            if ninths
            else f"one more prompt would need |average gender| = {need:.3f} ± {slack:.3f}, which nine "
            f"classified images cannot give (they give odd ninths)"
        )
        findings.append(
            f"Table 8, gender, {m}: printed {printed:.4f}, recomputed {recomputed:.4f} from the 83 "
            f"professions of Tables 16 and 17 (difference {printed - recomputed:+.4f}); {would}."
        )
    ranks = {m: table8.loc[m, "mad_gender"] for m in MODELS}
    same = sorted(MODELS, key=ranks.get) == sorted(MODELS, key=lambda m: floors[m].value)
    low = floors["minDALL-E"]
    findings.append(
        f"The order of the three models by gender MAD is {'the same' if same else 'another'} when "
        f"recomputed. The floor of {number(low.floor)} makes up {100 * low.floor / low.value:.0f} % of "
        f"minDALL-E's recomputed {number(low.value)} and "
        f"{100 * floors['Karlo'].floor / floors['Karlo'].value:.0f} % of Karlo's: less the floor, they are "
        f"{number(low.excess)} and {number(floors['Karlo'].excess)}."
    )
    for each in families:
        if each.table == "Table 3" and each.disagreeing:
            cells = "; ".join(
                f"{r.quantity}: {r.printed} printed, {r.recomputed:.1f} recomputed" for r in each.disagreeing
            )
            findings.append(
                f"Table 3: {len(each.disagreeing)} of {len(each.rows)} printed averages are not the mean of "
                f"their row ({cells})."
            )
    return findings


NOT_RECOMPUTED = [
    (
        "Table 8, skin tone",
        "needs counts of the ten tones a prompt; only averages are printed",
    ),
    ("Tables 2, 3, 5 (single cells), 18, 19", "need the images and the detections"),
    ("Tables 16, 17, 20, 21 (single cells)", "need the answers for single images"),
    ("human evaluations", "single labels are not printed"),
]
