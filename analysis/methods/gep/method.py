"""The audit of attributes (Zhang et al. 2023) as a method: its tables, their sentences, figures and printed tables.

Tables of the paper have a run's model in the place of the paper's three; of several runs side by side each has a row or
column (`analysis.methods.gep.command`).
"""

from __future__ import annotations

from typing import Any

import pandas as pd

from analysis.methods.gep import artificial, clip, powered, readings, tables
from analysis.methods.gep.inference import over_units
from analysis.methods.gep.lead_examples import lead_examples
from analysis.methods.gep.sources import ORDER, SOURCES, first_source
from analysis.methods.gep.stage import audit_readings
from analysis.methods.gep.tables import LABELS
from analysis.report.section import Lead, sentences
from analysis.tables.spec import Measured, MethodSpec, Pivot, TableSpec

_CONTRAST = "first == @first and second == @second"
_READ = f"{_CONTRAST} and source == @source"


def words(shown: Measured) -> dict[str, Any]:
    """What the templates know: who read the images, the first contrast, and what differs by chance."""
    score = shown.rows("gep_score")
    read = score if len(score) else shown.rows("gep_frequencies")
    source = first_source(*(own for _, own in read.groupby("model")))
    contrasts = score.loc[score["kind"] == "contrast", ["first", "second"]].to_dict("records")
    pair = contrasts[0] if contrasts else {"first": "", "second": ""}
    return pair | {
        "source": source,
        "labels": SOURCES.get(source, source),
        "pair": "images generated from {first} and {second} prompts".format(**pair),
        "over_units": over_units(score["unit"]),
        "sources": [text for name, text in SOURCES.items() if name in set(read["source"])],
        "ORDER": ORDER,
        "LABELS": LABELS,
    }


def _ranked(shown: Measured) -> pd.DataFrame:
    """Table 6: scores by each estimate with their ranks, and how these follow the ranks by labels."""
    rows = shown.rows("gep_score", _CONTRAST)
    if rows.empty:
        return rows
    rank = rows.groupby("source")["score"].rank(method="min")
    wide = rows.pivot(index=["setting", "model"], columns="source", values="score")
    tau = wide.corr(method="kendall")[shown.words["source"]].rename("tau")
    return rows.assign(rank=rank).join(tau, on="source")


def _with_mean(rows: pd.DataFrame, value: str) -> pd.DataFrame:
    """The rows of a table, and their mean over attributes as a further one."""
    keys = [name for name in ("model", "setting", "source", "labels", "indicator") if name in rows]
    means = rows.groupby(keys, sort=False)[value].mean().reset_index()
    return pd.concat([rows, means.assign(attribute="Avg")], ignore_index=True)


_SCORE = """
{% for row in rows if row.source == source and row.kind == "contrast" %}
{% set pair = " between " ~ row.first ~ " and " ~ row.second ~ " prompts" %}
In the {{ row.setting }} setting
{%- if defined(row.p_value) %}
 attributes differ by {{ number(row.score) }} on average{{ pair }},
 {{ "more" if row.p_adjusted < alpha else "not more" }} than the {{ number(row.floor) }} that chance alone gives
 ({{ p_value(row.p_adjusted) }}, adjusted
{%- if row.p_smallest > alpha %}; smallest possible {{ number(row.p_smallest) }}{% endif %}).


Less what errors add it is {{ number(row.debiased) }} {{ interval(row.low, row.high) }}
{%- if row.reason %}, {{ row.reason }}{% endif %}.
{%- elif row.reason.startswith("no difference") %} no attribute differs{{ pair }}.
{%- else %} nothing can be said of differences{{ pair }}: {{ row.reason }}.
{%- endif %}


{% endfor %}
"""
_FIGURES = "analysis.methods.gep.figures"

