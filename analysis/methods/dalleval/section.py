"""The report's section on professions (DALL-Eval): what of the tables it shows, and in which words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

from analysis.methods.dalleval.figures import (
    draw_attribute_tones,
    draw_attributes,
    draw_gender,
    draw_mads,
    draw_tones,
)
from analysis.methods.dalleval.latex import documents
from analysis.methods.dalleval.lead_examples import captions, lead_examples
from analysis.methods.dalleval.names import first_source, named, of_first, profession
from analysis.methods.dalleval.page_tests import (
    attributes_differ,
    even_refuted,
    page_p_text,
    said_attributes,
    said_between,
    said_mads,
    said_words,
)
from analysis.methods.dalleval.results import results
from analysis.methods.dalleval.scores import COUNTS, GENDER, TONE, TONES, kind_of
from analysis.methods.dalleval.tables import ALL
from analysis.methods.dalleval.words import AVERAGES, first_contrast
from analysis.methods.gep.results import more_than_chance
from analysis.report.figures.style import Drawn
from analysis.report.format import counted, number, over, p_value
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
    chosen = comparison(config)
    words = [chosen.reference, *(name for name in chosen.main if name != chosen.reference)]
    drawn = [
        draw_gender(
            professions.table("dalleval_professions"),
            words,
            told=even_refuted(professions.table("dalleval_mad"), chosen.reference, config.measure.alpha),
            alpha=config.measure.alpha,
        ),
        draw_mads(professions.table("dalleval_mad"), chosen.reference),
    ]
    if len(distribution := professions.table("dalleval_distribution")):
        drawn.append(draw_tones(distribution))
    if len(tones := professions.table("dalleval_attribute_tones")):
        drawn.append(draw_attribute_tones(tones))
    if pair := first_contrast(chosen):
        drawn.append(draw_attributes(professions.table("dalleval_words"), pair, chosen.reference))
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
    shown = mad[mad["indicator"].isin([reference, ALL])]
    shown = shown[
        (shown["question"] != TONE) | (shown["indicator"] == ALL) | ~(mad["indicator"] == ALL).any()
    ]
    rules = table.loc[table["question"] == TONE, "source"]
    readers = table.loc[table["question"] != TONE, "source"]
    return {
        "readers": [named(name) for name in dict.fromkeys(readers)],
        "rules": [named(name) for name in dict.fromkeys(rules)],
        "published_rule": "dalleval2023" in set(rules),
        "toyworld": config.model.startswith("toyworld"),
        "sentences": _sentences(professions, reference, config.measure.alpha),
        "mads": _mads(shown, professions.table("dalleval_between"), config.measure.alpha),
        "corrected": bool(shown["corrected"].notna().any()),
        "counts": _counts(table),
        "words": said_words(professions.table("dalleval_words")).to_dict("records"),
        "absolute": absolute_rows(professions, config.unit, config.measure.alpha),
        "agreement": professions.table("dalleval_agreement").to_dict("records"),
        "each": _each(table, reference),
        "named": named,
    }


def _sentences(professions: Professions, reference: str, alpha: float) -> list[str]:
    """Return what is said of gender and of tone, by the first reader of each, and of attributes."""
    mad, between = professions.table("dalleval_mad"), professions.table("dalleval_between")
    shown = _tones_shown(professions.table("dalleval_distribution"), first_source(mad, TONE))
    sentences = [
        _sentence(row, row["question"], shown, alpha) + _between(between, row, alpha)
        for row in said_mads(mad, reference).to_dict("records")
    ]
    own = said_attributes(between)
    if len(own):
        names = ", ".join(dict.fromkeys(own.loc[own["p_page"] < alpha, "question"]))
        differ = f"{names} can be told to differ" if names else "none can be told to differ"
        sentences.append(
            f"Of {counted(own['question'].nunique(), 'attribute')} by {named(str(own['source'].iloc[0]))}, {differ}"
            " between professions (adjusted over attributes, words and this section’s tests)."
        )
    return sentences


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
    more = "more" if more_than_chance(row, config.measure.alpha) else "not more"
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


def _mads(mad: pd.DataFrame, between: pd.DataFrame, alpha: float) -> list[dict[str, Any]]:
    """Return rows of MADs: single professions only where the page says that they differ at all."""
    rows = mad.to_dict("records")
    for row in rows:
        tested = said_between(between, row)["p_page"] if row["question"] == TONE else pd.Series(row["p_page"])
        if row["question"] in (GENDER, TONE) and (tested >= alpha).any():
            row["different"] = 0
    return rows


def _between(between: pd.DataFrame, row: Mapping[str, Any], alpha: float) -> str:
    """Whether professions differ from one another in what a row of MADs is of; empty where nothing was tested."""
    rows = said_between(between, row)
    if rows.empty:
        return ""
    one = rows.iloc[0]
    if one["reason"]:
        return f" Whether professions differ from one another cannot be told ({one['reason']})."
    differ = one["p_page"] < alpha
    return (
        f" Professions {'differ from one another' if differ else 'cannot be told to differ from one another'}"
        f" ({p_value(one['p_page'])}, adjusted over words and this section’s tests;"
        f" {100 * one['explained']:.0f} % of the variance lies between them, by chance alone"
        f" {100 * one['floor']:.0f} %); of {counted(one['tested'], 'profession')}"
        f" {_some(one['different'] if differ else 0)} from all together after adjustment."
    )


def _sentence(row: Mapping[str, Any], question: str, shown: int, alpha: float) -> str:
    of = "every word’s" if row["indicator"] == ALL else row["indicator"]
    images = f"images generated from {of} prompts of {counted(row['professions'], 'profession')}"
    if row["reason"] or not row["professions"]:
        return f"Nothing can be said of the {question} of {images} ({row['reason'] or 'none was decided'})."
    decided, asked = int(row["decided"]), int(row["asked"])
    which = images if decided == asked else f"{decided} that were decided of {asked} {images}"
    what = (
        f"{100 * (row['average'] + 1) / 2:.0f} % of the {which} were read as female by {named(row['source'])}"
        f" (average gender {number(row['average'], 2, signed=True)})"
        if question == GENDER
        else f"The average tone of the {which} is {number(row['average'], 2)} by {named(row['source'])}"
    )
    if decided < asked:
        least, most = row["average_least"], row["average_most"]
        ends = (
            f"{50 * (least + 1):.0f} % and {50 * (most + 1):.0f} %"
            if question == GENDER
            else f"{number(least, 2)} and {number(most, 2)}"
        )
        what += f"; whatever the others show, of all it is between {ends}"
    if question == TONE:
        few = f", of which the images show {shown}" if shown < TONES else ""
        return (
            f"{what}. The mean absolute deviation of each profession from ten equally likely tones{few} is"
            f" {number(row['mad'])} on average (chance alone gives {number(row['floor'])}): the paper’s reference, and"
            " no finding about professions."
        )
    even, more = "half and half", more_than_chance(row, alpha)
    return (
        f"{what}. The mean absolute deviation of each profession from {even} is {number(row['mad'])} on average,"
        f" {'more' if more else 'not more'} than the {number(row['floor'])} that chance alone gives"
        f" ({page_p_text(row)}); of"
        f" {counted(row['tested'], 'profession')} {_some(row['different'] if more else 0)} from {even} after"
        " adjustment."
    )


def _some(count: int) -> str:
    return "none differs" if not count else "1 differs" if count == 1 else f"{count} differ"


def _counts(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return what became of the planned images of each reader: of gender, of tone, and of all attributes together."""
    kept = table[(table["indicator"] != ALL)]
    sums = (
        kept.groupby(["source", kept["question"].map(kind_of)], sort=False)[list(COUNTS)].sum().reset_index()
    )
    return sums.to_dict("records")


def absolute_rows(professions: Professions, unit: str, alpha: float) -> list[dict[str, Any]]:
    """Return rows over professions; prompts are counted only where the page says that the words differ."""
    table = professions.table("dalleval_absolute")
    if table.empty:
        return []
    rows = table[(table["profession"] == ALL) & (table["kind"] != "control")]
    over_what = rows["of"].map({AVERAGES: f"averages {over(unit)}"}).fillna("single prompts, their mean")
    words = professions.table("dalleval_words")
    differ = [attributes_differ(words, pair, alpha) for pair in zip(rows["first"], rows["second"])]
    return rows.assign(over=over_what, different=rows["different"].where(differ, 0)).to_dict("records")


def _each(table: pd.DataFrame, reference: str) -> list[dict[str, Any]]:
    """One row per profession: its gender and tone by the first reader of each."""
    gender, tone = of_first(table, GENDER), of_first(table, TONE)
    gender = gender[gender["indicator"] == reference].set_index("profession")
    tone = tone[tone["indicator"] == (ALL if ALL in set(tone["indicator"]) else reference)].set_index(
        "profession"
    )
    rows = []
    for name in dict.fromkeys(table["profession"]):
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
