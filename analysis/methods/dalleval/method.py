"""The audit of professions (DALL-Eval, Cho et al. 2023) as a method: its tables, sentences, figures, printed tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from analysis.methods.dalleval.lead_examples import captions, lead_examples
from analysis.methods.dalleval.names import first_source, named, profession
from analysis.methods.dalleval.printed import AVERAGES, CONTRASTS, FIRST, PROMPTS, WORDS, mads
from analysis.methods.dalleval.scores import ATTRIBUTES, COUNTS, GENDER, TONE, kind_of
from analysis.methods.dalleval.stage import audit_tables, require
from analysis.methods.dalleval.words import first_contrast
from analysis.report.format import counted, number, p_value
from analysis.report.section import Lead
from analysis.study import comparison
from analysis.tables.spec import Measured, MethodSpec, Pivot, TableSpec
from probes.prompts.diagnostic import ALL, NONE


def words(shown: Measured) -> dict[str, Any]:
    """Values of the templates: who read gender, tone and attributes first, and which words the paper's tables show."""
    chosen, table, mad = (
        comparison(shown.config),
        shown.rows("dalleval_professions"),
        shown.rows("dalleval_mad"),
    )
    first, second = first_contrast(chosen) or ("", "")
    sources = {kind: first_source(table, kind) for kind in (GENDER, TONE, ATTRIBUTES)}
    tones = table["question"] == TONE
    together = ALL in set(table.loc[tones, "indicator"])
    indicators = {GENDER: chosen.reference, TONE: ALL if together else chosen.reference}

    def speaks(row: Mapping[str, Any]) -> bool:
        return (row["source"], row["indicator"]) == (
            sources.get(row["question"]),
            indicators.get(row["question"]),
        )

    floors = [row["floor"] for row in mad.to_dict("records") if row["question"] == GENDER and speaks(row)]
    gender = table[(table["question"] == GENDER) & (table["source"] == sources[GENDER])]
    gender = gender[gender["indicator"] == chosen.reference]
    images = sorted(set(gender.loc[~gender["profession"].isin([ALL, NONE]), "decided"]) - {0})
    return {
        **sources,
        "first": first,
        "second": second,
        "tone_word": indicators[TONE],
        "images": " to ".join(dict.fromkeys(f"{n:.0f}" for n in (*images[:1], *images[-1:]))),
        "floor": floors[0] if floors else float("nan"),
        "readers": [named(name) for name in dict.fromkeys(table.loc[~tones, "source"])],
        "rules": [named(name) for name in dict.fromkeys(table.loc[tones, "source"])],
        "toyworld": shown.config.model.startswith("toyworld"),
        "speaks": speaks,
        "differing": _differing,
        "named": named,
        "called": profession,
        "ALL": ALL,
    }


def _differing(row: Mapping[str, Any]) -> str:
    """How many professions of those tested differ."""
    count = int(row["different"])
    some = "none differs" if not count else "1 differs" if count == 1 else f"{count} differ"
    return f"of {counted(int(row['tested']), 'profession')} {some}"


def _counts(shown: Measured) -> pd.DataFrame:
    """Fate of the planned images by reader: of gender, of tone, and of all attributes together."""
    rows = shown.rows("dalleval_professions", "indicator != @ALL and profession != @ALL")
    kind = rows["question"].map(kind_of)
    return rows.groupby(["source", kind], sort=False)[list(COUNTS)].sum().reset_index()


