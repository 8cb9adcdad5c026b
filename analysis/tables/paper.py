"""The tables of Wu et al. 2025 as they are printed: pivots of the result tables (`analysis.tables.registry`)."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import combinations, product
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
    known = {"compared": chosen, "groups": GROUPS, "open": PROMPTS_ALONE if opened else ""}
    known["of_detector"] = ["recall", "precision", "kappa"]
    known["shown_of"] = [ALL, *chosen.main, *("-".join(pair) for pair in chosen.contrasts)]
    if shown.config.unit == "seed":
        samples = shown.run.samples(["indicator", "seed", "prompt"])
        prompt = samples.loc[samples["indicator"] == chosen.reference, "prompt"].iloc[0]
        known |= {"seeds": f"{samples['seed'].nunique()} seeds", "prompt": prompt}
    return known


def _disparity(shown: Measured) -> pd.DataFrame:
    """Tables 5 and 10: a row a measure and pair, those with the reference first, then the others, then controls."""
    chosen, table, rows = shown.words["compared"], shown.rows("disparity"), []
    order = [chosen.reference, *(name for name in chosen.names if name != chosen.reference)]
    pairs = sorted(
        combinations(order, 2), key=lambda pair: (not set(pair) <= set(chosen.main), pair[0] != order[0])
    )
    for metric in headline_metrics(shown.config.measure.text_readout):
        own = metric.rows_of(table)
        own = own.assign(pair=own["pair"].astype(str)).set_index("pair")
        measured = own.reindex(columns=["mean", "ci_low", "ci_high", "n", "reason"]).to_dict("index")
        unit = f" ({metric.unit})" if metric.unit else ""
        known = {"symbol": metric.symbol, "latex": metric.latex or metric.symbol, "digits": metric.digits}
        known |= {
            "arrow": metric.arrow,
            "unit_of": unit,
            "up": metric.higher_is_nearer,
            "absent": not measured,
        }
        known |= {"why": (shown.run.meta.get("not_observed") or {}).get(metric.metric, ""), "mean": math.nan}
        known |= {"ci_low": math.nan, "ci_high": math.nan, "n": math.nan, "reason": ""}
        for first, second in pairs:
            main = first == chosen.reference and second in chosen.main
            value = measured.get(pair_name(first, second, chosen.names), {})
            rows.append({**known, **value, "first": first, "second": second, "main": main})
    return pd.DataFrame(rows)


def _similarity(shown: Measured) -> pd.DataFrame:
    """Table 6: co-occurrence similarity of the reference with every other main indicator, persons in, then left out."""
    chosen, table = shown.words["compared"], shown.rows("disparity", "metric == 'cooccurrence'")
    cells = table.set_index(["site", "pair"]).reindex(columns=["mean", "ci_low", "ci_high"])
    measured = cells.to_dict("index")
    main = chosen.main if len(chosen.main) > 1 else chosen.names
    others = (
        [other for other in main if other != chosen.reference] if "table07_chi_square" in shown.tables else []
    )
    rows = [
        {"other": other, "individuals": which, "mean": math.nan, "ci_low": math.nan, "ci_high": math.nan}
        | measured.get((site, pair_name(chosen.reference, other, chosen.names)), {})
        for which, site in OBJECT_SITES.items()
        for other in others
    ]
    return pd.DataFrame(rows)


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
_WITH_INTERVAL = "{% if html %}<span class=beneath>{{ interval(ci_low, ci_high, digits) }}</span>{% endif %}"
DISPARITY = Pivot(
    "({{ first }}, {{ second }})",
    {"{{ raw(latex) }} $\\{{ 'up' if up else 'down' }}arrow${{ unit_of }}": "{{ number(mean, digits) }}"},
    "Representational disparity {{ 'in ' ~ data if unit == 'prompt' }} on {{ model }}: similarity of each pair, mean"
    " over {{ seeds ~ ' of “' ~ prompt ~ '”' if unit == 'seed' else 'prompts' }}.",
    latex="table{{ '10_intra_prompt' if unit == 'seed' else '05_disparity' }}",
    frame=_disparity,
    where="main",
    note="{% if unit == 'seed' %}For this prompt alone. {% endif %}"
    "{% set absent = rows | selectattr('absent') | list %}{% if absent %}"
    "{{ dash }}: not measured in this run ({{ absent | map(attribute='symbol') | unique | join(', ') }})."
    "{% for why, own in absent | selectattr('why') | groupby('why') %} {{ own | map(attribute='symbol') | unique |"
    " join(', ') }} not run: {{ why | replace('`', '') }}.{% endfor %}{% endif %}",
)
PAIRS = Pivot(
    "({{ first }}, {{ second }})",
    {"{{ symbol }} {{ arrow }}{{ unit_of }}": "{{ number(mean, digits) }}" + _WITH_INTERVAL},
    "Similarity of each pair: mean {{ over(unit) }}, beneath it the {{ '%g' | format(level * 100) }} % interval. ↑"
    " higher is nearer, ↓ lower is nearer.",
    title="Representational disparity: the similarity of every pair (the paper’s Table 5)",
    frame=_disparity,
    where="not absent and n == n",
    note="n: {{ rows | map(attribute='n') | select | map('int') | unique | join(', ') }} pairs of images"
    "{{ ', each seed by itself' if unit == 'seed' else ', the mean over seeds first' }}. t: the text embeddings given"
    " to the U-Net ({{ config.measure.text_readout }} readout). z₀: the last latent. Diff. Pix. takes Otsu’s threshold"
    " for each pair anew: compare it between models with care."
    "{% set reasons = rows | map(attribute='reason') | select | unique | list %}{% if reasons %} Where — stands:"
    " {{ listed(reasons) }}.{% endif %}",
)
SIMILARITY = Pivot(
    "({{ reference }}, {{ other }})",
    {
        "{{ data }}{% if individuals == 'left out' %}, individuals left out{% endif %}": "{{ number(mean, 3) }}"
        + _WITH_INTERVAL.replace("digits", "3")
    },
    "Co-occurrence similarity on {{ model }}{% if html %} (the paper’s Table 6): cosine of the object counts of two"
    " images, mean {{ over(unit) }}; beneath, the {{ '%g' | format(level * 100) }} % interval{% endif %}.",
    latex="table06_similarity",
    title="Co-occurrence similarity (Table 6)",
    frame=_similarity,
    note="First column: all objects, as in the paper. Second: individuals (person, woman, man …) left out."
    + _NOT_KNOWN,
)
_WARNED = "{% if html and warnings and defined(p_value) %}<abbr title='{{ warnings }}'>†</abbr>{% endif %}"
CHI_SQUARE = Pivot(
    "{{ name }}",
    {
        "{{ 'All objects' if group == 'all' else group | replace('_', ' ') | capitalize }}": "{{ p(p_value) }}"
        + _WARNED
    },
    "Chi-square test on dependency groups in {{ data }} on {{ model }}{% if html %}: p of pooled detections, † where"
    " the test does not hold{% endif %}.",
    latex="table07_chi_square",
    title="Chi-square tests by dependency group (Tables 7 to 9)",
    frame=_chi_square,
    note="Individuals left out. Detections are counted as independent, which those of one image and of one triplet are"
    " not: see {{ 'table_tests.csv' }} for tests that hold, and the warnings in {{ 'table07_chi_square.csv' }}."
    "{% if html %} Each cell holds one word against one (or three): which objects a word’s map covers depends on the"
    " word, also where pictures are the same. None is a claim about the sides.{% endif %}" + _NOT_KNOWN,
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
    title="Presence of the dependency groups (Table 11)",
    where="(individuals == 'included') == (indicator == 'all') and group in @groups",
    note="Of single indicators, individuals are left out." + _NOT_KNOWN,
)
AMOUNTS = Pivot(
    _BY_INDICATOR,
    {GROUP_HEAD: "{{ number(amount, 0) }}"},
    "Amount of individual objects in each dependency group and nouns in prompts on {{ model }}.",
    latex="table12_amounts",
    title="Amounts of distinct objects (Table 12)",
    note=_NOT_KNOWN,
)
INTERSECTION = Pivot(
    "Over {{ over_group | replace('_', ' ') }}",
    {GROUP_HEAD: "{{ number(percent, 2) }}"},
    "Intersection ratio of individual objects among dependency groups and nouns in the prompts of {{ data }} on"
    " {{ model }}, in percent.",
    latex="table13_intersection",
    title="Intersections of the dependency groups (Table 13)",
    note=_NOT_KNOWN,
)
_KNOWN = {
    "{{ indicator }}": "{{ number(value, 3) }}<span class=beneath>{{ interval(low, high, 3) or reason }}</span>"
}
DETECTOR = Pivot(
    "{{ truth }}: {{ quantity }}",
    _KNOWN,
    "What is known of the detector, over all objects; beneath, the {{ '%g' | format(level * 100) }} % interval"
    " {{ over(unit) }}.",
    title="The detector against what is in the images",
    where="object == 'all' and quantity in @of_detector and indicator in @shown_of",
    note="Recall: detected, of what is there. Precision: there, of what is detected. A detector that sees less on one"
    " indicator’s images makes a difference of its own.",
)
PEOPLE = replace(
    DETECTOR,
    rows="{{ annotator }}: {{ quantity }}",
    title="The detector against people",
    note=DETECTOR.note + " Kappa: agreement of two people beyond chance.",
)
