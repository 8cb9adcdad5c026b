"""The shares of a trace as LaTeX, in the layout of `analysis.report.latex`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from analysis.methods.tracing.figures import patch_name
from analysis.methods.tracing.outcomes import outcome_words
from analysis.report.format import LATEX_DASH, latex_p_value
from analysis.report.latex import latex, signed_cell
from analysis.tables.registry import TABLES, read
from probes.runs.run import Run

HEADS = ("Sufficiency", "95 % interval", "Necessity", "95 % interval", "Floor", "p", "n")


def documents(run: Run) -> Iterator[tuple[str, str]]:
    """Return the LaTeX of the shares that a run's trace holds, with its name; none where it holds none."""
    if "trace_shares" not in run.tables():
        return
    table = read(run, "trace_shares")
    table = table[table["outcome"] == table["outcome"].iloc[0]]
    table = table[table["donor"] == table["donor"].iloc[0]]  # both words together
    if table[["sufficiency", "necessity"]].isna().all(axis=None):
        return
    level = f"{100 * run.config.measure.level:g} % interval"
    heads = [level if head == HEADS[1] else head for head in HEADS]
    for entry in TABLES["trace_shares"].printed:
        caption = entry.caption.format(
            outcome=outcome_words(table["outcome"].iloc[0]), data=run.config.name, model=run.config.model_name
        )
        rows = [(patch_name(pd.Series(row)), _cells(row)) for row in table.to_dict("records")]
        yield entry.name, latex(caption, heads, rows, entry.label, entry.note)


def _cells(row: Mapping[str, Any]) -> list[str]:
    """A row's numbers in LaTeX."""
    cells = []
    for name in ("sufficiency", "necessity"):
        ends = [signed_cell(row[f"{name}_joint_{end}"], 2) for end in ("low", "high")]
        cells += [signed_cell(row[name], 2), LATEX_DASH if LATEX_DASH in ends else f"[{', '.join(ends)}]"]
    return [*cells, signed_cell(row["floor"], 2), latex_p_value(row["p_adjusted"]), str(row["n_prompts"])]
