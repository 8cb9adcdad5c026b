"""The tables of Wu et al. 2025 as they are printed: pivots of the result tables (`analysis.tables.registry`)."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import pandas as pd

from analysis.metrics.cooccurrence import ALL, LEFT_OUT
from analysis.metrics.dependency import GROUPS
from analysis.metrics.registry import headline_metrics
from analysis.study import comparison
from analysis.tables.objects.left_open import PROMPTS_ALONE, prompts_alone
from analysis.tables.objects.wu import OBJECT_SITES
from analysis.tables.similarities.similarities import pair_name
from analysis.tables.spec import Measured, Pivot

GROUP_HEAD = "{{ group | replace('_', ' ') | capitalize }}"
FIGURES = {ALL: 4, "implicitly_guided": 7, "implicitly_independent": 8}  # of bias scores, by group
TOPS = {
    "top": "",
    "top_left_out": "_no_persons",
}  # the column that chooses the objects of a figure, and its name
_NOT_KNOWN = "{% if open %} {{ dash }}, or nothing: not known, since {{ open }}.{% endif %}"
_LEFT_OUT = "Individuals left out." + _NOT_KNOWN


def words(shown: Measured) -> dict[str, Any]:
    """What the templates know: what is compared, and why cells are open."""
    chosen, opened = comparison(shown.config), prompts_alone(shown.run)
    known = {"compared": chosen, "groups": GROUPS, "open": PROMPTS_ALONE if opened else "", "dash": "--"}
    if shown.config.unit == "seed":
        samples = shown.run.samples(["indicator", "seed", "prompt"])
        prompt = samples.loc[samples["indicator"] == chosen.reference, "prompt"].iloc[0]
        known |= {"seeds": f"{samples['seed'].nunique()} seeds", "prompt": prompt}
    return known


def _disparity(shown: Measured) -> pd.DataFrame:
    """Tables 5 and 10: similarity of the reference with every other main indicator, a row a pair and measure."""
    chosen, table, rows = shown.words["compared"], shown.rows("disparity"), []
    for metric in headline_metrics(shown.config.measure.text_readout):
        own = metric.rows_of(table)
        means = dict(zip(own["pair"].astype(str), own["mean"]))
        arrow = " $\\uparrow$" if metric.higher_is_nearer else " $\\downarrow$"
        unit = f" ({metric.unit})".replace("%", "\\%") if metric.unit else ""
        head = (metric.latex or metric.symbol) + arrow + unit
        why = (shown.run.meta.get("not_observed") or {}).get(metric.metric, "")
        for other in chosen.main:
            if other != chosen.reference:
                value = means.get(pair_name(chosen.reference, other, chosen.names), math.nan)
                known = {"other": other, "head": head, "value": value, "digits": metric.digits, "why": why}
                rows.append({**known, "symbol": metric.symbol, "absent": not means})
    return pd.DataFrame(rows)


def _similarity(shown: Measured) -> pd.DataFrame:
    """Table 6: co-occurrence similarity of the reference with every other main indicator, persons in, then left out."""
    chosen, table = shown.words["compared"], shown.rows("disparity", "metric == 'cooccurrence'")
    means = table.set_index(["site", "pair"])["mean"].to_dict()
    others = [other for other in chosen.main if other != chosen.reference]
    rows = [
        (other, which, means.get((site, pair_name(chosen.reference, other, chosen.names)), math.nan))
        for which, site in OBJECT_SITES.items()
        for other in (others if "table07_chi_square" in shown.tables else ())
    ]
    return pd.DataFrame(rows, columns=["other", "individuals", "value"])


def _chi_square(shown: Measured) -> pd.DataFrame:
    """Tables 7 to 9: p-values of the chi-square tests by group."""
    names = {
        "-".join(own): f"({', '.join(own)})" if len(own) < 3 else "Triplet" if len(own) == 3 else "All"
        for own in shown.words["compared"].sets
    }
    table = shown.rows("table07_chi_square", f"individuals == '{LEFT_OUT}'")
    return table.assign(name=table["comparison"].map(names)).dropna(subset="name")


def _scores(shown: Measured) -> pd.DataFrame:
    """Figures 4, 7 and 8 as tables: the objects that lean most to a side of a contrast, with individuals or without."""
    table = shown.rows("figure04_bias_scores")
    frames = [table.iloc[:0]]
    for (group, figure), (towards, away) in product(FIGURES.items(), shown.words["compared"].contrasts):
        own = table[(table["group"] == group) & (table["first"] == away) & (table["second"] == towards)]
        own = own.sort_values(["bias_score", "object"], ascending=[False, True])
        own = own.assign(figure=f"{figure:02d}", towards=towards, away=away)
        frames += [own[own[top] != ""].assign(which=which) for top, which in TOPS.items()]
    return pd.concat(frames, ignore_index=True)


_BY_INDICATOR = "{{ data }}{% if indicator != 'all' %}: {{ indicator }}{% endif %}"
DISPARITY = Pivot(
    "({{ reference }}, {{ other }})",
    {"{{ raw(head) }}": "{{ number(value, digits) }}"},
    "Representational disparity {{ 'in ' ~ data if unit == 'prompt' }} on {{ model }}: similarity of each pair, mean"
    " over {{ seeds ~ ' of “' ~ prompt ~ '”' if unit == 'seed' else 'prompts' }}.",
    latex="table{{ '10_intra_prompt' if unit == 'seed' else '05_disparity' }}",
    frame=_disparity,
    note="{% if unit == 'seed' %}For this prompt alone. {% endif %}"
    "{% set absent = rows | selectattr('absent') | list %}{% if absent %}"
    "{{ dash }}: not measured in this run ({{ absent | map(attribute='symbol') | unique | join(', ') }})."
    "{% for why, own in absent | selectattr('why') | groupby('why') %} {{ own | map(attribute='symbol') | unique |"
    " join(', ') }} not run: {{ why | replace('`', '') }}.{% endfor %}{% endif %}",
)
SIMILARITY = Pivot(
    "({{ reference }}, {{ other }})",
    {
        "{{ data }}{% if individuals == 'left out' %}, individuals left out{% endif %}": "{{ number(value, 3) }}"
    },
    "Co-occurrence similarity on {{ model }}.",
    latex="table06_similarity",
    frame=_similarity,
    note="First column: all objects, as in the paper. Second: individuals (person, woman, man …) left out."
    + _NOT_KNOWN,
)
CHI_SQUARE = Pivot(
    "{{ name }}",
    {"{{ 'All objects' if group == 'all' else group | replace('_', ' ') | capitalize }}": "{{ p(p_value) }}"},
    "Chi-square test on dependency groups in {{ data }} on {{ model }}.",
    latex="table07_chi_square",
    frame=_chi_square,
    note="Individuals left out. Detections are counted as independent, which those of one image and of one triplet are"
    " not: see table\\_tests.csv for tests that hold, and the warnings in table07\\_chi\\_square.csv."
    + _NOT_KNOWN,
)
SCORES = Pivot(
    "{{ object }}",
    {
        "Bias score": "{{ number(bias_score, 2) }}",
        "C({{ away }})": "{{ count_first }}",
        "C({{ towards }})": "{{ count_second }}",
    },
    "Bias scores of {{ rows[0].group | replace('_', ' ') }} objects in {{ data }} on {{ model }}: 1 is an object of"
    " {{ rows[0].towards }} prompts only, 0 of {{ rows[0].away }} ones.",
    latex="figure{{ figure }}_bias_scores_{{ towards }}_{{ away }}{{ which }}",
    frame=_scores,
    note="{% if rows[0].which %}Individuals left out.{% endif %}" + _NOT_KNOWN,
)
FREQUENT = Pivot(
    "{{ rank }}",
    {GROUP_HEAD: "{{ object }} ({{ count }})"},
    "Most frequent objects of each dependency group in {{ data }} on {{ model }}.",
    latex="figure06_group_objects",
    where="group in @groups",
    note=_LEFT_OUT,
)
PRESENCE = Pivot(
    _BY_INDICATOR,
    {GROUP_HEAD: "{{ number(percent_of_images, 2) }}"},
    "The proportion of images containing the dependency groups to all the images on {{ model }}, in percent.",
    latex="table11_presence",
    where="(individuals == 'included') == (indicator == 'all') and group in @groups",
    note="Of single indicators, individuals are left out." + _NOT_KNOWN,
)
AMOUNTS = Pivot(
    _BY_INDICATOR,
    {GROUP_HEAD: "{{ number(amount, 0) }}"},
    "Amount of individual objects in each dependency group and nouns in prompts on {{ model }}.",
    latex="table12_amounts",
    note=_NOT_KNOWN,
)
INTERSECTION = Pivot(
    "Over {{ over_group | replace('_', ' ') }}",
    {GROUP_HEAD: "{{ number(percent, 2) }}"},
    "Intersection ratio of individual objects among dependency groups and nouns in the prompts of {{ data }} on"
    " {{ model }}, in percent.",
    latex="table13_intersection",
    note=_NOT_KNOWN,
)