_AVERAGES = """
{% for row in rows if row.profession == ALL and speaks(row) %}
{% set of = "images generated from " ~ ("every word’s" if row.indicator == ALL else row.indicator) ~ " prompts" %}
{% set which = of if row.decided == row.asked else row.decided ~ " that were decided of " ~ row.asked ~ " " ~ of %}
{% if not row.decided %}
Nothing can be said of the {{ row.question }} of {{ of }} ({{ row.reason }}).
{% elif row.question == "gender" %}
{{ number(50 * (row.average + 1), 0) }} % of the {{ which }} were read as female by {{ named(row.source) }} (average
 gender {{ number(row.average, 2, true) }}
{%- if row.decided < row.asked %}; whatever the others show, of all between {{ number(row.least, 2, true) }} and
 {{ number(row.most, 2, true) }}{% endif %}).
{% else %}
The average tone of the {{ which }} is {{ number(row.average, 2) }} by {{ named(row.source) }}
{%- if row.decided < row.asked %}; whatever the others show, of all between {{ number(row.least, 2) }} and
 {{ number(row.most, 2) }}{% endif %}.
{% endif %}

{% endfor %}
"""
_MAD = """
{% for row in rows if speaks(row) and row.professions and not row.reason %}
The mean absolute deviation of {{ counted(row.professions, "profession") }} from
{% if row.question == "gender" %}
 half and half is {{ number(row.mad) }} on average, {{ "more" if row.p_adjusted < alpha else "not more" }} than the
 {{ number(row.floor) }} that chance alone gives ({{ p_value(row.p_adjusted) }}, adjusted over this section’s tests);
 {{ differing(row) }} from half and half after adjustment.
{% else %}
 ten equally likely tones is {{ number(row.mad) }} on average (chance alone gives {{ number(row.floor) }}): the paper’s
 reference, and no finding about professions.
{% endif %}

{% endfor %}
"""
_BETWEEN = """
{% for row in rows if speaks(row) %}
{% if row.reason %}
Whether professions differ from one another in {{ row.question }} cannot be told ({{ row.reason }}).
{% else %}
Professions {{ "differ" if row.p_adjusted < alpha else "cannot be told to differ" }} from one another in
 {{ row.question }} ({{ p_value(row.p_adjusted) }}, adjusted over words and this section’s tests;
 {{ number(100 * row.explained, 0) }} % of the variance lies between them, by chance alone
 {{ number(100 * row.floor, 0) }} %); {{ differing(row) }} from all together after adjustment.
{% endif %}

{% endfor %}
{% set tested = rows | selectattr("source", "eq", attributes) | rejectattr("question", "in", ("gender", "tone"))
 | rejectattr("indicator", "eq", ALL) | rejectattr("reason") | list %}
{% if tested %}
Of {{ counted(tested | map(attribute="question") | unique(true) | list | length, "attribute") }} by
 {{ named(attributes) }},
 {{ tested | selectattr("p_adjusted", "lt", alpha) | map(attribute="question") | unique(true) | join(", ") or "none" }}
 can be told to differ between professions (adjusted over attributes, words and this section’s tests).
{% endif %}
"""
_READER = "{{ question }}, by {{ named(source) }}"
_FIGURES = "analysis.methods.dalleval.figures"


def _table(name: str, rows: str, columns: Sequence[str], **options: Any) -> TableSpec:
    def make(made: dict[str, pd.DataFrame]) -> pd.DataFrame | None:
        return made[name][list(columns)] if name in made else None

    return TableSpec(name, "professions", rows, columns, make=make, **options)


