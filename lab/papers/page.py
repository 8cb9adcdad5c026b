"""The page: paper beside recomputed, a section a paper."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import pandas as pd

from lab.papers import dalleval, gep, wu
from lab.papers.compare import PaperSection, PrintedNumber, PrintedTable, number

PAPERS = {"gep": gep.section, "dalleval": dalleval.section, "wu": wu.section}
MOST_CELLS = 6  # disagreeing cells named in a row of the table of families

HEAD = """# The papers' numbers, recomputed

Made by `python -m lab.papers.reproduce --out docs/reproduction.md` from the tables that three papers print
(`lab/papers/reference`, with citations in `references.bib`). Nothing here needs a model or an image.

*agrees* says how the printed number follows from the recomputed one: **rounded** (half a unit of the last printed
decimal either way), **cut** (the further decimals dropped), **no** (neither). A disagreement says that two printed
numbers do not follow from each other by the equation named; it does not say which of them is meant, or why.

A distance between frequencies cannot be negative, so it is above zero even where there is no difference. Its **floor**
is what it is on average then (`analysis.stats.noise_floor`); a score says something of a model only as far as it lies
above. *Woman*, *man*, *feminine* and *masculine* name prompts and the images generated from them, never people; a
difference is associated with the words of a prompt.
"""


def page(papers: Sequence[str] = tuple(PAPERS), folder: Path | None = None) -> str:
    """The page in Markdown.

    Parameters
    ----------
    papers : sequence of str
        Of ``gep``, ``dalleval``, ``wu``.
    folder : pathlib.Path, optional
        Where the reference tables are; the package's own by default.

    Raises
    ------
    probes.errors.UserError
        If a reference table is missing or damaged.
    """
    sections = [PAPERS[name](folder) for name in papers]
    parts = [HEAD, "## What was found\n"]
    for section in sections:
        parts += [f"**{section.title}**\n", *(f"- {finding}" for finding in section.findings), ""]
    parts.append(_summary(sections))
    for section in sections:
        parts.append(_section(section))
    return "\n".join(parts).rstrip() + "\n"


def _summary(sections: Iterable[PaperSection]) -> str:
    lines = []
    for section in sections:
        rows = [*section.rows, *(row for each in section.families for row in each.rows)]
        agrees = pd.Series([row.agrees for row in rows]).value_counts()
        lines.append(
            {"paper": section.title, "numbers compared": str(len(rows))}
            | {name: str(int(agrees.get(name, 0))) for name in ("rounded", "cut", "no")}
        )
    return "## How many agree\n\n" + _table(pd.DataFrame(lines), right=range(1, 5)) + "\n"


def _section(section: PaperSection) -> str:
    parts = [f"## {section.title}\n", f"{section.intro}\n", "### Single numbers\n", _rows(section.rows), ""]
    parts += ["### Whole tables\n", _families(section.families), ""]
    for heading, text, table in section.blocks:
        parts += [f"### {heading}\n", f"{text}\n"]
        if table is not None:
            parts += [_table(table), ""]
    parts += ["### What cannot be recomputed\n", "| table | why |\n|---|---|"]
    parts += [f"| {table} | {reason} |" for table, reason in section.not_recomputed]
    return "\n".join([*parts, ""])


def _rows(rows: Sequence[PrintedNumber]) -> str:
    lines = [
        {
            "quantity": row.quantity,
            "table": row.table,
            "equation": row.equation,
            "paper": number(row.printed, row.decimals),
            "recomputed": number(row.recomputed, row.decimals + 2 if row.decimals else 0),
            "difference": _difference(row),
            "agrees": row.agrees,
            "note": row.note,
        }
        for row in rows
    ]
    return _table(pd.DataFrame(lines), right=(3, 4, 5))


def _difference(row: PrintedNumber) -> str:
    value = number(row.printed - row.recomputed, row.decimals + 2 if row.decimals else 0)
    return value if value.startswith("-") or float(value) == 0 else f"+{value}"


def _families(families: Sequence[PrintedTable]) -> str:
    lines = []
    for each in families:
        decimals = each.rows[0].decimals + 2
        named = [
            f"{row.quantity}: {number(row.printed, row.decimals)} for {number(row.recomputed, decimals)}"
            for row in each.disagreeing[:MOST_CELLS]
        ]
        more = len(each.disagreeing) - len(named)
        lines.append(
            {
                "quantity": each.quantity,
                "table": each.table,
                "equation": each.equation,
                "cells": str(len(each.rows)),
                "rounded": str(each.rounded),
                "cut": str(each.cut),
                "no": str(len(each.disagreeing)),
                "largest difference": number(each.largest, decimals),
                "cells that do not agree": "; ".join(named) + (f"; {more} more" if more else ""),
                "note": each.note,
            }
        )
    return _table(pd.DataFrame(lines), right=range(3, 8))


def _table(table: pd.DataFrame, right: Iterable[int] = ()) -> str:
    right = set(right)
    head = "| " + " | ".join(str(column).strip() for column in table.columns) + " |"
    rule = "|" + "".join("---:|" if i in right else "---|" for i in range(table.shape[1]))
    body = ["| " + " | ".join(str(cell) for cell in row) + " |" for row in table.itertuples(index=False)]
    return "\n".join([head, rule, *body])
