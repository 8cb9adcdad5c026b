"""DALL-Eval's attributes: the differences of Tables 22–31."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from lab.papers.compare import PrintedTable, family
from lab.papers.tables import read_table

IMAGES = 9  # a prompt
KEY = ["model", "gender", "profession", "attribute"]


def attribute_presence(folder: Path | None = None) -> pd.DataFrame:
    """Tables 23–31: index (model, gender, profession, attribute); columns presence, k, difference_from_person."""
    numeric = ["presence", "k", "difference_from_person"]
    table = read_table("dalleval2023_tables23to31_attributes", KEY + numeric, numeric=numeric, folder=folder)
    return table.set_index(KEY)


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
        value = float((mean[r.model, first] - mean[r.model, second]).abs().mean())
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
