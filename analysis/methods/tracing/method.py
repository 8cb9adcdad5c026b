"""Causal tracing as a method: its tables, sentences, figures and LaTeX."""

from __future__ import annotations

from analysis.methods.tracing import cuts, outcomes, shares
from analysis.methods.tracing.findings import findings
from analysis.methods.tracing.measure import read_trace, require_outcomes
from analysis.report.section import Lead, lines
from analysis.tables.spec import Measured, MethodSpec, Pivot, TableSpec
from probes.stages.trace.variants import CUTS

_FIGURES = "analysis.methods.tracing.figures"
_TOTAL = """
{% if not total.n_prompts %}
The {{ outcome }} has no value in any image that was generated: the column `reason` of `trace_outcomes` says why.
{% elif total.n_prompts == 1 %}
Of one {{ unit }} this is an illustration: the words move the {{ outcome }} by {{ number(total.total, 2) }}, without an
 interval or shares.
{% else %}
Between images generated from {{ first }} and {{ second }} prompts the {{ outcome }} differs by
 {{ spanned(total, "total") }} on average ({{ p_value(total.p_value) }})
{{- "" if any_effect else ", which cannot be told from 0: there are no shares of it" }}.
{% endif %}
"""
_SIGNIFICANT = """
{{ n_significant }} of {{ n_places }} places do more than {{ "a synonym" if controls else "nothing" }}
"""
_LARGEST = """
The largest share is that of {{ largest.place }}: {{ spanned(largest, "share") }}
"""
_SHARES = """
{% if total.n_prompts > 1 and n_places %}
{% if any_effect %}
LARGEST
{%- if most_needed %}; needed most is {{ most_needed.place }}, for {{ spanned(most_needed, "share") }}{% endif %}.
 The intervals hold for all places at once.
{% elif n_significant %}
By what each place alone moves the {{ outcome }}, the first {{ ranked | length }} of {{ n_places }} are
{% for row in ranked %}
 {{ row.place }} {{ spanned(row, "effect", true) }}{{ "," if not loop.last }}
{% endfor %}
 (intervals for all places at once).
{% endif %}
SIGNIFICANT (p < {{ "%g" | format(alpha) }}, adjusted over all).
{% if opposing %}


Places oppose each other: {{ opposing[1].place }} moves the {{ outcome }} by
 {{ spanned(opposing[1], "effect", true) }}, {{ opposing[0].place }} by
 {{ spanned(opposing[0], "effect", true) }}. The total effect is what is left of both: a small one does not
 say that nothing is decided, and a share is not how much of the decision a place makes.
{% endif %}
{% if interplay %}


{{ interplay }}. Patched all at once they differ from the sum of what each does alone:
{% for name, row in interactions.items() %}
{{ " and " if not loop.first }} in {{ name }} by {{ spanned(row, "share", true) }}
{%- endfor %}
.
{% endif %}
{% endif %}
""".replace("LARGEST", _LARGEST.strip()).replace("SIGNIFICANT", _SIGNIFICANT.strip())
_CUTS = """
{% set tested = rows | selectattr("outcome", "equalto", shown) | rejectattr("reason", "equalto", untested) | list %}
{% if tested %}
{{ tested | selectattr("holds") | list | length }} of {{ tested | length }} cuts come out: patches whose share is known,
 whatever the model, and which test the tool.
{% else %}
No cut can be tested: no prompt has a total effect, of which any share is 0.
{% endif %}
"""
_INTRO = """
Traced: {{ counted(total.n_prompts, unit) }}{% if unit == "prompt" %} with {{ counted(seeds, "seed") }} each{% endif %},
 {{ counted(n_places, "place") }} one by one. Images of {{ neutral }} were generated again, each with activations
 of {{ donors[0] }} or {{ donors[1] }} of the same noise in place of their own
{%- if controls %}, and of {{ listed(controls) }}, of the same meaning as {{ neutral }}{% endif %}. What is explained is
 {{ explained }}.
{% if shared_noise %} All prompts of a seed share their noise: intervals are for prompts with this noise.{% endif %}
{% if others %} Also measured: {{ listed(others) }} (tables).{% endif %}
"""
_SHARE = "{{ number(share, 2) }} {{ interval(low, high, 2) or reason }}"