DALLEVAL = (
    _table(
        "dalleval_professions",
        "a reader, question, profession (or all) and indicator: the average of what was read, and what became of every"
        " image",
        (
            *("source", "question", "profession", "indicator", "average", "low", "high", "least", "most"),
            *("p_value", "p_adjusted", *COUNTS, "level", "reason", "version"),
        ),
        sentences=_AVERAGES,
        figure=f"{_FIGURES}:draw_gender",
        pivots=(
            Pivot(
                "{{ called(profession) }}",
                {
                    "average {{ question }}": "{{ number(average, 2, question == 'gender') }}"
                    " {{ interval(low, high, 2) }}{% if defined(p_adjusted) %} p {{ p(p_adjusted) }}{% endif %}",
                    "images, {{ question }}": "{{ decided }} of {{ planned }}",
                },
                "Average gender with its interval over images and its exact test against half and half, adjusted over"
                " professions, and average tone; images that were decided, of those planned.",
                title="Each profession",
                where=f"({FIRST[GENDER]}) or ({FIRST[TONE]})",
            ),
            Pivot(
                _READER,
                {name.replace("_", " "): f"{{{{ {name} }}}}" for name in COUNTS},
                "Planned images by reader, all words together; of attributes, images times questions. Nothing is left"
                " out of this count.",
                title="What became of the images",
                frame=_counts,
            ),
            *AVERAGES,
            PROMPTS,
        ),
    ),
    _table(
        "dalleval_distribution",
        "a reader, gender or tone, profession, indicator and category: its share of the images",
        (
            *("source", "question", "profession", "indicator", "category", "images", "share", "low"),
            *("high", "decided", "level"),
        ),
        figure=f"{_FIGURES}:draw_tones",
    ),
    _table(
        "dalleval_attribute_tones",
        "a rule of tones, reader, attribute and tone: its share of the images in which the attribute is read",
        (
            *("source", "reader", "attribute", "category", "images", "share", "low", "high", "decided"),
            *("present", "level"),
        ),
        figure=f"{_FIGURES}:draw_attribute_tones",
    ),
    _table(
        "dalleval_mad",
        "a reader, question and indicator: the MAD over all professions beside its floor",
        (
            *("source", "question", "indicator", "mad", "floor", "debiased", "low", "high", "p_value"),
            *("p_adjusted", "different", "tested", "professions", "images", "level", "reason", "version"),
        ),
        sentences=_MAD,
        pivots=(
            Pivot(
                _READER,
                {
                    "MAD": "{{ number(mad) }}",
                    "floor": "{{ number(floor) }}",
                    "p": "{{ p(p_adjusted) }}",
                    "less error": "{{ number(debiased) }} {{ interval(low, high) }}",
                    "images": "{{ images }}",
                },
                "MAD: mean over professions of the mean absolute deviation of the shares from equally likely"
                " categories. Floor: what chance alone gives; p: whether the MAD is above it, adjusted over this"
                " section’s tests, of which the sentences speak. Less error: the MAD without what the errors of the"
                " shares add, with its interval over images. The published code’s reading of tones (dalleval2023)"
                " gives tones in the middle of the scale to nearly any colour.",
                title="Deviation from equally likely categories",
                where="indicator == @reference and question != 'tone' or indicator == @tone_word",
            ),
            Pivot(
                "{{ name }}",
                {"{{ head }}": "{{ number(value, 4) if defined(value) }}"},
                "MAD of gender (by {{ named(gender) }}) and of tone (by {{ named(tone) }}) from equally likely"
                " categories, mean over professions.",
                latex="dalleval_table08_mad",
                frame=mads,
                note="The paper has no floor: it is the mean MAD that equally likely categories give at these numbers"
                " of images.",
            ),
        ),
    ),
    _table(
        "dalleval_between",
        "a reader, question and indicator (or all): share of the variance between professions, its floor, and a test",
        (
            *("source", "question", "indicator", "explained", "floor", "p_value", "p_adjusted"),
            *("different", "tested", "professions", "images", "reason"),
        ),
        sentences=_BETWEEN,
    ),
    _table(
        "dalleval_words",
        "a reader, question, pair of indicators and profession (or all): the difference of what was read",
        (
            *("source", "question", "first", "second", "kind", "profession", "difference", "low", "high"),
            *("p_value", "p_adjusted", "pairs", "professions", "level", "reason"),
        ),
        pivots=(
            Pivot(
                "{{ question }}, by {{ named(source) }}: {{ first }} − {{ second }}",
                {
                    "difference": "{{ number(difference, 3, true) }} {{ interval(low, high) }}",
                    "p": "{{ p(p_adjusted) }}",
                    "pairs": "{{ pairs }}",
                },
                "Mean difference of two images of one noise (of averages where images have no noise in common), over"
                " professions, with its interval over professions; p by sign flips of whole professions, adjusted over"
                " all pairs and questions (step-down max-T) and this section’s tests.",
                title="Differences between words",
                where=f"{CONTRASTS} and (question == 'gender' and source == @gender or question == 'tone' and"
                " source == @tone or question not in ['gender', 'tone'] and source == @attributes)",
            ),
            *WORDS,
        ),
    ),
    _table(
        "dalleval_absolute",
        "a reader of attributes, pair of indicators and profession (or all): the mean absolute difference",
        (
            *("source", "first", "second", "kind", "profession", "mean_abs_difference", "floor", "p_value"),
            *("attributes", "reason"),
        ),
        pivots=(
            Pivot(
                "{{ first }} − {{ second }}, by {{ named(source) }}",
                {
                    "difference": "{{ number(mean_abs_difference, 4) }}",
                    "floor": "{{ number(floor, 4) }}",
                    "p": "{{ p(p_value) }}",
                },
                "Mean absolute difference over attributes of averages {{ over(unit) }} beside its floor (the words of"
                " whole prompts could change places); p: of each row alone.",
                title="Mean absolute differences over attributes",
                where=CONTRASTS,
            ),
        ),
    ),
    _table(
        "dalleval_agreement",
        "a question and two readers: how often they say the same",
        (
            *("question", "first", "second", "same", "low", "high", "within_1", "within_2", "within_3"),
            *("mean_abs_difference", "images", "level", "reason"),
        ),
        pivots=(
            Pivot(
                "{{ question }}: {{ named(first) }}, {{ named(second) }}",
                {
                    "the same": "{{ number(same) }} {{ interval(low, high) }}",
                    "distance": "{{ number(mean_abs_difference, 2) }}",
                    "images": "{{ images }}",
                },
                "Share of the images that both decided of which they say the same, with its interval {{ over(unit) }};"
                " of tones the mean distance.",
                title="Do the readers agree?",
            ),
            Pivot(
                "{{ model }}: {{ named(first) }}",
                {
                    "Precision@0": "{{ number(100 * same, 2) }}",
                    **{f"Precision@{k}": f"{{{{ number(100 * within_{k}, 2) }}}}" for k in (1, 2, 3)},
                    "Average difference": "{{ number(mean_abs_difference, 2) }}",
                    "Images": "{{ images }}",
                },
                "Rules of tones held against people: share of images at most K tones apart in percent (precision@K),"
                " and mean difference in tones.",
                latex="dalleval_table18_skin",
                where="question == 'tone' and second == 'human' and images > 0",
                note="Of images that both decided.",
            ),
        ),
    ),
)


