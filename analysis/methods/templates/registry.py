"""The tables of what is due to the template, rows of `analysis.tables.registry`, and the measure stage of them."""

from __future__ import annotations

import pandas as pd

from analysis.methods.templates import tables
from analysis.methods.templates.design import designs
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
        "a factor, source, measure, indicator (of gaps: contrast): how far templates lie apart, if by more than chance",
        tables.EFFECT_COLUMNS,
        tables.template_tables,
        texts=("factor", "source", "question", "indicator", "lowest", "highest", "unit", "reason", "version"),
    ),
    Table(
        VALUES,
        "templates",
        "a factor, source, measure, indicator (of gaps: contrast), template: the mean over texts with its interval",
        tables.VALUE_COLUMNS,
        tables.template_tables,
        texts=("factor", "source", "question", "indicator", "template", "reason", "version"),
    ),
)


def measure_templates(run: Run) -> None:
    """Write the tables, where texts of a run stand in several templates and something was measured of them."""
    found = [
        tables.template_tables(measured, one, run.config.measure)
        for one in designs(run.config)
        if (measured := list(families(run, one)))
    ]
    if found:
        for name, made in zip((VALUES, EFFECTS), zip(*found)):
            write(run, name, pd.concat(made, ignore_index=True))


MEASURED = MeasuredMethod(
    tables=TEMPLATES,
    needs={
        "templates": "a run whose texts stand in several templates or under several system prompts"
        " (`prompts: {template: [...], texts: [...]}`)"
    },
    measure=lambda run, sharing, checked: measure_templates(run),
)
