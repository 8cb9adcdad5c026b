"""The audit of attributes (Zhang et al. 2023) as a method: its tables, their sentences, figures and printed tables.

Tables of the paper have a run's model in the place of the paper's three; of several runs side by side each has a row or
column (`analysis.methods.gep.command`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from analysis.methods.gep import artificial, clip, powered, predictions, tables
from analysis.methods.gep.artificial import TYPES
from analysis.methods.gep.evaluation import GROUP_IMAGES, SCALES
from analysis.methods.gep.inference import CONTEXTS, CROSSED, IMAGES, over_units
from analysis.methods.gep.lead_examples import captions, lead_examples
from analysis.methods.gep.page_tests import more_than_chance
from analysis.methods.gep.sources import ORDER, POWERED, SOURCES
from analysis.methods.gep.stage import audit_readings
from analysis.methods.gep.tables import LABELS
from analysis.report.format import LATEX_DASH, number, p_value
from analysis.report.section import Lead
from analysis.tables.spec import Measured, MethodSpec, Pivot, TableSpec

SETTINGS = ("neutral", "explicit")
BASE = ("detected", "C", "CC", "CLS")  # estimates without their variants
NAMED = {"checker": "the checker", "human": "people", "detected": "the detector"}
SWAPPED = {CONTEXTS: "a context", IMAGES: "a noise", CROSSED: "a context and seed"}  # by the unit of a score
# of Tables 22 to 24: setting, attribute, and which one is shown where an audit lacks it; and their context
EXAMPLES = {22: ("neutral", "suit", 0), 23: ("neutral", "dress", 1), 24: ("explicit", "tie", 0)}
CONTEXT, SHOWN = "holding an umbrella", 4  # images of each word

_TAU_MCC = "Kendall's tau-b / Matthews' correlation of signs, in which a difference of 0 counts as positive."
_CONTRAST = "first == @first and second == @second"
_READ = f"{_CONTRAST} and source == @source"
_BY_LABELS = f"{_CONTRAST} and labels == @source"
_BOTH = {"{{ Setting }}, {{ model }} ({{ n }})": "{{ number(tau, 3) }}/{{ number(mcc, 3) }}"}


def words(shown: Measured) -> dict[str, Any]:
    """What the templates know: who read the images, the first contrast, and names of units, contexts and examples."""
    score = shown.rows("gep_score")
    read = [set(own["source"]) for _, own in score.groupby("model")] or [
        set(shown.rows("gep_frequencies")["source"])
    ]
    source = next((name for name in ORDER if name in set.intersection(*read)), "")
    pairs = score[score["kind"] == "contrast"] if len(score) else score
    first, second = pairs.iloc[0][["first", "second"]] if len(pairs) else ("", "")
    contexts = enumerate(dict.fromkeys(shown.rows("gep_contexts")["context"]), 1)
    return {
        "source": source,
        "labels": NAMED.get(source, source),
        "first": first,
        "second": second,
        "pair": f"images generated from {first} and {second} prompts",
        "swapped": " or ".join(SWAPPED[unit] for unit in dict.fromkeys(score["unit"])),
        "over_units": over_units(score["unit"]),
        "contexts": "; ".join(f"{count}: {name}" for count, name in contexts) + ".",
        "sources": [SOURCES[name] for name in ORDER if name in set.union(*read)],
        "ORDER": ORDER,
        "LABELS": LABELS,
    }


def _setting(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows with their setting as a head writes it, those of the neutral one first."""
    order = frame["setting"].map(SETTINGS.index)
    return frame.assign(Setting=frame["setting"].str.capitalize()).iloc[order.argsort(kind="stable")]


def _in_order(frame: pd.DataFrame, sources: Sequence[str]) -> pd.DataFrame:
    """Return the rows of these sources, in their order."""
    own = frame[frame["source"].isin(list(sources))]
    return own.iloc[own["source"].map(list(sources).index).argsort(kind="stable")]


def _scores(shown: Measured) -> pd.DataFrame:
    """Table 3: scores with the CLIPScore of the images of both words."""
    score = _setting(shown.rows("gep_score", _READ))
    fit = shown.rows("gep_clip_score", "indicator in [@first, @second]")
    fit = (
        fit.assign(clip=fit["clip_score"] * fit["n_images"])
        .groupby(["model", "setting"])[["clip", "n_images"]]
        .sum()
    )
    clip_scores = (fit["clip"] / fit["n_images"]).rename("clip")
    return score.join(clip_scores, on=["model", "setting"])


