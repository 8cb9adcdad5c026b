"""The report's section on a trace: what of the tables it shows, and its figures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

from analysis.methods.tracing.figures import (
    draw_curve,
    draw_heads,
    draw_shapley,
    draw_shares,
    draw_strip,
    draw_windows,
    patch_name,
)
from analysis.methods.tracing.latex import documents
from analysis.methods.tracing.outcomes import outcome_words
from analysis.methods.tracing.reading import TraceSection, read_trace
from analysis.methods.tracing.steps import UNTESTED
from analysis.methods.tracing.wording import all_ends, lead, opening, sentences
from analysis.report.figures.style import Drawn
from analysis.report.method import ReportedMethod, ReportSection
from probes.config.schema import Config

if TYPE_CHECKING:
    from probes.runs.store import Run

FIGURES = (
    "trace-shares",
    "trace-windows",
    "trace-curve",
    "trace-heads",
    "trace-shapley",
    "trace-strip",
)


def draw(section: TraceSection, config: Config) -> dict[str, Drawn]:
    """Draw the figures of the outcome that is shown, by name."""
    level, unit, total = config.measure.level, config.unit, section.shown("trace_total").iloc[0]
    drawn = [
        draw_shares(section.shown("trace_shares"), level, unit),
        draw_windows(section.shown("trace_windows"), unit),
        draw_curve(section.shown("trace_curve", every_donor=True), total, level, unit),
        draw_heads(section.shown("trace_heads"), level, unit),
        draw_shapley(section.shown("trace_shapley"), level, unit),
        draw_strip(section.strip, section.columns, outcome_words(section.outcome)),
    ]
    return {figure.name: figure for figure in drawn if figure is not None}


def draw_trace(run: Run) -> dict[str, Drawn]:
    """Draw the figures of a run's trace, by name; none of a run without one.

    Parameters
    ----------
    run : probes.runs.store.Run
        A measured run.
    """
    section = read_trace(run)
    return draw(section, run.config) if section else {}


def section(traced: TraceSection, config: Config) -> dict[str, Any]:
    """Lay the section out.

    Returns
    -------
    dict
        ``sentences``; ``totals``, ``rows`` (of every donor, with the name of what was patched) and ``cuts``: rows of
        tables; ``outcome`` in words; ``others``: further outcomes that were measured.
    """
    totals, shares = (
        traced.shown("trace_total", every_donor=True),
        traced.shown("trace_shares", every_donor=True),
    )
    every = traced.tables["trace_total"]["outcome"]
    return {
        "figures": FIGURES,
        "opening": opening(traced, config),
        "sentences": sentences(traced, config),
        "totals": totals.to_dict("records"),
        "rows": [
            {**row, "patch": patch_name(pd.Series(row)), "ends": all_ends(row)}
            for row in shares.to_dict("records")
        ],
        "cuts": [
            {**row, "where": patch_name(pd.Series({**row, "kind": "cut"}))}
            for row in traced.shown("trace_cuts", every_donor=True).to_dict("records")
        ],
        "untested": UNTESTED,
        "outcome": outcome_words(traced.outcome),
        "others": [outcome_words(name) for name in dict.fromkeys(every) if name != traced.outcome],
    }


REPORTED = ReportedMethod(
    section=ReportSection(
        "analysis.methods.tracing/section.html.j2",
        read=read_trace,
        draw=draw,
        context=section,
        anchor="trace",
        title="Trace",
        lead=lead,
    ),
    documents=documents,
)
