"""The report's section on professions (DALL-Eval): what of the tables it shows, and in which words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

from analysis.methods.dalleval.figures import draw_attribute_tones, draw_gender, draw_tones
from analysis.methods.dalleval.latex import documents
from analysis.methods.dalleval.lead_examples import captions, lead_examples
from analysis.methods.dalleval.names import first_source, named, of_first, profession
from analysis.methods.dalleval.page_tests import (
    even_refuted,
    page_p_text,
    said_attributes,
    said_between,
    said_mads,
    said_words,
)
from analysis.methods.dalleval.results import results
from analysis.methods.dalleval.scores import COUNTS, GENDER, TONE, kind_of
from analysis.methods.dalleval.tables import ALL
from analysis.report.figures.style import Drawn
from analysis.report.format import counted, number
from analysis.report.method import Example, Lead, ReportedMethod, ReportSection
from analysis.study import comparison
from analysis.tables.registry import read
from probes.config.schema import Config

if TYPE_CHECKING:
    from probes.runs.run import Run

NAMES = ("dalleval_professions", "dalleval_distribution", "dalleval_mad", "dalleval_words")
# where there are attributes, and several readers
MORE = ("dalleval_absolute", "dalleval_attribute_tones", "dalleval_agreement", "dalleval_between")
LOST = {
    "undecided": "undecided",
    "no_face": "without a face",
    "no_skin": "without skin",
    "grey": "grey",
    "missing": "not read",
    "faulty": "at fault",
}


@dataclass(frozen=True)
class Professions:
    """The tables of an audit of professions, by name, and images of three of them."""

    tables: Mapping[str, pd.DataFrame]
    lead_examples: Sequence[Example] = ()

    def table(self, name: str) -> pd.DataFrame:
        """Return a table; one without rows where the run has none."""
        return self.tables.get(name, pd.DataFrame())


def read_professions(run: Run) -> Professions | None:
    """Read the tables of the section; None for a run that is no such audit."""
    there = set(run.tables())
    if "dalleval_professions" not in there:
        return None
    tables = {name: read(run, name) for name in (*NAMES, *MORE) if name in there}
    return Professions(tables, lead_examples(run, tables["dalleval_professions"]))


def draw(professions: Professions, config: Config) -> dict[str, Drawn]:
    """Draw the figures of the first readers, by name."""
    chosen, mad = comparison(config), professions.table("dalleval_mad")
    words = [chosen.reference, *(name for name in chosen.main if name != chosen.reference)]
    said = said_mads(mad, chosen.reference) if len(mad) else mad
    drawn = [
        draw_gender(
            professions.table("dalleval_professions"),
            words,
            floor=said.loc[said["question"] == GENDER, "floor"].sum() if len(said) else 0.0,
            told=even_refuted(mad, chosen.reference, config.measure.alpha),
            alpha=config.measure.alpha,
        )
    ]
    if len(distribution := professions.table("dalleval_distribution")):
        drawn.append(draw_tones(distribution))
    if len(tones := professions.table("dalleval_attribute_tones")):
        drawn.append(draw_attribute_tones(tones))
    return {figure.name: figure for figure in drawn if figure is not None}


def draw_professions(run: Run) -> dict[str, Drawn]:
    """Draw the figures of an audit of professions, by name; none of another run.

    Parameters
    ----------
    run : probes.runs.run.Run
        A measured run.
    """
    professions = read_professions(run)
    return draw(professions, run.config) if professions else {}


def section(professions: Professions, config: Config) -> dict[str, Any]:
    """Return the values that the section's template shows, rows of tables mostly."""
    table, mad = professions.table("dalleval_professions"), professions.table("dalleval_mad")
    reference = config.reference
    tones_together = (mad["question"] == TONE) & (mad["indicator"] == ALL)
    shown = mad[mad["indicator"].isin([reference, ALL])]
    if tones_together.any():
        shown = shown[(shown["question"] != TONE) | (shown["indicator"] == ALL)]
    by_kind = table[(table["indicator"] != ALL) & (table["profession"] != ALL)]
    counts = by_kind.groupby(["source", by_kind["question"].map(kind_of)], sort=False)[list(COUNTS)].sum()
    absolute = professions.table("dalleval_absolute")
    if len(absolute):
        absolute = absolute[(absolute["profession"] == ALL) & (absolute["kind"] != "control")]
    rules = table.loc[table["question"] == TONE, "source"]
    readers = table.loc[table["question"] != TONE, "source"]
    attributes = said_attributes(professions.table("dalleval_between"))
    return {
        "readers": [named(name) for name in dict.fromkeys(readers)],
        "rules": [named(name) for name in dict.fromkeys(rules)],
        "published_rule": "dalleval2023" in set(rules),
        "toyworld": config.model.startswith("toyworld"),
        "said": _said(professions, reference),
        "tones": _tones_shown(professions.table("dalleval_distribution"), first_source(mad, TONE)),
        "attributes": attributes.to_dict("records"),
        "alpha": config.measure.alpha,
        "mads": shown.to_dict("records"),
        "counts": counts.reset_index().to_dict("records"),
        "words": said_words(professions.table("dalleval_words")).to_dict("records"),
        "absolute": absolute.to_dict("records"),
        "agreement": professions.table("dalleval_agreement").to_dict("records"),
        "each": _each(table, reference),
        "named": named,
    }