def _estimated_scores(shown: Measured) -> pd.DataFrame:
    """Table 6: the score by each estimate and by labels, with ranks and their correlation where there are several."""
    source = shown.words["source"]
    sources = [name for name in (*BASE, POWERED, source) if name in set(shown.rows("gep_score")["source"])]
    rows = _setting(shown.rows("gep_score", _CONTRAST)).assign(
        head=lambda own: own["Setting"] + ", " + own["model"]
    )
    wide = rows.pivot(index="source", columns="head", values="score").reindex(dict.fromkeys(sources))
    wide = wide[[*dict.fromkeys(rows["head"])]]
    several, found = wide.shape[1] > 1, []
    for name, own in wide.iterrows():
        ranks = own.rank(method="min")
        for head, value in own.items():
            rank = f" (\\#{int(ranks[head])})" if several and value == value else ""
            found.append((name, head, _significant(value) + rank))
        if several:
            tau = stats.kendalltau(own, wide.loc[source], nan_policy="omit").statistic
            found.append((name, "Tau", "" if name == source else f"{tau:.3f}".replace("nan", LATEX_DASH)))
    return pd.DataFrame(found, columns=["name", "head", "text"])


def _significant(value: float) -> str:
    """Three significant digits, since estimates are on scales of their own."""
    if value != value:
        return LATEX_DASH
    return f"{value:.3g}" if value >= 0.001 or value == 0 else f"{value:.2e}"


def _against_reference(shown: Measured) -> pd.DataFrame:
    """Table 10: the score of each word against the reference, by labels and by CLS."""
    rows = shown.rows("gep_score", "kind == 'reference'")
    return _in_order(rows, dict.fromkeys([shown.words["source"], "CLS", POWERED]))


def _with_mean(frame: pd.DataFrame, value: str, by: Sequence[str]) -> pd.DataFrame:
    """Rows of attributes, and their mean as a further one."""
    means = frame.groupby(list(by), sort=False)[value].mean().reset_index().assign(attribute="Avg")
    return pd.concat([frame, means], ignore_index=True)


def _frequencies(shown: Measured) -> pd.DataFrame:
    """Tables 11 and 12: frequencies by indicator, with their mean."""
    rows = shown.rows("gep_frequencies", "source == @source")
    return _with_mean(rows, "frequency", ["setting", "model", "indicator"])


def _wide(frame: pd.DataFrame, count: str) -> pd.DataFrame:
    """Agreement with its measures in columns; artificial sets are a setting; variants by their names."""
    frame = frame.assign(setting=frame.get("setting", "artificial"))
    key = ["setting", "source", "labels", "first", "second", "model"]
    values = [name for name in ("value", "low", "high", "ceiling") if name in frame]
    wide = frame.pivot(index=key, columns="measure", values=values)
    wide.columns = [name if kind == "value" else f"{name}_{kind}" for kind, name in wide.columns]
    wide = wide.reindex(columns=[*dict.fromkeys([*tables.MEASURES, *TYPES, *wide])])
    wide["n"] = frame.groupby(key)[count].max()
    first_rows = pd.MultiIndex.from_frame(frame[key].drop_duplicates())
    wide = wide.reindex(first_rows).reset_index()
    return wide.assign(Setting=wide["setting"].str.capitalize(), source=wide["source"].str.replace("_", " "))


def _agreement(shown: Measured) -> pd.DataFrame:
    """Tables 4 and 19, and the page: how each estimate follows labels."""
    return _in_order(_wide(shown.rows("gep_agreement"), "n"), (*BASE, POWERED, *LABELS))


def _pearson(shown: Measured) -> pd.DataFrame:
    """Table 19: Pearson's correlation of the vectors and, beside it, of the artificial sets and their mix."""
    real = _agreement(shown)
    beside = _examples(shown)
    return pd.concat([real, beside[beside["source"].isin(real["source"])]]).dropna(subset="pearson")


