"""The shares of a trace as LaTeX, in the layout of `analysis.report.latex`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from analysis.methods.tracing.findings import by_place
from analysis.methods.tracing.outcomes import outcome_words
from analysis.methods.tracing.shares import BEYOND, FLOOR, NECESSITY, SUFFICIENCY
from analysis.report.format import LATEX_DASH, latex_p_value
from analysis.report.latex import latex, signed_cell
from analysis.tables.registry import TABLES, read
from probes.runs.run import Run


def documents(run: Run) -> Iterator[tuple[str, str]]:
    """Return the LaTeX of the shares that a run's trace holds, with its name; none where it holds none."""
    if "trace_shares" not in run.tables():
        return
    table = read(run, "trace_shares")
    table = table[(table["outcome"] == table["outcome"].iloc[0]) & (table["donor"] == table["donor"].iloc[0])]
    if table["share"].isna().all():
        return
    (entry,) = TABLES["trace_shares"].printed
    names = {"data": run.config.name, "model": run.config.model_name}
    caption = entry.caption.format(outcome=outcome_words(table["outcome"].iloc[0]), **names)
    level = f"{100 * run.config.measure.level:g} % interval"
    heads = ("Sufficiency", level, "Necessity", level, "Floor", "p", "n")
    rows = [(place["name"], _cells(place)) for place in by_place(table)]
    yield entry.name, latex(caption, heads, rows, entry.label, entry.note)


def _cells(place: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """A place's numbers in LaTeX."""
    cells = []
    for name in (SUFFICIENCY, NECESSITY):
        row = place[name] or {}
        ends = [signed_cell(row.get(end), 2) for end in ("low", "high")]
        cells += [
            signed_cell(row.get("share"), 2),
            LATEX_DASH if LATEX_DASH in ends else f"[{', '.join(ends)}]",
        ]
    tested = place[BEYOND] or place[SUFFICIENCY]
    floor = signed_cell((place[FLOOR] or {}).get("share"), 2)
    return [*cells, floor, latex_p_value(tested["p_adjusted"]), str(tested["n_prompts"])]
