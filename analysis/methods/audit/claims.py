"""The statements of an audit's page, by tests that are adjusted for one another.

Six questions are asked: do the shares of a model differ from the reference, professions from each other, levels of a
factor from the first, do they lie nearer to the reference or farther, do models differ, and in how far they lie from
the reference? The p-values of a question are adjusted among themselves (Hommel 1988; Holm where pictures share noises),
the smallest of each question over the questions (Holm 1979), and single results count only where their question is
answered with yes. Single shares are adjusted over all shares, and count where those of their model are told. Where
nothing differs at all the page errs with the probability of one test; within a question it keeps that probability
whatever the others are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from analysis.methods.audit.comparisons import with_ranks
from analysis.methods.audit.design import ALL, Design
from analysis.report.format import counted, listed, number, p_value
from analysis.stats.multiplicity import adjust_p_values

QUESTIONS = {  # table, adjusted p-values and where those of the page stand
    "reference": ("ranks", "p_adjusted", "p_page"),
    "between": ("between", "p_adjusted", "p_page"),
    "contrast": ("contrasts", "p_adjusted", "p_page"),
    "distance": ("contrasts", "p_distance_adjusted", "p_distance_page"),
    "models": ("models", "p_adjusted", "p_page"),
    "ranks": ("models", "p_distance_adjusted", "p_distance_page"),
}

Tables = Mapping[str, pd.DataFrame]


def adjust_page(tables: Tables, design: Design) -> dict[str, pd.DataFrame]:
    """The tables with the p-values of the page (``p_page``), and whether a contrast overshoots: ``overshoots``.

    A share overshoots where it is significantly on one side of the reference before and on the other side after.
    """
    adjusted = dict(tables)
    asked = {name: row for name, row in QUESTIONS.items() if tables[row[0]][row[1]].notna().any()}
    least = [tables[table][column].min() for table, column, _ in asked.values()]
    for (table, column, page), floor in zip(asked.values(), adjust_p_values(least, method="holm")):
        adjusted[table] = adjusted[table].assign(**{page: tables[table][column].clip(lower=floor)})
    keys = ["model", *design.others]
    gate = adjusted["ranks"][keys].assign(gate=adjusted["ranks"]["p_page"])
    shares = adjusted["shares"]
    floor = shares[keys].merge(gate, on=keys, how="left")["gate"].to_numpy(float)
    adjusted["shares"] = shares.assign(p_page=np.maximum(shares["p_adjusted"], floor))
    adjusted["ranks"] = with_ranks(adjusted["ranks"], adjusted["models"], design)
    contrasts, told = adjusted["contrasts"].copy(), _told(adjusted["shares"], design)
    overshoots = [_overshoots(row, told, design) for row in contrasts.to_dict("records")]
    reason = contrasts.pop("reason")
    adjusted["contrasts"] = contrasts.assign(overshoots=np.array(overshoots, bool), reason=reason)
    return adjusted


def _told(shares: pd.DataFrame, design: Design) -> dict[tuple[str, ...], int]:
    """On which side of the reference the page says that a cell lies; 0 where it says nothing."""
    rows = shares.to_dict("records")
    keys = ("model", *design.factors)
    return {
        tuple(row[name] for name in keys): int(np.sign(row["difference"]))
        if row["p_page"] <= design.alpha
        else 0
        for row in rows
    }


def _overshoots(row: Mapping[str, Any], told: Mapping[tuple[str, ...], int], design: Design) -> bool:
    after = ("model", *design.factors)
    first = tuple(row["baseline"] if name == row["factor"] else row[name] for name in after)
    sides = told.get(first, 0), told.get(tuple(row[name] for name in after), 0)
    return sides[0] * sides[1] < 0


def sentences(tables: Tables, design: Design) -> dict[str, list[str]]:
    """The sentences of the page, by question; a question without a finding has one sentence that says so."""
    said = {
        "reference": list(_reference(tables, design)),
        "between": list(_between(tables["between"], design)),
        "contrast": list(_contrasts(tables["contrasts"], design)),
        "distance": list(_distances(tables["contrasts"], design)),
        "models": list(_models(tables["models"], design)),
        "ranks": list(_ranks(tables, design)),
    }
    for name, (table, column, page) in QUESTIONS.items():
        known = tables[table][column].notna()
        if not known.any():
            said[name] = []
        elif not said[name]:
            least = tables[table][page].min()
            said[name] = [f"{NOTHING[name].format(by=design.plural)} (smallest adjusted {p_value(least)})."]
    return said


NOTHING = {
    "reference": "No model's shares are shown to differ from their references",
    "between": "In no model are {by} shown to differ",
    "contrast": "No change is shown",
    "distance": "No share is shown to have come nearer to the reference, or gone farther from it",
    "models": "No two models are shown to differ",
    "ranks": "No model's shares are shown to lie nearer to the reference than another's",
}


def place(row: Mapping[str, Any], *names: str) -> str:
    """Levels as a sentence has them: *SDXL Turbo, baseline*."""
    return ", ".join(str(row[name]) for name in names if row.get(name) not in (None, "", ALL))


def _reference(tables: Tables, design: Design) -> Iterator[str]:
    shares, keys = tables["shares"], ["model", *design.others]
    for over in tables["ranks"][tables["ranks"]["p_page"] <= design.alpha].to_dict("records"):
        own = shares[np.logical_and.reduce([shares[name] == over[name] for name in keys])]
        records = own[own["p_page"] <= design.alpha].to_dict("records")
        parts = []
        for word, sign in (("above", 1), ("below", -1)):
            some = [row for row in records if np.sign(row["difference"]) == sign]
            if some:
                named = listed(
                    f"{row[design.by]} ({row['count']} of {row['decided']}{_open(row, design)})"
                    for row in some
                )
                parts.append(f"{word} {design.against}: {named}")
        yield (
            f"{place(over, *keys)}: shares of {design.answer} lie away from {design.against}, distance"
            f" {number(over['distance'], 2)} [{number(over['low'], 2)}, {number(over['high'], 2)}]"
            f" ({p_value(over['p_page'])}){'; ' if parts else ', none by itself'}{'; '.join(parts)}."
        )


def _open(row: Mapping[str, Any], design: Design) -> str:
    """A note where what the undecided pictures would be could undo a finding."""
    left = row["pictures"] - row["decided"]
    return f"; not whatever the {left} undecided are" if left and row["p_worst"] > design.alpha else ""


def _between(table: pd.DataFrame, design: Design) -> Iterator[str]:
    for row in table[table["p_page"] <= design.alpha].to_dict("records"):
        yield (
            f"{place(row, 'model', *design.others)}: {design.plural} differ;"
            f" {100 * row['explained']:.0f} % of the variance lies between them, {100 * row['floor']:.0f} % by chance"
            f" ({p_value(row['p_page'])})."
        )


def _contrasts(table: pd.DataFrame, design: Design) -> Iterator[str]:
    for row in table[table["p_page"] <= design.alpha].to_dict("records"):
        over = (
            " It overshoots: before on one side of the reference, after on the other."
            if row["overshoots"]
            else ""
        )
        yield f"{_where(row, design)}: share of {design.answer} {_change(row)} ({p_value(row['p_page'])}).{over}"


def _where(row: Mapping[str, Any], design: Design) -> str:
    which = f"all {design.plural}" if row[design.by] == ALL else row[design.by]
    rest = [row[name] for name in design.others if name != row["factor"]]
    return ", ".join(
        [row["model"], which, *rest, f"{row['factor']} {row['baseline']} → {row[row['factor']]}"]
    )


def _change(row: Mapping[str, Any]) -> str:
    return (
        f"{number(row['share_first'], 2)} → {number(row['share_second'], 2)},"
        f" {number(row['difference'], 2, signed=True)} [{number(row['low'], 2)}, {number(row['high'], 2)}]"
    )


def _distances(table: pd.DataFrame, design: Design) -> Iterator[str]:
    for row in table[table["p_distance_page"] <= design.alpha].to_dict("records"):
        way = "nearer to the reference" if row["distance_difference"] < 0 else "farther from the reference"
        yield (
            f"{_where(row, design)}: {way}, distance {number(row['distance_first'], 2)} →"
            f" {number(row['distance_second'], 2)} ({p_value(row['p_distance_page'])})."
        )


def _models(table: pd.DataFrame, design: Design) -> Iterator[str]:
    own = table[table["p_page"] <= design.alpha]
    over, single = own[own[design.by] == ALL], own[own[design.by] != ALL]
    for row in over.to_dict("records"):
        yield (
            f"{row['first']} and {row['second']}{_settings(row, design)}: mean share of {design.answer}"
            f" {number(row['share_first'], 2)} and {number(row['share_second'], 2)}, difference"
            f" {number(row['difference'], 2, signed=True)} [{number(row['low'], 2)}, {number(row['high'], 2)}]"
            f" ({p_value(row['p_page'])})."
        )
    for _, rows in single.groupby(["first", "second", *design.others], sort=False):
        records = rows.to_dict("records")
        named = listed(
            f"{row[design.by]} ({number(row['share_first'], 2)} and {number(row['share_second'], 2)})"
            for row in records
        )
        yield f"{records[0]['first']} and {records[0]['second']}{_settings(records[0], design)} differ in {named}."


def _settings(row: Mapping[str, Any], design: Design) -> str:
    return "".join(f", {row[name]}" for name in design.others)


def _ranks(tables: Tables, design: Design) -> Iterator[str]:
    table = tables["models"]
    for row in table[table["p_distance_page"] <= design.alpha].to_dict("records"):
        nearer, farther = ("second", "first") if row["distance_difference"] < 0 else ("first", "second")
        yield (
            f"{row[nearer]}{_settings(row, design)} lies nearer to the reference than {row[farther]}: distance"
            f" {number(row[f'distance_{nearer}'], 2)} and {number(row[f'distance_{farther}'], 2)}"
            f" ({p_value(row['p_distance_page'])})."
        )


def possible(tables: Tables, design: Design) -> str:
    """A sentence on the differences that so many pictures can detect."""
    shares, contrasts = tables["shares"], tables["contrasts"]
    smallest = shares["detectable"].min()
    n = int(shares["decided"].median())
    found = (
        f"it must lie {number(smallest, 2)} from its reference to be detected with a power of 80 %"
        if smallest == smallest
        else "not even a share of 0 or 1 is detected"
    )
    effect, needed = number(design.effect, 2), shares["pictures_needed"].max()
    more = f"; {effect} takes {counted(int(needed), 'picture')} a cell" if needed == needed else ""
    text = (
        f"With {counted(n, 'decided picture')} a cell (median) and {counted(len(shares), 'cell')}: if one alone"
        f" differs, {found}{more}."
    )
    change, many = contrasts["detectable"].median(), contrasts["pictures_needed"].median()
    if contrasts["p_value"].notna().any():
        size = f"of {number(change, 2)}" if change == change else "of no size"
        text += f" A change {size} is detected, if one alone changes (median over rows)"
        text += f"; one of {effect} takes {counted(int(many), 'picture')} a cell." if many == many else "."
    return text