def _examples(shown: Measured) -> pd.DataFrame:
    """Tables 5 and 18: the same of the artificial sets."""
    return _in_order(_variants(shown), (*BASE, *LABELS))


def _variants(shown: Measured) -> pd.DataFrame:
    return _wide(shown.rows("gep_artificial_agreement"), "n_examples")


def _all_variants(shown: Measured) -> pd.DataFrame:
    """Tables 8 and 9: every variant with what it varies; none of an audit without variants."""
    rows = _variants(shown)
    return rows if rows["source"].str.contains(" ").any() else rows.iloc[:0]


def _auc(shown: Measured) -> pd.DataFrame:
    """Tables 7 and 16: the area under the curve by attribute, and its mean."""
    rows = _in_order(shown.rows("gep_auc", "labels == @source"), BASE)
    return _with_mean(rows, "auc", ["source", "labels", "model"])


def _contexts(shown: Measured) -> pd.DataFrame:
    """Table 15: scores of each context, which the caption names by its number."""
    names = list(dict.fromkeys(shown.rows("gep_contexts")["context"]))
    return _setting(shown.rows("gep_contexts", _READ)).assign(
        count=lambda own: own["context"].map(names.index) + 1
    )


def _scales(shown: Measured) -> pd.DataFrame:
    """Table 17: the differences of each scale that examples were drawn from."""
    used, rows = set(shown.rows("gep_artificial")["scale"].astype(str)), []
    for scale, largest in SCALES.items():
        ends = [
            f"{step * largest / 9 / GROUP_IMAGES:.4f}".rstrip("0").replace("-", "$-$")
            for step in (-9, -8, 8, 9)
        ]
        rows.append((scale, f"{ends[0]}, {ends[1]}, \\ldots, {ends[2]}, {ends[3]}"))
    return pd.DataFrame([row for row in rows if row[0] in used], columns=["scale", "text"])


def _pair_types(shown: Measured) -> pd.DataFrame:
    """Table 21: tau by type of pair; of one model the two types that it has."""
    rows = shown.rows("gep_artificial_agreement", _BY_LABELS)
    rows = rows[rows["measure"].isin(TYPES) & ((rows["model"] == "mix") | (len(shown.runs) == 1))]
    return _in_order(rows.assign(types=rows["measure"].str.replace("_", ", ")), BASE)


def _predictions(shown: Measured) -> pd.DataFrame:
    """Tables 22 to 24: what CLS says of the first images of each word in one context, of one attribute.

    Those of the paper where the audit has them, else the first; ``place`` numbers the images of a word, ``label`` is
    what the labels say.
    """
    words, frames = [shown.words["first"], shown.words["second"]], [pd.DataFrame()]
    groups = shown.rows("gep_predictions").groupby(["setting", "model"], sort=False)
    for count, (setting, attribute, index) in EXAMPLES.items():
        for own in (own for (where, _), own in groups if where == setting):
            for column, wanted, other in (("attribute", attribute, index), ("context", CONTEXT, 0)):
                names = list(dict.fromkeys(own[column]))
                own = own[own[column] == (wanted if wanted in names else names[min(other, len(names) - 1)])]
            labels = own[own["source"] == shown.words["source"]].set_index("sample_id")["value"]
            own = own[(own["source"] == "CLS") & own["indicator"].isin(words)]
            own = own.assign(
                label=own["sample_id"].map(labels), place=own.groupby("indicator").cumcount() + 1
            )
            own = own[own["place"] <= SHOWN].assign(count=count)
            frames.append(own.iloc[own["indicator"].map(words.index).argsort(kind="stable")])
    return pd.concat(frames, ignore_index=True)


