"""Cho et al. 2023 (DALL-Eval): gender MAD, skin tone and attributes from the tables of the appendix, with floors."""

from __future__ import annotations

import numpy as np
import pandas as pd

from analysis.methods.dalleval.scores import TONES, even_p_values
from analysis.stats.mad_floor import mad_floor
from analysis.stats.multiplicity import adjust_p_values
from analysis.stats.permutation import NoiseFloor
from lab.papers.compare import Paper, PrintedTable, compared, paired
from lab.papers.tables import read_table, read_values

IMAGES = 9  # a prompt
N_HOT = {1: 0.18, 2: 0.16, 3: 0.14}  # section 5.3
MODELS = ["minDALL-E", "Karlo", "Stable Diffusion"]
EXTREMES = {"uniform (unbiased)": [1] * TONES, "one-hot (entirely biased)": [1]}
CELL = ["model", "gender", "profession"]
MAD, SKILL, PRESENCE = "section 4.2.4", "mean of the row", "section 4.2.3"


def gender_counts() -> pd.DataFrame:
    """Images read as female, of nine: index profession, one column per model (Tables 16, 17)."""
    averages = read_values("dalleval2023_table16_17_gender", "profession", "model", "average_gender")
    return np.rint(IMAGES * (1 + averages) / 2).astype(int).unstack("model", sort=False)[MODELS]


def gender_floors() -> dict[str, NoiseFloor]:
    """MAD of gender over the 83 professions beside its floor, by model."""
    female = gender_counts()
    return {model: mad_floor(np.stack([IMAGES - female[model], female[model]], axis=1)) for model in MODELS}


def paper() -> Paper:
    """Everything the page says of this paper."""
    female, floors = gender_counts(), gender_floors()
    p_values = {m: adjust_p_values(even_p_values(female[m], np.full(len(female), IMAGES))) for m in MODELS}
    printed = read_values("dalleval2023_table8_mad", "model", "mad_gender")[MODELS]
    found = {
        "images": IMAGES,
        "professions": len(female),
        "alike": len(female) * 2 / 2**IMAGES,
        "floors": [
            (m, floors[m], int((p_values[m] < 0.05).sum()), int(female[m].isin([0, IMAGES]).sum()))
            for m in MODELS
        ],
        "same_order": list(printed.sort_values().index) == sorted(MODELS, key=lambda m: floors[m].value),
        "one_more": {m: _one_more(female[m], printed[m]) for m in MODELS},
    }
    return Paper("DALL-Eval (Cho et al. 2023)", printed_tables(), found)


def _one_more(female: pd.Series, printed: float) -> tuple[float, float, list[int]]:
    """The |average gender| of one more prompt that gives the printed MAD, its slack, and the ninths that fit."""
    size = (2 * female / IMAGES - 1).abs()
    need = 2 * printed * (len(size) + 1) - size.sum()
    slack = (len(size) + 1) * 1e-4  # half a unit of the printed fourth decimal, doubled
    return need, slack, [k for k in range(1, IMAGES + 1, 2) if abs(k / IMAGES - need) <= slack + 1e-9]


def printed_tables() -> list[PrintedTable]:
    """Every table that follows from another, with its recomputed cells."""
    female, floors = gender_counts(), gender_floors()
    table8 = read_table(
        "dalleval2023_table8_mad",
        ["model", "mad_gender", "mad_skin_tone"],
        numeric=["mad_gender", "mad_skin_tone"],
    ).set_index("model")
    average = read_values("dalleval2023_printed_averages", "model", "quantity", "average")
    tone = read_values("dalleval2023_table20_21_skin_tone", "profession", "model", "average_skin_tone")

    def even(counts: list[int], categories: int) -> float:
        return mad_floor((counts + [0] * categories)[:categories]).value

    extremes = [
        ((column, name), table8.loc[name, column], even(counts, categories))
        for name, counts in EXTREMES.items()
        for column, categories in (("mad_gender", 2), ("mad_skin_tone", TONES))
    ]
    genders = [(m, average[m, "average gender"], (2 * female[m] / IMAGES - 1).mean()) for m in MODELS]
    tones = [(m, average[m, "average skin tone"], tone.xs(m, level="model").mean()) for m in MODELS]
    hot = [(f"{n}-hot", value, even([1] * n, TONES)) for n, value in N_HOT.items()]
    return [
        compared(
            "MAD, gender",
            "8 from 16, 17",
            MAD,
            4,
            [(m, table8.loc[m, "mad_gender"], floors[m].value) for m in MODELS],
        ),
        compared("MAD of no and of whole bias", "8", MAD, 4, extremes),
        compared("average gender", "17 from 16, 17", MAD, 2, genders),
        compared("average skin tone", "21 from 20, 21", MAD, 2, tones),
        compared("MAD, skin tone, n-hot", "section 5.3", MAD, 2, hot),
        _skills("2", "dalleval2023_table2_skills", "images"),
        _skills("3", "dalleval2023_table3_human_vs_detr", "model"),
        *_attributes(),
    ]


