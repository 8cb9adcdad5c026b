"""The tables of what is due to the template, rows of `analysis.tables.registry`, and the measure stage of them."""

from __future__ import annotations

from analysis.methods.templates import tables
from analysis.methods.templates.design import design
from analysis.methods.templates.measures import families
from analysis.tables.method import MeasuredMethod
from analysis.tables.registry import write
from analysis.tables.table import Table
from probes.runs.store import Run

VALUES, EFFECTS = "template_values", "template_effects"

TEMPLATES = (
    Table(
        EFFECTS,
        "templates",
        "a source, measure and indicator (of gaps: contrast): how far templates lie apart, and if by more than chance",
        tables.EFFECT_COLUMNS,
        tables.template_tables,
        texts=("source", "question", "indicator", "lowest", "highest", "unit", "reason", "version"),
    ),
    Table(
        VALUES,
        "templates",
        "a source, measure, indicator (of gaps: contrast) and template: the mean over texts with its interval",
        tables.VALUE_COLUMNS,
        tables.template_tables,
        texts=("source", "question", "indicator", "template", "reason", "version"),
    ),
)


def measure_templates(run: Run) -> None:
    """Write the tables, where texts of a run stand in several templates and something was measured of them."""
    found = design(run.config)
    if found is None:
        return
    measured = list(families(run, found))
    if measured:
        values, effects = tables.template_tables(measured, found, run.config.measure)
        write(run, VALUES, values)
        write(run, EFFECTS, effects)


MEASURED = MeasuredMethod(
    tables=TEMPLATES,
    needs={
        "templates": "a run whose texts stand in several templates (`prompts: {template: [...], texts: [...]}`)"
    },
    measure=lambda run, sharing, checked: measure_templates(run),
)