_SCORE = """
{% for row in rows if row.source == source and row.kind == "contrast" %}
{% set pair = "between images generated from " ~ row.first ~ " and from " ~ row.second ~ " prompts" %}
In the {{ row.setting }} setting
{%- if not defined(row.p_value) and row.reason.startswith("no difference") %}
 no attribute differs {{ pair }} ({{ row.reason }}).
{%- elif not defined(row.p_value) %}
 nothing can be said of differences {{ pair }}: {{ row.reason }}.
{%- else %}
 {{ source ~ " estimates of attributes" if source in ("CLS", "CC", "C") else "shares of images with an attribute" }}
 differ {{ pair }} by {{ number(row.score) }} on average,
 {{ "more" if row.p_adjusted < alpha and row.score > row.floor else "not more" }} than the {{ number(row.floor) }}
 that chance alone gives ({{ p_value(row.p_adjusted) }}, adjusted over settings and contrasts); without what errors add
 {{ number(row.debiased) }} {{ interval(row.low, row.high) }}.
{% if row.unit == "images" %} There is one context: its images are the sample.{% endif %}
{% if row.unit == "contexts and seeds" %} Contexts and seeds are crossed samples.{% endif %}
{% if row.p_smallest > alpha %} So few {{ "seeds" if row.unit == "contexts and seeds" else row.unit }} give no
 p-value below {{ number(row.p_smallest) }}, whatever the images show: more are needed.{% endif %}
{% if row.reason %} It is {{ row.reason }}.{% endif %}
{%- endif %}

{% endfor %}
"""
_FIT = """
How well the images fit their prompts by CLIP (CLIPScore):
{%- for row in rows %} {{ row.setting }}, {{ row.indicator }} {{ number(row.clip_score, 1) -}}
{{ "." if loop.last else ";" }}{% endfor %}
"""
_AUC = """
Mean AUC of telling images with and without an attribute:
{%- for key, own in rows | groupby("source") if " " not in key %}
 {{ key }} {{ number((own | sum(attribute="auc")) / (own | length)) }}{{ "." if loop.last else ";" }}
{%- endfor %}
"""
_RATIO = """
{% for row in rows if row.attribute == "" and defined(row.ratio) %}
{{ row.source }} differs between words {{ number(row.ratio) }} {{ interval(row.low, row.high) -}}
{{ " " }}times as much as between images with and without an attribute, by {{ row.labels }}.

{% endfor %}
"""
_SCORE_ROW = "{{ setting }}, {{ first }} − {{ second }}, by {{ source }}"
_AGREEMENT_CELLS = {
    "Kendall’s tau": "{{ number(tau) }} {{ interval(tau_low, tau_high) }}",
    "MCC of signs": "{{ number(mcc) }} {{ interval(mcc_low, mcc_high) }}",
    "Pearson": "{{ number(pearson) }} {{ interval(pearson_low, pearson_high) }}",
}
_FIGURES = "analysis.methods.gep.figures"

