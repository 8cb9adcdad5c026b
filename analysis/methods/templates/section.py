"""The report's section on templates and system prompts: what is due to them, in sentences and numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pandas as pd

from analysis.methods.dalleval.names import named
from analysis.methods.dalleval.scores import GENDER, TONE
from analysis.methods.templates.design import FACTORS
from analysis.methods.templates.measures import GAP, OBJECTS
from analysis.methods.templates.registry import EFFECTS, VALUES
from analysis.metrics.registry import headline_metrics
from analysis.report.format import counted, interval, listed, number, p_value
from analysis.report.method import ReportedMethod, ReportSection
from analysis.report.verdict import defined
from analysis.tables.registry import read

if TYPE_CHECKING:
    from probes.config.schema import Config
    from probes.runs.store import Run

ALPHA = 0.05
LONGEST = 60  # characters of a template in a sentence
Row = Mapping[str, Any]


def read_templates(run: Run) -> dict[str, pd.DataFrame] | None:
    """Return the tables by name; None where no text stands in several templates or system prompts."""
    if EFFECTS not in run.tables():
        return None
    return {name: read(run, name) for name in (EFFECTS, VALUES)}


def section(tables: Mapping[str, pd.DataFrame], config: Config) -> dict[str, Any]:
    """Lay the section out: ``factors``, of each its sentences, rows of ``effects``, and each template's numbers."""
    return {
        "factors": [
            _of_factor(
                {name: table[table["factor"] == factor] for name, table in tables.items()}, noun, config
            )
            for factor, noun in FACTORS.items()
            if (tables[EFFECTS]["factor"] == factor).any()
        ],
        "crossed": len(config.prompts[: config.limit]),
    }


def _of_factor(tables: Mapping[str, pd.DataFrame], noun: str, config: Config) -> dict[str, Any]:
    """Lay out what is due to templates, or to system prompts."""
    effects = tables[EFFECTS].to_dict("records")
    leads = leading(effects, config)
    keys = [(row["source"], row["question"], row["indicator"]) for row in leads]
    values = tables[VALUES]
    each = [
        {
            "name": name_of(row, config),
            "rows": values[
                (values["source"] == source) & (values["question"] == question) & (values["indicator"] == own)
            ].to_dict("records"),
        }
        for row, (source, question, own) in zip(leads, keys)
    ]
    return {
        "noun": noun,
        "sentences": [*(sentence(row, config, noun) for row in leads), *of_families(effects, keys, noun)],
        "effects": [{**row, "name": name_of(row, config)} for row in effects],
        "each": each,
        "unit": effects[0]["unit"],
    }


def leading(effects: list[dict], config: Config) -> list[dict]:
    """Return the rows that sentences speak of: gender by the first reader, and the gap by the primary measure."""
    genders = [row for row in effects if row["question"] == GENDER and row["source"] not in (OBJECTS, GAP)]
    first = [row for row in genders if row["source"] == genders[0]["source"]]
    gaps = [row for row in effects if row["source"] == GAP and row["question"] == config.measure.primary]
    return [row for row in (*first, *gaps) if defined(row["range"])]


def sentence(row: Row, config: Config, noun: str) -> str:
    """Return what is due to the template in one measure, in sentences."""
    digits = 3
    lows, highs = (number(row[f"{end}_mean"], digits, True) for end in ("lowest", "highest"))
    if row["source"] != GAP and row["question"] != GENDER:
        lows, highs = lows.lstrip("+"), highs.lstrip("+")
    text = (
        f"{name_of(row, config)}: from {lows} ({_quoted(row['lowest'])}) to {highs} ({_quoted(row['highest'])}) over"
        f" {counted(int(row['templates']), noun)}, a range of {number(row['range'], digits)}"
    )
    text += (
        f" {interval(row['low'], row['high'], digits)}." if defined(row["low"]) else f" ({row['reason']})."
    )
    if defined(row["explained"]):
        text += (
            f" Of the variance between prompts {number(100 * row['explained'], 0)} % lies between {noun}s, by chance"
            f" alone {number(100 * row['floor'], 0)} % ({p_value(row['p_adjusted'])}, adjusted)."
        )
    if defined(row["same_side"]):
        same, every = int(row["same_side"]), int(row["templates"])
        which = f"All {noun}s lean" if same == every else f"{same} of {counted(every, noun)} lean"
        verb = which if same != 1 or same == every else which.replace("lean", "leans")
        text += f" {verb} to the side of the mean of all; in {int(row['apart'])} the interval leaves out 0."
    return text


def of_families(effects: list[dict], said: list[tuple[str, str, str]], noun: str) -> list[str]:
    """Return a sentence on the other measures of each source: how many differ between templates."""
    found = []
    for source in dict.fromkeys(row["source"] for row in effects):
        rows = [
            row
            for row in effects
            if row["source"] == source
            and (row["source"], row["question"], row["indicator"]) not in said
            and defined(row["p_adjusted"])
        ]
        if not rows:
            continue
        names = list(dict.fromkeys(row["question"] for row in rows if row["p_adjusted"] < ALPHA))
        kind = {OBJECTS: "other object", GAP: "other gap"}.get(source, "other measure")
        by = counted(len(rows), kind) + ("" if source in (OBJECTS, GAP) else f" by {named(source)}")
        which = f"differ between {noun}s: {listed(names[:8])}" if names else "none can be told to differ"
        count = sum(row["p_adjusted"] < ALPHA for row in rows)
        some = f"{count} {which}" if names else which
        found.append(f"Of {by}, {some} (adjusted over the measures of the source).")
    return found


def name_of(row: Row, config: Config) -> str:
    """Return a measure in words."""
    word = f" in {row['indicator']} prompts’ images" if config.compares else ""
    if row["source"] == GAP:
        symbols = {metric.key: metric.symbol for metric in headline_metrics(config.measure.text_readout)}
        return f"Gap of {row['indicator'].replace('-', ' and ')} in {symbols.get(row['question'], row['question'])}"
    if row["source"] == OBJECTS:
        return f"Share of images with {row['question']}{word}"
    if row["question"] == GENDER:
        return f"Average gender (male −1, female +1){word} by {named(row['source'])}"
    if row["question"] == TONE:
        return f"Average tone{word} by {named(row['source'])}"
    return f"{row['question']}{word} by {named(row['source'])}"


def _quoted(template: str) -> str:
    text = template if len(template) <= LONGEST else template[: LONGEST - 1] + "…"
    return f"“{text}”"


REPORTED = ReportedMethod(
    section=ReportSection(
        "analysis.methods.templates/section.html.j2",
        read=read_templates,
        draw=lambda tables, config: {},
        context=section,
        anchor="templates",
        title="Wording",
    ),
)
