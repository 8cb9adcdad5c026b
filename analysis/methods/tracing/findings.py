"""Findings of a trace for sentences about it: the numbers that they state, each from one row of its tables."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from analysis.methods.tracing.cuts import UNTESTED
from analysis.methods.tracing.effects import JOIN, NECESSITY, SUFFICIENCY, WHAT
from analysis.methods.tracing.logits import CLASSIFIER, CLIP, NETWORKS, compared_texts
from analysis.methods.tracing.outcomes import outcome_words
from analysis.methods.tracing.shares import BEYOND, INTERACTION
from analysis.report.format import MINUS, number
from analysis.study import indicators
from analysis.tables.similarities.similarities import shares_noise
from analysis.tables.spec import Measured
from hooks.architectures.addresses import readable_name
from probes.config.measurement import Trace
from probes.config.schema import Config

RANKED = 3  # places that a sentence names where no share can be stated
ENDS = {"share": ("low", "high"), "total": ("low", "high"), "effect": ("effect_low", "effect_high")}
REDUNDANT, DEPENDENT, SERIES = "redundant", "dependent", "series"
INTERPLAY = {
    "": "",
    REDUNDANT: "Places are redundant: one can stand for another, so that one that is enough may not be needed",
    DEPENDENT: "Places need one another, so that one alone shows too little",
    SERIES: "Places act in series: one passes on what another wrote, so that more than one may be enough and needed",
}
_CAUTION = "(its reading, with whatever errors it has)"
EXPLAINED = {
    "verdict": "the verdict: the log-odds, by what the checker sees in an image and the prompt does not name, that it"
    " was drawn from what is planted for masculine words and not from what is planted for feminine ones",
    "gap": "how much nearer an image is to that of {first} than to that of {second} prompts, of the same noise",
    "presence": "whether the checker sees the thing in an image",
    CLIP: f"the log-odds by CLIP that an image goes with “{{0}}” and not with “{{1}}” {_CAUTION}",
    CLASSIFIER: f"the log-odds by the classifier of its class {{0}} against its class {{1}} {_CAUTION}",
}


def patch_name(site: object, positions: object) -> str:
    """The name of a patched place, as a label: *mid · attn 0 · cross*, *all 3 together*."""
    sites = str(site).split(JOIN)
    where = readable_name(sites[0]) if len(sites) == 1 else f"all {len(sites)} together"
    return where if not isinstance(positions, str) else f"{where}, {positions.replace('+', ', ')}"


def marked(rows: pd.DataFrame, alpha: float) -> pd.DataFrame:
    """Rows of sufficiency, necessity and floor with ``place``, and whether each is more than the floor, or than 0."""
    rows = rows[rows["kind"] != INTERACTION]
    names = [*map(patch_name, rows["site"], rows["positions"])]
    rows = rows.assign(place=pd.Series(names, rows.index, object))
    beyond = rows[rows["estimand"] == BEYOND].assign(estimand=SUFFICIENCY)
    key = [*WHAT, "estimand"]
    joined = rows.merge(beyond[[*key, "p_adjusted"]], "left", key, suffixes=("", "_beyond"))
    joined["significant"] = joined["p_adjusted_beyond"].fillna(joined["p_adjusted"]) < alpha
    return joined[joined["estimand"] != BEYOND].reset_index(drop=True)


def findings(shown: Measured) -> dict[str, Any]:
    """What the templates know: values of the first outcome, of both words together, and functions that write them."""
    config, alpha = shown.config, shown.config.measure.alpha
    totals = shown.rows("trace_total")
    outcome, both = str(totals["outcome"].iloc[0]), str(totals["donor"].iloc[0])
    rows = shown.rows("trace_shares")
    rows = rows[(rows["outcome"] == outcome) & (rows["donor"] == both)]
    first, second = both.split("-")
    words = {member.name: f"“{member.word}”" for member in indicators(config)}
    interactions = rows[rows["kind"] == INTERACTION].set_index("estimand").to_dict("index")
    sites = marked(rows[rows["kind"] == "site"], alpha)
    sufficient, needed = (sites[sites["estimand"] == name] for name in (SUFFICIENCY, NECESSITY))
    significant = sufficient[sufficient["significant"]].sort_values("effect", kind="stable")
    by_size = sufficient.loc[sufficient["effect"].abs().sort_values(ascending=False, kind="stable").index]
    ranked = by_size.head(RANKED).to_dict("records")
    opposed = len(significant) and significant["effect_high"].iloc[0] < 0 < significant["effect_low"].iloc[-1]
    return {
        **{"shown": outcome, "both": both, "first": first, "second": second},
        **{"outcome": outcome_words(outcome), "explained": explained(outcome, first, second, config)},
        "others": [outcome_words(name) for name in totals["outcome"].unique() if name != outcome],
        "neutral": words[config.reference],
        "donors": [words[first], words[second]],
        "controls": [words[name] for name in totals["donor"][totals["control"].astype(bool)].unique()],
        "seeds": min((config.trace or Trace()).seeds, len(config.seeds)),
        "shared_noise": shares_noise(config),
        "total": totals.iloc[0].to_dict(),
        "any_effect": totals["p_value"].iloc[0] < alpha,
        **{"n_places": len(sufficient), "n_significant": len(significant)},
        **{"largest": _largest(sufficient), "most_needed": _largest(needed)},
        "ranked": ranked,
        "opposing": significant.iloc[[0, -1]].to_dict("records") if opposed else [],
        "interactions": interactions,
        "interplay": INTERPLAY[interplay(interactions, alpha)],
        **{"spanned": spanned, "place": patch_name, "untested": UNTESTED},
    }


def _largest(rows: pd.DataFrame) -> dict[str, Any] | None:
    """The row with the largest share; None where there is none."""
    return rows.loc[rows["share"].idxmax()].to_dict() if rows["share"].notna().any() else None


def interplay(interactions: Mapping[str, Mapping[str, Any]], alpha: float) -> str:
    """How places act together, by interactions at a level; empty where nothing is significant.

    Redundant places do less at once than the sum of what each is enough for, and are needed more at once than each is;
    of places that need each other it is the other way round. Places in series do less at once than the sum, both ways.
    Signs are those of the total effect; without one nothing is said.
    """
    above = {
        name: row["share"] > 0
        for name, row in interactions.items()
        if pd.notna(row["share"]) and row["p_adjusted"] < alpha
    }
    if above == {SUFFICIENCY: False, NECESSITY: False}:
        return SERIES
    found = {more == (name == SUFFICIENCY) for name, more in above.items()}
    return "" if len(found) != 1 else DEPENDENT if found.pop() else REDUNDANT


def explained(outcome: str, first: str, second: str, config: Config) -> str:
    """The outcome in running text; a logit is a network's reading, which is said."""
    between = {CLIP: compared_texts(config), CLASSIFIER: config.measure.logits.classes}.get(outcome, ())
    kind = outcome if outcome in NETWORKS else outcome_words(outcome).split(" ")[0]
    return EXPLAINED[kind].format(*between, first=first, second=second)


def spanned(row: Mapping[str, Any], value: str, signed: bool = False) -> str:
    """A number with its interval, of which an end may be infinite, such as *0.50 [−0.10, ∞)*."""
    low, high = (row[name] for name in ENDS[value])
    text = number(row[value], 2, signed=signed)
    if pd.isna(low) or pd.isna(high):
        return text
    left = f"({MINUS}∞" if math.isinf(low) else f"[{number(low, 2)}"
    return f"{text} {left}, {'∞)' if math.isinf(high) else f'{number(high, 2)}]'}"