TABLES = (
    TableSpec(
        "trace_total",
        "an outcome and donor (a word of the contrast, both, or a synonym): the total effect",
        shares.TOTAL_COLUMNS,
        make=lambda trace: shares.total_table(trace.effects, trace.sampling),
        sentences=_TOTAL,
        pivots=(
            Pivot(
                "{{ donor }}{{ ' (synonym)' if control }}",
                {
                    "total effect": "{{ number(total, 2) }} {{ interval(low, high, 2) }}",
                    "p": "{{ p(p_value) }}",
                    "n": "{{ n_prompts }}",
                },
                "Total effect of each word against the reference, and of one against the other: difference of the"
                " {{ outcome }}.",
                title="Total effect of each word",
                where="outcome == @shown",
            ),
        ),
    ),
    TableSpec(
        "trace_shares",
        "an outcome, donor, patched place and estimand",
        shares.SHARE_COLUMNS,
        make=lambda trace: trace.shares("site", "complete", "position"),
        sentences=_SHARES,
        figure=f"{_FIGURES}:draw_shares",
        pivots=(
            Pivot(
                "{{ place(site, positions) }}",
                {
                    "{{ estimand }}": _SHARE,
                    "p, {{ estimand }}": "{{ p(p_adjusted) }}",
                    "effect, {{ estimand }}": "{{ number(effect, 2, true) }}"
                    " {{ interval(effect_low, effect_high, 2) }}",
                    "n, {{ estimand }}": "{{ n_prompts }}",
                },
                "Shares of the total effect of both words on the {{ outcome }} in {{ data }} on {{ model }}."
                " Intervals and p hold for all places at once. Beyond: sufficiency less the"
                " share of a word of the reference’s meaning. A share may lie outside of 0 to 1: below 0 the place"
                " works against the word, above 1 something else takes part of it back.",
                latex="trace_shares",
                title="Shares by place",
                where="outcome == @shown and donor == @both and kind != 'interaction' and estimand != 'floor'",
            ),
        ),
    ),
    TableSpec(
        "trace_windows",
        "an outcome, donor, place, window of steps and estimand",
        shares.SHARE_COLUMNS,
        make=lambda trace: trace.shares("window"),
        figure=f"{_FIGURES}:draw_windows",
    ),
    TableSpec(
        "trace_heads",
        "an outcome, donor, place, head and estimand",
        shares.SHARE_COLUMNS,
        make=lambda trace: trace.shares("head"),
        figure=f"{_FIGURES}:draw_heads",
    ),
    TableSpec(
        "trace_cuts",
        "an outcome and cut, a patch whose share is known",
        cuts.CUT_COLUMNS,
        make=lambda trace: cuts.cut_table(trace.effects, trace.variants, CUTS),
        sentences=_CUTS,
        pivots=(
            Pivot(
                "{{ cut }}, {{ donor }}",
                {
                    "expected": "{{ number(expected, 0) }}",
                    "share": "{{ number(share, 6) }}",
                    "largest deviation": "{{ number(deviation, 6) }}",
                    "holds": "{{ reason if reason == untested else 'yes' if holds else 'does not hold' }}",
                    "n": "{{ n_prompts }}",
                },
                "Patches whose share of the total effect is known beforehand.",
                title="Cuts that must come out",
                where="outcome == @shown",
            ),
        ),
    ),
    TableSpec(
        "trace_outcomes",
        "an outcome and traced image",
        outcomes.COLUMNS,
        make=lambda trace: trace.outcomes,
        csv=False,
    ),
)


def lead(shown: Measured) -> Lead:
    """The first screen: the total effect, and the place with the largest share of it."""
    answer = (
        f"{_LARGEST.strip()}; {_SIGNIFICANT.strip()}."
        if shown.words["any_effect"] and shown.words["largest"]
        else _TOTAL
    )
    return Lead(
        f"Where in the model do {shown.words['first']} and {shown.words['second']} prompts take effect?",
        lines(answer, shown.words)[0],
        ("trace-shares", "trace-windows"),
    )


METHOD = MethodSpec(
    tables=TABLES,
    needs="a run with a trace (`--stage trace`)",
    inputs=read_trace,
    require=require_outcomes,
    title="Where it is decided",
    anchor="trace",
    intro=_INTRO,
    words=findings,
    lead=lead,
)