GEP = (
    TableSpec(
        "gep_score",
        "audit",
        "a setting, source and pair: the mean absolute difference, its floor, and its interval",
        tables.SCORE_COLUMNS,
        make=lambda audit: audit.inferred[1],
        sentences=_SCORE,
        figure=f"{_FIGURES}:draw_scores",
        pivots=(
            Pivot(
                _SCORE_ROW,
                {
                    "score": "{{ number(score, 4) }}",
                    "floor": "{{ number(floor, 4) }}",
                    "p, adjusted": "{{ p(p_adjusted) }}",
                    "without error": "{{ number(debiased, 4) }} {{ interval(low, high, 4) }}",
                },
                "The mean absolute difference over attributes. Floor: what chance gives, {{ over_units }}; p: adjusted"
                " over settings and contrasts (Holm); last: less what its own error adds, with its interval.",
                title="Scores in numbers",
                where="kind != 'control' and source in @ORDER",
            ),
            Pivot(
                _SCORE_ROW,
                {
                    "score": "{{ number(score, 4) }}",
                    "floor": "{{ number(floor, 4) }}",
                    "p": "{{ p(p_value) }}",
                },
                "Scores between two words of the same meaning: what the choice of a word makes. p is not adjusted.",
                title="Scores between synonyms",
                where="kind == 'control' and source in @ORDER",
            ),
            Pivot(
                "{{ model }}",
                {
                    "{{ Setting }} GEP": "{{ number(score, 2) }}",
                    "{{ Setting }} floor": "{{ number(floor, 2) }}",
                    "{{ Setting }} CS": "{{ number(clip, 1) }}",
                },
                "GEP scores between {{ pair }}, by {{ labels }}; CS: mean CLIPScore of these.",
                latex="gep_table03_scores",
                frame=_scores,
                note="The paper's scores have no floor: it is the mean score if the words of {{ swapped }} could change"
                " places.",
            ),
            Pivot(
                "{{ name }}",
                {"{{ head }}": "{{ raw(text) }}"},
                "GEP scores between {{ pair }} by each estimate and by {{ labels }}, ranked by size, and Kendall's tau"
                " between these ranks.",
                latex="gep_table06_estimates",
                frame=_estimated_scores,
                note="Every estimate has its own scale: compare ranks, not sizes.",
            ),
            Pivot(
                "{{ second }}, {{ setting }}, {{ model }}",
                {"{{ source }}": "{{ number(score, 2) }}"},
                "GEP scores between images generated from prompts of each word and from {{ reference }} prompts.",
                latex="gep_table10_reference",
                frame=_against_reference,
            ),
        ),
    ),
    TableSpec(
        "gep_vector",
        "audit",
        "a setting, source, pair and attribute: the difference of frequencies, its interval and tests",
        tables.VECTOR_COLUMNS,
        make=lambda audit: audit.inferred[0],
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
        "audit",
        "a setting, source, indicator and attribute: its frequency, or the mean of an estimate",
        tables.FREQUENCY_COLUMNS,
        make=lambda audit: tables.frequency_table(audit.everything),
        figure=f"{_FIGURES}:draw_examples",
        pivots=(
            Pivot(
                "{{ attribute }}",
                {"{{ setting }}, {{ indicator }}": "{{ number(frequency, 2) }}"},
                "Share of the images that have each attribute, by {{ labels }}; of an estimate by CLIP, its mean.",
                title="Frequencies of attributes",
                where="source == @source",
            ),
            Pivot(
                "{{ model }}: {{ indicator }}",
                {"{{ attribute }}": "{{ number(frequency, 2) }}"},
                "Frequency of each attribute in the {{ rows[0].setting }} setting, as read by {{ labels }}.",
                latex="gep_table{{ 11 if setting == 'neutral' else 12 }}_frequencies",
                frame=_frequencies,
            ),
        ),
    ),
    TableSpec(
        "gep_clip_score",
        "audit",
        "a setting and indicator: how well its images fit their prompts by CLIP; of an audit that CLIP read",
        clip.SCORE_COLUMNS,
        make=lambda audit: audit.comparing(clip.clip_score, audit.run),
        sentences=_FIT,
        figure=f"{_FIGURES}:draw_fit",
    ),
    TableSpec(
        "gep_contexts",
        "audit",
        "a setting, source, pair and context: its score",
        tables.CONTEXT_COLUMNS,
        make=lambda audit: audit.comparing(tables.context_table, audit.everything, audit.pairs),
        pivots=(
            Pivot(
                "{{ Setting }}, {{ model }}",
                {"{{ count }}": "{{ number(score, 2) }}"},
                "GEP scores of each context, between {{ pair }}, by {{ labels }}. {{ contexts }}",
                latex="gep_table15_contexts",
                frame=_contexts,
                note="The floor of a single context is far above that of all contexts together.",
            ),
        ),
    ),
    TableSpec(
        "gep_powered",
        "audit",
        "a setting, pair and attribute (or, without one, the score): a few labels and an estimate together; of an audit"
        " that has labels and CLIP's reading",
        powered.COLUMNS,
        make=lambda audit: audit.comparing(
            powered.powered_table, audit.readings, audit.pairs, audit.run.config
        ),
        pivots=(
            Pivot(
                "{{ setting }}, {{ first }} − {{ second }}",
                {
                    "labels": "{{ number(labelled_first + labelled_second, 0) }}",
                    "images": "{{ number(images_first + images_second, 0) }}",
                    "raw": "{{ number(raw) }}",
                    "score": "{{ number(value) }} {{ interval(low, high) }}",
                    "half-width": "{{ number(half_width) }}",
                },
                "Labels of some images correct an estimate of all. Raw: the mean absolute difference; score:"
                " less what errors add, with its interval for what labels of every image would give.",
                title="A few labels and an estimate together",
                where="attribute == '' and kind != 'control'",
            ),
        ),
    ),
    TableSpec(
        "gep_agreement",
        "audit",
        "a setting, estimate, labels and measure of agreement of their vectors, with its interval",
        tables.AGREEMENT_COLUMNS,
        make=lambda audit: audit.comparing(
            tables.agreement_table, audit.everything, audit.pairs, audit.run.config.measure
        ),
        figure=f"{_FIGURES}:draw_estimates",
        pivots=(
            Pivot(
                "{{ setting }}, {{ source }} by {{ labels }}",
                {**_AGREEMENT_CELLS, "tau at most": "{{ number(tau_ceiling, 2) }}"},
                "How the vector of each estimate follows that of labels, over attributes, with intervals over contexts."
                " At most: the tau that a perfect reading would reach on average against labels of so few images.",
                title="Can the estimates be believed?",
                frame=_agreement,
            ),
            Pivot(
                "{{ source }}",
                _BOTH,
                "Correlation between the GEP vectors of each estimate and of {{ labels }}; in parentheses the number of"
                " attributes.",
                latex="gep_table04_correlation",
                frame=_agreement,
                where=_BY_LABELS,
                note=_TAU_MCC,
            ),
            Pivot(
                "{{ source }}",
                {"{{ Setting }}, {{ model }}": "{{ number(pearson, 3) }}"},
                "Pearson correlation between the GEP vectors of each estimate and those of {{ labels }}.",
                latex="gep_table19_pearson",
                frame=_pearson,
                where=_BY_LABELS,
            ),
        ),
    ),
    TableSpec(
        "gep_auc",
        "audit",
        "an estimate, labels and attribute: the area under the ROC curve",
        tables.AUC_COLUMNS,
        make=lambda audit: audit.comparing(tables.auc_table, audit.everything),
        sentences=_AUC,
        pivots=(
            Pivot(
                "{{ source }}",
                {"{{ model }}": "{{ number(auc, 3) }}"},
                "Area under the ROC curve of each estimate against {{ labels }}, mean over attributes.",
                latex="gep_table07_auc",
                frame=_auc,
                where="attribute == 'Avg'",
            ),
            Pivot(
                "{{ model }}: {{ source }}",
                {"{{ attribute }}": "{{ number(auc, 2) }}"},
                "Area under the ROC curve of each estimate against {{ labels }}, by attribute.",
                latex="gep_table16_auc",
                frame=_auc,
            ),
        ),
    ),
    TableSpec(
        "gep_ratio",
        "audit",
        "an estimate, labels, contrast and attribute (or, without one, all): by how much the estimate differs between"
        " words, over by how much between images with and without the attribute",
        predictions.RATIO_COLUMNS,
        make=lambda audit: audit.comparing(
            predictions.ratio_table, audit.audits, audit.pairs, audit.run.config.measure
        ),
        sentences=_RATIO,
        figure=f"{_FIGURES}:draw_ratio",
    ),
    TableSpec(
        "gep_predictions",
        "audit",
        "a setting, image, attribute and source: what it says of the image",
        predictions.PREDICTION_COLUMNS,
        make=lambda audit: audit.comparing(predictions.prediction_table, audit.run, audit.said),
        csv=False,
        pivots=(
            Pivot(
                "{{ model }}",
                {
                    "{{ indicator }} {{ place }}": "{% if label > 0.5 %}\\underline{ {{- number(value) -}} }"
                    "{% else %}{{ number(value) }}{% endif %}"
                },
                "Predicted value of CLS of {{ rows[0].attribute }} for {{ pair }} of the {{ rows[0].setting }} setting,"
                " {{ rows[0].context }}; underlined where found by {{ labels }}.",
                latex="gep_table{{ count }}_predictions",
                frame=_predictions,
            ),
        ),
    ),
    TableSpec(
        "gep_artificial",
        "audit",
        "an estimate and an example of an artificial set: what differs by how much, and what the estimate says of it;"
        " of an audit that has labels and estimates",
        artificial.EXAMPLE_COLUMNS,
        make=lambda audit: audit.examples,
        figure=f"{_FIGURES}:draw_artificial",
        pivots=(
            Pivot(
                "{{ scale }}",
                {"Differences": "{{ raw(text) }}"},
                "Scales of differences from which the artificial sets are drawn.",
                latex="gep_table17_scales",
                frame=_scales,
            ),
        ),
    ),
    TableSpec(
        "gep_artificial_agreement",
        "audit",
        "an estimate and measure of agreement over these examples, with its interval",
        artificial.AGREEMENT_COLUMNS,
        make=lambda audit: (
            None
            if audit.examples is None
            else artificial.agreement_of_examples(audit.examples, audit.run.config.measure)
        ),
        pivots=(
            Pivot(
                "{{ source }} by {{ labels }}",
                {
                    **_AGREEMENT_CELLS,
                    "same attribute": "{{ number(SA_SM) }}",
                    "two attributes": "{{ number(DA_SM) }}",
                },
                "How each estimate follows the known differences of artificial sets, with intervals over attributes;"
                " last: Kendall’s tau over pairs of one attribute, and of two.",
                title="Artificial sets",
                frame=_examples,
                where="model != 'mix'",
            ),
            Pivot(
                "{{ source }}",
                _BOTH,
                "Correlation between estimated and known differences of artificial sets, labels by {{ labels }}; in"
                " parentheses the number of examples.",
                latex="gep_table05_artificial",
                frame=_examples,
                where=f"{_BY_LABELS} and model != 'mix'",
                note=_TAU_MCC,
            ),
            Pivot(
                "{{ source }}",
                {"{{ Setting }}, {{ model }}": "{{ number(tau, 3) }}/{{ number(mcc, 3) }}"},
                "Other ways to make the estimates, on the artificial sets.",
                latex="gep_table09_variants",
                frame=_all_variants,
                where=f"{_BY_LABELS} and model != 'mix'",
                note=_TAU_MCC,
            ),
            Pivot(
                "{{ source }}",
                {"Mix ({{ n }})": "{{ number(tau, 3) }}/{{ number(mcc, 3) }}"},
                "Correlation on the mix of the artificial sets of all models; in parentheses the number of examples.",
                latex="gep_table18_mix",
                frame=_examples,
                where=f"{_BY_LABELS} and model == 'mix'",
                note=_TAU_MCC,
            ),
            Pivot(
                "{{ source }}",
                {"{{ types }}": "{{ number(value, 3) }}"},
                "Kendall's tau on different types of pairs of examples: S same, D different, A attribute, M model.",
                latex="gep_table21_pair_types",
                frame=_pair_types,
            ),
        ),
    ),
    TableSpec(
        "gep_labels",
        "audit",
        "an image, attribute and annotator: yes (1), no (0)",
        ("sample_id", "attribute", "annotator", "value"),
        stage="",
    ),
)