GEP = (
    TableSpec(
        "gep_score",
        "a setting, source and pair: the GEP score",
        (
            *("setting", "source", "first", "second", "kind", "score", "floor", "p_value", "p_adjusted"),
            *("p_smallest", "debiased", "low", "high", "n_attributes", "unit", "n_contexts"),
            *("level", "reason"),
        ),
        lambda audit: audit.inferred[1],
        sentences=_SCORE,
        figure=f"{_FIGURES}:draw_scores",
        pivots=(
            Pivot(
                "{{ model }}, {{ setting }}, {{ first }} − {{ second }}, by {{ source }}",
                {
                    "score": "{{ number(score, 4) }}",
                    "floor": "{{ number(floor, 4) }}",
                    "p": "{{ p(p_value) }}",
                    "p, adjusted": "{{ p(p_adjusted) }}",
                    "without error": "{{ number(debiased, 4) }} {{ interval(low, high, 4) }}",
                },
                "The mean absolute difference over attributes; between two words of the same meaning it is what the"
                " choice of a word makes. Floor: what chance gives, {{ over_units }}; adjusted: over settings and"
                " contrasts (Holm); last: less what its own error adds, with its interval.",
                title="Scores in numbers",
                latex="gep_table03_scores",
                where="source in @ORDER",
            ),
            Pivot(
                "{{ source }}{% if defined(tau) %} (tau {{ number(tau, 3) }}){% endif %}",
                {"{{ setting }}, {{ model }}": "{{ number(score, 5) }} (\\#{{ number(rank, 0) }})"},
                "GEP scores between {{ pair }} by each estimate and by {{ labels }}, ranked by size, and Kendall's tau"
                " between these ranks.",
                latex="gep_table06_estimates",
                frame=_ranked,
                note="Every estimate has its own scale: compare ranks, not sizes.",
            ),
        ),
    ),
    TableSpec(
        "gep_vector",
        "a setting, source, pair and attribute: the difference of frequencies",
        (
            *("setting", "source", "first", "second", "kind", "attribute", "difference", "low", "high"),
            *("p_value", "p_adjusted", "unit", "n_units", "n_contexts", "level", "reason"),
        ),
        lambda audit: audit.inferred[0],
        figure=f"{_FIGURES}:draw_vectors",
        pivots=(
            Pivot(
                "{{ model }}",
                {"{{ attribute }}": "{{ number(difference, 2) }}"},
                "GEP vectors in the {{ rows[0].setting }} setting: differences of frequencies between {{ pair }}, by"
                " {{ labels }}.",
                latex="gep_table{{ 13 if setting == 'neutral' else 14 }}_vectors",
                where=_READ,
            ),
        ),
    ),
    TableSpec(
        "gep_frequencies",
        "a setting, source, indicator and attribute: its frequency",
        ("setting", "source", "indicator", "attribute", "frequency", "n_images", "n_contexts"),
        lambda audit: tables.frequency_table(audit.everything),
        pivots=(
            Pivot(
                "{{ setting }}, {{ model }}: {{ indicator }}",
                {"{{ attribute }}": "{{ number(frequency, 2) }}"},
                "Share of the images that have each attribute, by {{ labels }}; of an estimate by CLIP, its mean.",
                title="Frequencies of attributes",
                latex="gep_table{{ 11 if setting == 'neutral' else 12 }}_frequencies",
                frame=lambda shown: _with_mean(shown.rows("gep_frequencies"), "frequency"),
                where="source == @source",
            ),
        ),
    ),
    TableSpec(
        "gep_clip_score",
        "a setting and indicator: how well images fit their prompts by CLIP",
        ("setting", "indicator", "clip_score", "low", "high", "n_images", "n_contexts", "level", "reason"),
        lambda audit: clip.clip_score(audit.run),
        pivots=(
            Pivot(
                "{{ model }}: {{ indicator }}",
                {"{{ setting }}": "{{ number(clip_score, 1) }} {{ interval(low, high, 1) }}"},
                "How well images fit their prompts by CLIP (CLIPScore), with intervals over contexts.",
                title="Images and prompts",
                latex="gep_table03_clip_scores",
            ),
        ),
    ),
    TableSpec(
        "gep_contexts",
        "a setting, source, pair and context: its score",
        ("setting", "source", "first", "second", "kind", "context", "score", "n_attributes"),
        lambda audit: tables.context_table(audit.everything, audit.pairs),
        pivots=(
            Pivot(
                "{{ context }}",
                {"{{ setting }}, {{ model }}": "{{ number(score, 2) }}"},
                "GEP scores of each context, between {{ pair }}, by {{ labels }}.",
                latex="gep_table15_contexts",
                where=_READ,
                note="The floor of a single context is far above that of all contexts together.",
            ),
        ),
    ),
    TableSpec(
        "gep_powered",
        "a setting, pair and attribute (or, without one, the score): a few labels and an estimate together",
        (
            *("setting", "labels", "prediction", "first", "second", "kind", "attribute", "value", "raw"),
            *("low", "high", "labelled_first", "labelled_second", "images_first", "images_second"),
            *("level", "reason"),
        ),
        lambda audit: powered.powered_table(audit.readings, audit.pairs, audit.config),
    ),
    TableSpec(
        "gep_agreement",
        "a setting, estimate, labels and measure of agreement of their vectors",
        (
            *("setting", "source", "labels", "first", "second", "measure", "value", "low", "high", "ceiling"),
            *("n", "n_contexts", "level", "reason"),
        ),
        lambda audit: tables.agreement_table(audit.everything, audit.pairs, audit.config.measure),
        figure=f"{_FIGURES}:draw_estimates",
        pivots=(
            Pivot(
                "{{ setting }}, {{ model }}: {{ source }} by {{ labels }}",
                {
                    "{{ measure }}": "{{ number(value, 3) }} {{ interval(low, high) }}"
                    "{% if defined(ceiling) %} (at most {{ number(ceiling, 2) }}){% endif %}",
                    "attributes": "{{ n }}",
                },
                "How the vector of each estimate follows that of labels, with intervals over contexts: Kendall's tau-b,"
                " Matthews' correlation of signs (a difference of 0 counts as positive) and Pearson's correlation. At"
                " most: the tau that a perfect reading would reach on average against labels of so few images.",
                title="Can the estimates be believed?",
                latex="gep_table04_correlation",
                where=_CONTRAST,
            ),
        ),
    ),
    TableSpec(
        "gep_artificial_agreement",
        "an estimate, labels and measure of agreement over artificial sets",
        (
            *("source", "labels", "first", "second", "measure", "value", "low", "high"),
            *("n_examples", "n_attributes", "level", "reason"),
        ),
        lambda audit: artificial.artificial_table(audit.audits, audit.pairs, audit.config),
        pivots=(
            Pivot(
                "{{ model }}: {{ source }} by {{ labels }}",
                {
                    "{{ measure }}": "{{ number(value, 3) }} {{ interval(low, high) }}",
                    "examples": "{{ n_examples }}",
                },
                "How each estimate, and each variant of it, follows the known differences of artificial sets: groups of"
                " 80 images that differ by up to 0.9, 0.45, 0.225 and 0.1125 (the paper’s Tables 5, 8, 9 and 17), with"
                " intervals over attributes.",
                title="Artificial sets",
                latex="gep_table05_artificial",
                where=_CONTRAST,
            ),
        ),
    ),
    TableSpec(
        "gep_auc",
        "an estimate, labels and attribute",
        ("source", "labels", "attribute", "auc", "n_with", "n_without"),
        lambda audit: tables.auc_table(audit.audits),
        pivots=(
            Pivot(
                "{{ model }}: {{ source }}",
                {"{{ attribute }}": "{{ number(auc, 2) }}"},
                "Area under the ROC curve of each estimate against {{ labels }}, by attribute.",
                title="Telling images with and without an attribute",
                latex="gep_table16_auc",
                frame=lambda shown: _with_mean(shown.rows("gep_auc"), "auc"),
                where="labels == @source",
            ),
        ),
    ),
    TableSpec(
        "gep_predictions",
        "a setting, image, attribute and source: what it says of the image",
        ("setting", "context", "indicator", "sample_id", "attribute", "source", "value"),
        lambda audit: readings.prediction_table(audit.run, audit.said),
        csv=False,
    ),
    TableSpec(
        "gep_labels",
        "an image, attribute and annotator: yes (1), no (0)",
        ("sample_id", "attribute", "annotator", "value"),
        stage="",
    ),
)


def lead(shown: Measured) -> Lead | None:
    """Return the first screen: what the score of the first setting says; None where no two words are compared."""
    said = shown.rows("gep_score", "source == @source and kind == 'contrast'").to_dict("records")
    if not said:
        return None
    return Lead(
        "Do attributes differ between {first} and {second} prompts?".format(**shown.words),
        sentences(shown, GEP[0])[0],
        ("gep-score", "gep-vector"),
        *lead_examples(shown, said[0]),
    )


METHOD = MethodSpec(
    tables=GEP,
    needs="a run whose prompts have contexts (`prompts: {from: gep}`)",
    inputs=audit_readings,
    title="Attributes (GEP)",
    anchor="attributes",
    intro="How often each attribute is in the images generated from the prompts of each word (Zhang et al. 2023)."
    "{% if not config.compares %} Of one word: no two words are compared.{% endif %}"
    " Read by: {{ listed(sources) }}.{% if source not in LABELS %} Nothing here says for sure what is in the images;"
    " estimates by CLIP compare in their order, not in their size.{% endif %}",
    words=words,
    lead=lead,
)