def _skills(table: str, name: str, key: str) -> PrintedTable:
    skills = ["object", "count", "spatial"]
    scores = read_table(name, ["evaluator", key, *skills, "average"], numeric=[*skills, "average"])
    scores = scores.set_index(["evaluator", key])
    cells = paired(scores["average"], scores[skills].mean(axis=1))
    return compared("average of the skills, %", table, SKILL, 1, cells)


def attribute_presence() -> pd.DataFrame:
    """Tables 23–31: index (model, gender, profession, attribute); columns presence, k, difference_from_person."""
    numeric, index = ["presence", "k", "difference_from_person"], [*CELL, "attribute"]
    name = "dalleval2023_tables23to31_attributes"
    return read_table(name, index + numeric, numeric=numeric).set_index(index)


def _attributes() -> list[PrintedTable]:
    """Tables 22–31, cell by cell."""
    table = attribute_presence()
    difference = _from_person(table["presence"])
    stated = table["difference_from_person"].fillna(0.0).loc[difference.index]
    absolute = read_values("dalleval2023_tables23to31_mean_abs_diff", *CELL, "mean_abs_diff")
    mean = (table["k"] / IMAGES).groupby(level=["model", "gender", "attribute"], sort=False).mean()
    table22 = read_values("dalleval2023_table22_attributes", "model", "gender", "attribute", "value")
    between = table22.xs("woman-man", level="gender")
    averages = read_values("dalleval2023_printed_averages", "table", "model", "quantity", "average")
    averages = averages.xs("Table 22", level="table")

    def mean_absolute(values: pd.Series) -> pd.Series:
        return _from_person(values).abs().groupby(level=CELL, sort=False).mean()

    def apart(model: str, quantity: str) -> float:
        first, second = quantity.split(", ")[1].split("-")
        return (mean[model, first] - mean[model, second]).abs().mean()

    differences = table22.xs("woman", level="gender") - table22.xs("man", level="gender")
    many, last = "24, 25, 27, 28, 30, 31", "24–31, last column"
    exact = mean_absolute(table["k"] / IMAGES)
    of_averages = [(key, value, apart(*key)) for key, value in averages.items()]
    presences = paired(table22.drop("woman-man", level="gender"), mean)
    return [
        compared("difference from *person*", many, PRESENCE, 2, paired(stated, difference)),
        compared(
            "mean absolute difference, of presences",
            last,
            PRESENCE,
            2,
            paired(absolute, mean_absolute(table["presence"])),
        ),
        compared("mean absolute difference, of k/9", last, PRESENCE, 2, paired(absolute, exact)),
        compared("average presence", "22 from 23–31", PRESENCE, 2, presences),
        compared("woman − man", "22", PRESENCE, 2, paired(between, differences)),
        compared("mean absolute difference of averages", "22, last column", PRESENCE, 2, of_averages),
    ]


def _from_person(values: pd.Series) -> pd.Series:
    """Each word's value less that of *person*, by the index of `attribute_presence`."""
    person = values.xs("person", level="gender")
    others = values[values.index.get_level_values("gender") != "person"]
    return others - person.reindex(others.index.droplevel("gender")).to_numpy()
