"""The report's section on a trace: sentences, figures and numbers by place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from analysis.methods.tracing.cuts import UNTESTED
from analysis.methods.tracing.figures import draw_map, draw_shares
from analysis.methods.tracing.findings import by_place, findings, spanned, why_outside
from analysis.methods.tracing.latex import documents
from analysis.methods.tracing.outcomes import outcome_words
from analysis.methods.tracing.shares import SUFFICIENCY
from analysis.methods.tracing.stored import StoredTrace, read_trace
from analysis.report.environment import environment
from analysis.report.figures.style import Drawn
from analysis.report.method import Lead, ReportedMethod, ReportSection
from probes.config.schema import Config

if TYPE_CHECKING:
    from probes.runs.run import Run

HEADING = "Total effect: {outcome} of {first} less that of {second}"
CHOSEN = (
    "The prompts with the smallest, the middle and the largest total effect; under an image: its {outcome}. In the last"
    " image the named place holds the activations of {first}."
)


def sentences(trace: StoredTrace, config: Config) -> list[str]:
    """The sentences on both words together."""
    template = environment().get_template("analysis.methods.tracing/sentences.j2")
    found = findings(trace, config)
    ranked = [f"{place['name']} {spanned(place[SUFFICIENCY], 'effect', True)}" for place in found["ranked"]]
    functions = {"spanned": spanned, "why_outside": why_outside, "ranked_texts": ranked}
    text = template.render(**found, **functions)
    return [Markup(line).unescape() for line in text.splitlines() if line.strip()]


def draw(trace: StoredTrace, config: Config) -> dict[str, Drawn]:
    """The figures of the outcome that is shown, by name."""
    measure = config.measure
    options = measure.level, measure.alpha, outcome_words(trace.outcome), config.unit
    tables = {name: trace.shown(name) for name in ("trace_shares", "trace_windows", "trace_heads")}
    drawn = [
        draw_shares(table, *options)
        if name == "trace_shares"
        else draw_map(table, name.replace("_", "-"), *options)
        for name, table in tables.items()
        if len(table)
    ]
    return {figure.name: figure for figure in drawn if figure is not None}


def draw_trace(run: Run) -> dict[str, Drawn]:
    """The figures of a run's trace, by name; none of a run without one."""
    trace = read_trace(run)
    return draw(trace, run.config) if trace else {}


def section(trace: StoredTrace, config: Config) -> dict[str, Any]:
    """The context of the section's template."""
    outcomes = trace.tables["trace_total"]["outcome"].unique()
    cuts = trace.shown("trace_cuts", every_donor=True)
    return {
        **findings(trace, config),
        "figures": ("trace-shares", "trace-windows", "trace-heads"),
        "sentences": sentences(trace, config),
        "totals": trace.shown("trace_total", every_donor=True).to_dict("records"),
        "rows": by_place(trace.shown("trace_shares", every_donor=True)),
        "spanned": spanned,
        "cuts": cuts.to_dict("records"),
        "untested": UNTESTED,
        "others": [outcome_words(name) for name in outcomes if name != trace.outcome],
    }


def lead(trace: StoredTrace, config: Config) -> Lead:
    """The first screen: the total effect, and the place with the largest share of it."""
    found = findings(trace, config)
    total, name, first, second = (found[key] for key in ("total", "outcome", "first", "second"))
    difference, places = spanned(total, "total"), found["places"]
    if not total["n_prompts"]:
        answer = f"The {name} has no value in any image that was generated: nothing can be said of where it is decided."
    elif total["n_prompts"] == 1:
        answer = (
            f"Of one {config.unit} this is an illustration: the words move the {name} by {difference}; no interval can"
            " be given."
        )
    elif not found["any_effect"]:
        answer = (
            f"The total effect of the words on the {name}, {difference}, cannot be told from 0: no shares of it can be"
            " stated."
        )
    elif places:
        best = found["largest"]
        held = "do more than a synonym" if found["controls"] else "can be told from 0"
        answer = (
            f"The largest share of the total effect is that of {best['name']}: {spanned(best[SUFFICIENCY], 'share')}; "
            f"{len(found['told'])} of {len(places)} places {held}."
        )
    else:
        answer = f"The total effect of the words on the {name} is {difference}."
    return Lead(
        f"Where in the model do {first} and {second} prompts take effect?",
        answer,
        ("trace-windows",) if total["n_prompts"] == 1 else ("trace-shares", "trace-windows"),
        trace.examples,
        HEADING.format(outcome=name, first=first, second=second),
        CHOSEN.format(outcome=name, first=first),
    )


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