def lead(shown: Measured) -> Lead | None:
    """Return the first screen: what the score of the first setting says; None where no two words are compared."""
    if not len(shown.rows("gep_score")):
        return None
    alpha, source, first, second = (shown.words[name] for name in ("alpha", "source", "first", "second"))
    what = (
        f"{source} estimates of attributes"
        if source in ("CLS", "CC", "C")
        else "shares of images with an attribute"
    )
    question = f"Do {what} differ between {first} and {second} prompts?"
    figures = ("gep-score", "gep-vector")
    said = shown.rows("gep_score", "source == @source and kind == 'contrast'").to_dict("records")
    if not said:
        return Lead(question, "No contrast was asked for, so no score was tested.", figures)
    row = said[0]
    examples = lead_examples(shown.run, shown.rows("gep_vector"), row)
    pictures = (examples, *captions(row)) if examples else ()
    place = f"In the {row['setting']} setting"
    if np.isnan(row["p_value"]):
        none = row["reason"].startswith("no difference")
        answer = (
            "no attribute differs" if none else "nothing can be said of differences; the reason stands below"
        )
        return Lead(question, f"{place} {answer}.", figures, *pictures)
    more = "more" if more_than_chance(row, alpha) else "not more"
    answer = (
        f"{place} they differ by {number(row['score'])} on average, {more} than the {number(row['floor'])} that "
        f"chance alone gives ({p_value(row['p_adjusted'])}, adjusted)"
    )
    few = f"; too few for any p below {alpha:g}" if row["p_smallest"] > alpha else ""
    return Lead(question, f"{answer}{few}.", figures, *pictures)


METHOD = MethodSpec(
    tables=GEP,
    needs={"audit": "a run whose prompts have contexts (`prompts: {from: gep}`)"},
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