def _said(professions: Professions, reference: str) -> list[dict[str, Any]]:
    """Rows of gender and of tone of which sentences speak: the average, its MAD, and the test between professions."""
    table, between = professions.table("dalleval_professions"), professions.table("dalleval_between")
    keys, rows = ["source", "question", "indicator"], []
    over = table[table["profession"] == ALL]
    for row in said_mads(professions.table("dalleval_mad"), reference).to_dict("records"):
        average = over[(over[keys] == [row[key] for key in keys]).all(axis=1)].to_dict("records")
        tests = said_between(between, row).to_dict("records")
        rows.append({"mad": row, "average": average[0], "between": next(iter(tests), None)})
    return rows


def lead(professions: Professions, config: Config) -> Lead:
    """Return the first screen: how far professions deviate from half and half, by the first reader of gender."""
    mad = professions.table("dalleval_mad")
    question = f"How far do {config.reference} prompts of professions deviate from half and half?"
    rows = of_first(mad, GENDER)
    rows = rows[rows["indicator"] == config.reference]
    figures = ("dalleval-gender",)
    if rows.empty or rows.iloc[0]["reason"] or not rows.iloc[0]["professions"]:
        return Lead(question, "Nothing can be said of it; the reason stands below.", figures)
    row = rows.iloc[0].to_dict()
    more = "more" if row["p_page"] < config.measure.alpha else "not more"
    answer = (
        f"By a share of {number(row['mad'])} on average, {more} than the {number(row['floor'])} that chance alone "
        f"gives ({page_p_text(row).partition(' over ')[0]}), as {named(row['source'])} reads "
        f"{counted(row['professions'], 'profession')}."
    )
    examples = professions.lead_examples
    return Lead(question, answer, figures, examples, *captions(config.reference, row["source"]))


def _tones_shown(distribution: pd.DataFrame, source: str) -> int:
    """How many of the ten tones a rule reads in any image."""
    if distribution.empty:
        return 0
    own = distribution[(distribution["source"] == source) & (distribution["question"] == TONE)]
    return int(own.loc[own["images"] > 0, "category"].nunique())


def _each(table: pd.DataFrame, reference: str) -> list[dict[str, Any]]:
    """One row per profession: its gender and tone by the first reader of each."""
    gender, tone = of_first(table, GENDER), of_first(table, TONE)
    gender = gender[gender["indicator"] == reference].set_index("profession")
    tone = tone[tone["indicator"] == (ALL if ALL in set(tone["indicator"]) else reference)].set_index(
        "profession"
    )
    rows = []
    for name in dict.fromkeys(table.loc[table["profession"] != ALL, "profession"]):
        said = {
            question: of.loc[name].to_dict() if name in of.index else None
            for question, of in (("gender", gender), ("tone", tone))
        }
        lost = [
            f"{row[column]} {text} ({question})"
            for question, row in said.items()
            if row is not None
            for column, text in LOST.items()
            if row[column]
        ]
        rows.append({"name": profession(name), **said, "lost": ", ".join(lost)})
    return rows


REPORTED = ReportedMethod(
    section=ReportSection(
        "analysis.methods.dalleval/section.html.j2",
        read=read_professions,
        draw=draw,
        context=section,
        anchor="professions",
        title="Professions",
        lead=lead,
    ),
    documents=documents,
    results=results,
)
