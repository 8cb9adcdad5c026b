"""The report's section on a trace: what of the tables it shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from analysis.methods.tracing.cuts import UNTESTED
from analysis.methods.tracing.figures import (
    draw_effects,
    draw_heads,
    draw_shares,
    draw_windows,
    patch_name,
)
from analysis.methods.tracing.latex import documents
from analysis.methods.tracing.outcomes import outcome_words
from analysis.methods.tracing.sentences import opening, sentences
from analysis.methods.tracing.spans import all_spans, joint_share, with_ends
from analysis.methods.tracing.stored import TraceSection, read_trace
from analysis.methods.tracing.strip import captions, draw_strip
from analysis.report.figures.style import Drawn
from analysis.report.format import number
from analysis.report.method import Lead, ReportedMethod, ReportSection
from probes.config.schema import Config

if TYPE_CHECKING:
    from probes.runs.run import Run

FIGURES = tuple(f"trace-{name}" for name in ("shares", "effects", "windows", "heads", "strip"))


def draw(section: TraceSection, config: Config) -> dict[str, Drawn]:
    """Draw the figures of the outcome that is shown, by name."""
    level, alpha, unit = config.measure.level, config.measure.alpha, config.unit
    drawn = [
        draw_shares(section.shown("trace_shares"), level, alpha, unit)
        or draw_effects(section.shown("trace_shares"), level, alpha, outcome_words(section.outcome), unit),
        draw_windows(section.shown("trace_windows"), alpha, unit, outcome_words(section.outcome)),
        draw_heads(section.shown("trace_heads"), level, alpha, unit),
        draw_strip(section.strip, section.columns, outcome_words(section.outcome)),
    ]
    return {figure.name: figure for figure in drawn if figure is not None}


def draw_trace(run: Run) -> dict[str, Drawn]:
    """The figures of a run's trace, by name; none of a run without one."""
    section = read_trace(run)
    return draw(section, run.config) if section else {}


def section(traced: TraceSection, config: Config) -> dict[str, Any]:
    """The context of the section's template."""
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
            {**row, "patch": patch_name(pd.Series(row)), "ends": all_spans(row)}
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


def lead(traced: TraceSection, config: Config) -> Lead:
    """Return the first screen: the total effect, and the place with the largest share of it."""
    total, name = traced.shown("trace_total").iloc[0], outcome_words(traced.outcome)
    first, second = traced.both.split("-")
    question = f"Where in the model do {first} and {second} prompts take effect?"
    shares = traced.shown("trace_shares")
    sites = shares[(shares["kind"] == "site") & shares["sufficiency"].notna()] if len(shares) else shares
    if np.isnan(total["total"]):
        answer = f"The {name} has no value in any image that was drawn: nothing can be said of where it is decided."
    elif total["n_prompts"] == 1:
        answer = (
            f"Of one {config.unit} this is an illustration: the words move the {name} by {number(total['total'], 2)};"
            " no interval can be given."
        )
    elif not total["told_from_0"]:
        answer = (
            f"The total effect of the words on the {name}, {with_ends(total, 'total', 2)}, cannot be told from 0: no "
            "shares of it can be stated."
        )
    elif len(sites):
        best = sites.loc[sites["sufficiency"].idxmax()]
        beyond = int((sites["p_adjusted"] < config.measure.alpha).sum())
        held = "do more than a synonym" if sites["floor_donor"].iloc[0] else "can be told from 0"
        answer = (
            f"The largest share of the total effect is that of {patch_name(best)}: {joint_share(best, 'sufficiency')}; "
            f"{beyond} of {len(sites)} places {held}."
        )
    else:
        answer = f"The total effect of the words on the {name} is {with_ends(total, 'total', 2)}."
    figures = ("trace-windows", "trace-effects") if total["n_prompts"] == 1 else FIGURES[:2]
    return Lead(question, answer, figures, traced.lead_examples, *captions(name, [first, second]))


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
