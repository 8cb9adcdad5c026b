"""The statements of an audit's page, by tests that are adjusted for one another.

Six questions are asked: do the shares of a model differ from the reference, professions from each other, levels of a
factor from the first, do they lie nearer to the reference or farther, do models differ, and in how far they lie from
the reference? The p-values of a question are adjusted among themselves (Hommel 1988), the smallest of each question
over the questions (Holm 1979), and single results count only where their question is answered with yes. Single shares
are adjusted over all shares, and count where those of their model do. Where nothing differs at all the page errs with
the probability of one test; within a question it keeps that probability whatever the others are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from analysis.methods.audit.design import ALL, Design
from analysis.methods.audit.differences import SIDES
from analysis.report.format import counted, listed, number, p_value
from analysis.stats.multiplicity import adjust_p_values
from analysis.stats.proportions import ranks

QUESTIONS = {  # by name: its title, and what is said where it has no finding
    "reference": (
        "Do shares differ from the reference?",
        "No model's shares are shown to differ from their references",
    ),
    "between": ("Do {by} differ from each other?", "In no model are {by} shown to differ"),
    "contrast": ("What does each {others} change?", "No change is shown"),
    "distance": (
        "Nearer to the reference, or farther?",
        "No share is shown to have come nearer to the reference, or gone farther from it",
    ),
    "models": ("Do models differ?", "No two models are shown to differ"),
    "ranks": (
        "Whose shares lie nearer to the reference?",
        "No model's shares are shown to lie nearer to the reference than another's",
    ),
}

Tables = Mapping[str, pd.DataFrame]
Row = Mapping[str, Any]


def question_rows(tables: Tables, question: str) -> pd.DataFrame:
    """The rows whose tests answer a question."""
    if question in ("reference", "between"):
        return tables["ranks" if question == "reference" else question]
    return tables["differences"][tables["differences"]["question"] == question]


def adjust_page(tables: Tables, design: Design) -> dict[str, pd.DataFrame]:
    """The tables with p-values that are adjusted among a question's and over the questions, ranks, and what overshoots.

    A change overshoots where the page shows the share on one side of the reference before and on the other after.
    """
    adjusted = {
        name: adjust_p_values(question_rows(tables, name)["p_value"].to_numpy(float), method="hommel")
        for name in QUESTIONS
    }
    least = [np.nanmin([*values, np.inf]) for values in adjusted.values()]
    floors = adjust_p_values(np.where(np.isinf(least), np.nan, least), method="holm")
    for (name, values), floor in zip(adjusted.items(), floors):
        table = tables[{"reference": "ranks", "between": "between"}.get(name, "differences")]
        table.loc[question_rows(tables, name).index, "p_adjusted"] = np.maximum(values, floor)
    shares, differences = tables["shares"], tables["differences"]
    keys, names = ["model", *design.others], ["model", *design.factors]
    gate = shares[keys].merge(tables["ranks"][[*keys, "p_adjusted"]], on=keys, how="left")["p_adjusted"]
    shares["p_adjusted"] = np.maximum(shares["p_adjusted"], gate.to_numpy(float))
    significant = shares[shares["p_adjusted"] <= design.alpha].set_index(names)
    sides = np.sign(significant["difference"]).to_dict()
    for index, row in differences[differences["question"] == "contrast"].iterrows():
        cells = [tuple(row[name if name != row["compared"] else side] for name in names) for side in SIDES]
        differences.loc[index, "overshoots"] = np.prod([sides.get(cell, 0) for cell in cells]) < 0
    return {**tables, "ranks": with_ranks(tables["ranks"], question_rows(tables, "ranks"), design)}


def with_ranks(table: pd.DataFrame, differences: pd.DataFrame, design: Design) -> pd.DataFrame:
    """The table of models with ranks by distance, by setting; 1 is the nearest to the reference.

    ``rank_low`` to ``rank_high`` are the ranks that a model may have by all pairs that differ significantly.
    """
    significant = differences[differences["p_adjusted"] <= design.alpha].to_dict("records")
    frames = []
    for _, group in table.groupby(list(design.others) or np.zeros(len(table)), sort=False):
        names, level = list(group["model"]), group.iloc[0][list(design.others)].to_dict()
        better = np.zeros((len(names), len(names)), bool)
        for row in significant:
            if level.items() <= row.items():
                nearer, farther = SIDES if row["difference"] > 0 else SIDES[::-1]
                better[names.index(row[nearer]), names.index(row[farther])] = True
        low, high = ranks(better)
        rank = group["distance"].rank(method="min").astype("Int64")
        ranked = group.assign(rank=rank, rank_low=low, rank_high=high)
        frames.append(ranked.sort_values("rank", kind="stable"))
    return pd.concat(frames, ignore_index=True)


def sentences(tables: Tables, design: Design) -> Iterator[tuple[str, str]]:
    """Yield the sentences of the page with their questions; one without a finding has a sentence that says so."""
    for name, (_, nothing) in QUESTIONS.items():
        rows = question_rows(tables, name)
        significant = rows[rows["p_adjusted"] <= design.alpha]
        for row in significant.to_dict("records"):
            if name == "reference":
                yield name, _reference(row, tables["shares"], design)
            else:
                yield name, (_between if name == "between" else _difference)(row, design)
        if significant.empty and rows["p_adjusted"].notna().any():
            text = nothing.format(by=design.plural)
            yield name, f"{text} (smallest adjusted {p_value(rows['p_adjusted'].min())})."


def _reference(row: Row, shares: pd.DataFrame, design: Design) -> str:
    keys = ["model", *design.others]
    group = shares[(shares[keys] == [row[name] for name in keys]).all(axis=1)]
    parts = []
    for word, sign in (("above", 1), ("below", -1)):
        some = group[(group["p_adjusted"] <= design.alpha) & (np.sign(group["difference"]) == sign)]
        named = []
        for one in some.to_dict("records"):
            left = one["pictures"] - one["decided"]  # which could undo the finding
            note = (
                f"; not whatever the {left} undecided are" if left and one["p_worst"] > design.alpha else ""
            )
            named.append(f"{one[design.by]} ({one['count']} of {one['decided']}{note})")
        if named:
            parts.append(f"{word} {design.against}: {listed(named)}")
    return (
        f"{', '.join(row[name] for name in keys)}: shares of {design.answer} lie away from {design.against}, distance"
        f" {number(row['distance'], 2)} [{number(row['low'], 2)}, {number(row['high'], 2)}]"
        f" ({p_value(row['p_adjusted'])}); {'; '.join(parts) or 'none by itself'}."
    )


def _between(row: Row, design: Design) -> str:
    levels = [row[name] for name in ("model", *design.others)]
    return (
        f"{', '.join(levels)}: {design.plural} differ;"
        f" {100 * row['explained']:.0f} % of the variance lies between them, {100 * row['floor']:.0f} % by chance"
        f" ({p_value(row['p_adjusted'])})."
    )


def _difference(row: Row, design: Design) -> str:
    """A difference of shares or distances, with where it is."""
    which = f"all {design.plural}" if row[design.by] == ALL else row[design.by]
    levels = [row["model"], which, *(row[name] for name in design.others)]
    where = ", ".join([*filter(None, levels), f"{row['compared']} {row['first']} → {row['second']}"])
    first, second = (number(row[f"value_{side}"], 2) for side in SIDES)
    if row["question"] in ("distance", "ranks"):
        way = "nearer to the reference" if row["difference"] < 0 else "farther from the reference"
        return f"{where}: {way}, distance {first} → {second} ({p_value(row['p_adjusted'])})."
    over = (
        " It overshoots: before on one side of the reference, after on the other."
        if row["overshoots"]
        else ""
    )
    return (
        f"{where}: share of {design.answer} {first} → {second}, {number(row['difference'], 2, signed=True)}"
        f" [{number(row['low'], 2)}, {number(row['high'], 2)}] ({p_value(row['p_adjusted'])}).{over}"
    )


def possible(shares: pd.DataFrame, design: Design) -> str:
    """A sentence on the differences that so many pictures can detect."""
    smallest, needed = shares["detectable"].min(), shares["pictures_needed"].max()
    result = (
        f"it must lie {number(smallest, 2)} from its reference to be detected with a power of 80 %"
        if smallest == smallest
        else "not even a share of 0 or 1 is detected"
    )
    effect = number(design.effect, 2)
    more = f"; {effect} takes {counted(int(needed), 'picture')} a cell" if needed == needed else ""
    return (
        f"With {counted(int(shares['decided'].median()), 'decided picture')} a cell (median) and"
        f" {counted(len(shares), 'cell')}: if one alone differs, {result}{more}."
    )
