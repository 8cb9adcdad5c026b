"""The audit of professions (DALL-Eval, Cho et al. 2023) as a method: its tables, sentences, figures, printed tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from analysis.methods.dalleval import tables
from analysis.methods.dalleval.lead_examples import lead_examples
from analysis.methods.dalleval.names import named, profession
from analysis.methods.dalleval.page_tests import adjust_page, first_sources, said_rows, said_words
from analysis.methods.dalleval.printed import PROMPTS, WORDS
from analysis.methods.dalleval.readings import read_all, readers
from analysis.methods.dalleval.scores import ATTRIBUTES, COUNTS, GENDER, TONE, AuditDesign
from analysis.methods.dalleval.words import absolute_table, between_table, compared, word_table
from analysis.report.format import counted, number, p_value
from analysis.report.section import Lead
from analysis.study import comparison
from analysis.tables.objects.detector_error import Checked
from analysis.tables.sharing import Sharing
from analysis.tables.spec import Measured, MethodSpec, Pivot, TableSpec
from probes.prompts.diagnostic import ALL, is_diagnostic
from probes.runs.run import Run


def audit_tables(
    run: Run, sharing: Sharing | None = None, checked: Checked | None = None
) -> dict[str, pd.DataFrame] | None:
    """Return the tables of an audit by name; None of other runs and where nothing read the images."""
    if not is_diagnostic(run.config) or not (readings := read_all(run)):
        return None
    config, chosen = run.config, comparison(run.config)
    design = AuditDesign(
        chosen.main,
        config.measure,
        compared(chosen),
        bare=config.dalleval.bare,
        paired=config.paired,
        shared=config.sampler.noise == "shared",
    )
    professions = tables.profession_table(readings, design)
    deviations, differences, apart = adjust_page(
        tables.mad_table(readings, professions, design),
        between_table(readings, design),
        word_table(readings, design),
        config.reference,
        config.measure.alpha,
    )
    return {
        "dalleval_professions": professions,
        "dalleval_distribution": tables.distribution_table(readings, design),
        "dalleval_mad": deviations,
        "dalleval_between": differences,
        "dalleval_words": apart,
        "dalleval_absolute": absolute_table(readings, design),
        "dalleval_agreement": tables.agreement_table(readings, config.measure),
    }


def require(run: Run) -> None:
    """Refuse a run whose configuration names a reader that nobody has."""
    if is_diagnostic(run.config):
        readers(run)


def words(shown: Measured) -> dict[str, Any]:
    """Values of the templates: who read gender, tone and attributes first, and which words the paper's tables show."""
    table, reference = shown.rows("dalleval_professions"), shown.config.reference
    pairs = [pair for *pair, kind in compared(comparison(shown.config)) if kind == "contrast"]
    first, second = pairs[0] if pairs else ("", "")
    sources = {GENDER: "", TONE: "", ATTRIBUTES: ""} | first_sources(table)
    tones = table["question"] == TONE
    tone_word = ALL if ALL in set(table.loc[tones, "indicator"]) else reference
    return {
        **sources,
        "first": first,
        "second": second,
        "tone_word": tone_word,
        "said": [(GENDER, sources[GENDER], reference), (TONE, sources[TONE], tone_word)],
        "readers": [named(name) for name in dict.fromkeys(table.loc[~tones, "source"])],
        "rules": [named(name) for name in dict.fromkeys(table.loc[tones, "source"])],
        "toyworld": shown.config.model.startswith("toyworld"),
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


_AVERAGES = """
{% for row in rows if row.profession == ALL and (row.question, row.source, row.indicator) in said %}
{% set of = "images generated from " ~ ("every word’s" if row.indicator == ALL else row.indicator) ~ " prompts" %}
{% set which = of if row.decided == row.asked else row.decided ~ " that were decided of " ~ row.asked ~ " " ~ of %}
{% if not row.decided %}
Nothing can be said of the {{ row.question }} of {{ of }} ({{ row.reason }}).
{% elif row.question == "gender" %}
{{ number(50 * (row.average + 1), 0) }} % of the {{ which }} were read as female by {{ named(row.source) }} (average
 gender {{ number(row.average, 2, true) }}).
{% else %}
The average tone of the {{ which }} is {{ number(row.average, 2) }} by {{ named(row.source) }}.
{% endif %}

{% endfor %}
"""
_MAD = """
{% for row in rows if (row.question, row.source, row.indicator) in said and row.professions and not row.reason %}
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
{% for row in rows if (row.question, row.source, row.indicator) in said %}
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
_FIGURES = "analysis.methods.dalleval.figures"

DALLEVAL = (
    TableSpec(
        "dalleval_professions",
        "a reader, question, profession (or all) and indicator: the average, and what became of every image",
        (
            *("source", "question", "profession", "indicator", "average", "low", "high", "p_value"),
            *("p_adjusted", *COUNTS, "level", "reason", "version"),
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
                "Images of {{ model }}: average gender{% if gender %} of {{ reference }} prompts, read by"
                " {{ named(gender) }},{% endif %} with its interval over images and its exact test against half and"
                " half, adjusted over professions, and average tone{% if tone %} of"
                ' {{ "all" if tone_word == ALL else tone_word }} prompts, by {{ named(tone) }}{% endif %}; images that'
                " were decided, of those planned.",
                title="Each profession",
                latex="dalleval_table16_professions",
                frame=lambda shown: said_rows(shown.rows("dalleval_professions"), shown.config.reference),
            ),
            PROMPTS,
        ),
    ),
    TableSpec(
        "dalleval_distribution",
        "a reader, gender or tone, profession, indicator and category: its share of the images",
        (
            *("source", "question", "profession", "indicator", "category", "images", "share", "low"),
            *("high", "decided", "level"),
        ),
        figure=f"{_FIGURES}:draw_tones",
    ),
    TableSpec(
        "dalleval_mad",
        "a reader, question and indicator: the MAD over professions",
        (
            *("source", "question", "indicator", "mad", "floor", "debiased", "low", "high", "p_value"),
            *("p_adjusted", "different", "tested", "professions", "images", "level", "reason", "version"),
        ),
        sentences=_MAD,
        pivots=(
            Pivot(
                "{{ question }}, by {{ named(source) }}",
                {
                    "MAD": "{{ number(mad, 4) }}",
                    "floor": "{{ number(floor, 4) }}",
                    "p": "{{ p(p_adjusted) }}",
                    "less error": "{{ number(debiased) }} {{ interval(low, high) }}",
                    "images": "{{ images }}",
                },
                "MAD: mean over professions of the mean absolute deviation of the shares from equally likely"
                " categories; where all images of a profession are alike it is 0.5 of gender and attributes and 0.18 of"
                " tones. Floor: what chance alone gives; p: whether the MAD is above it, adjusted over this section’s"
                " tests, of which the sentences speak. Less error: the MAD without what the errors of the"
                " shares add, with its interval over images. The published code’s reading of tones (dalleval2023)"
                " gives tones in the middle of the scale to nearly any colour.",
                title="Deviation from equally likely categories",
                latex="dalleval_table08_mad",
                where="indicator == @reference and question != 'tone' or indicator == @tone_word",
            ),
        ),
    ),
    TableSpec(
        "dalleval_between",
        "a reader, question and indicator (or all): the variance between professions",
        (
            *("source", "question", "indicator", "explained", "floor", "p_value", "p_adjusted"),
            *("different", "tested", "professions", "images", "reason"),
        ),
        sentences=_BETWEEN,
    ),
    TableSpec(
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
                frame=lambda shown: said_words(shown.rows("dalleval_words")),
            ),
            WORDS,
        ),
    ),
    TableSpec(
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
                where="profession == @ALL and kind != 'control'",
            ),
        ),
    ),
    TableSpec(
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
                    **{f"within {k}": f"{{{{ number(within_{k}) }}}}" for k in (1, 2, 3)},
                    "distance": "{{ number(mean_abs_difference, 2) }}",
                    "images": "{{ images }}",
                },
                "Share of the images that both decided of which they say the same, with its interval {{ over(unit) }};"
                " of tones the share at most so many tones apart (precision@K), and the mean distance.",
                title="Do the readers agree?",
                latex="dalleval_table18_agreement",
            ),
        ),
    ),
)


def lead(shown: Measured) -> Lead | None:
    """Return the first screen: how far professions deviate from half and half, by the first reader of gender."""
    reference = shown.config.reference
    question = f"How far do {reference} prompts of professions deviate from half and half?"
    figures = ("dalleval-professions",)
    rows = said_rows(shown.rows("dalleval_mad"), reference).query("question == 'gender'").to_dict("records")
    if not rows or rows[0]["reason"]:
        return Lead(question, "Nothing can be said of it; the reason stands below.", figures)
    row, source = rows[0], named(rows[0]["source"])
    more = "more" if row["p_adjusted"] < shown.words["alpha"] else "not more"
    answer = (
        f"By a share of {number(row['mad'])} on average, {more} than the {number(row['floor'])} that chance alone"
        f" gives ({p_value(row['p_adjusted'])}, adjusted over this section’s tests), as {source} reads"
        f" {counted(row['professions'], 'profession')}."
    )
    examples = lead_examples(shown.run, shown.rows("dalleval_professions"), row["source"])
    heading = "Average gender: read as male −1, as female +1"
    chosen = (
        f"The professions with the lowest, the middle and the highest average gender of {reference} prompts, each by"
        f" its first images; under an image: as what {source} read it."
    )
    return Lead(question, answer, figures, examples, heading, chosen)


METHOD = MethodSpec(
    tables=DALLEVAL,
    needs="a run whose prompts have professions (`prompts: {from: dalleval}`), where readers read the images",
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