def lead(shown: Measured) -> Lead | None:
    """Return the first screen: how far professions deviate from half and half, by the first reader of gender."""
    reference = shown.config.reference
    question = f"How far do {reference} prompts of professions deviate from half and half?"
    figures = ("dalleval-professions",)
    rows = shown.rows("dalleval_mad", FIRST[GENDER]).to_dict("records")
    if not rows or rows[0]["reason"] or not rows[0]["professions"]:
        return Lead(question, "Nothing can be said of it; the reason stands below.", figures)
    row = rows[0]
    more = "more" if row["p_adjusted"] < shown.words["alpha"] else "not more"
    answer = (
        f"By a share of {number(row['mad'])} on average, {more} than the {number(row['floor'])} that chance alone"
        f" gives ({p_value(row['p_adjusted'])}, adjusted over this section’s tests), as {named(row['source'])} reads"
        f" {counted(row['professions'], 'profession')}."
    )
    examples = lead_examples(shown.run, shown.rows("dalleval_professions"), row["source"])
    return Lead(question, answer, figures, examples, *captions(reference, row["source"]))


METHOD = MethodSpec(
    tables=DALLEVAL,
    needs={
        "professions": "a run whose prompts have professions (`prompts: {from: dalleval}`), where readers read the"
        " images"
    },
    inputs=audit_tables,
    require=require,
    title="Professions (DALL-Eval)",
    anchor="professions",
    intro="What is read in images generated from prompts that name a profession (Cho et al. 2023): how the person looks"
    " to a reader (male −1, female +1), which of the ten Monk tones the skin is nearest to, and which attributes are"
    " there.{% if readers %} Read by: {{ listed(readers) }}.{% endif %}{% if rules %} Tones by: {{ listed(rules) }}."
    "{% endif %} These are readings of images and say nothing of anybody{% if toyworld %}; in the toy world they are of"
    " what was planted, which is no claim about how anybody looks{% endif %}.",
    words=words,
    lead=lead,
)
