"""The sentences of the report on a trace."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from analysis.methods.tracing.figures import patch_name
from analysis.methods.tracing.logits import NETWORKS, explained_logit, logit_settings
from analysis.methods.tracing.outcomes import VERDICT, outcome_words
from analysis.methods.tracing.reading import TraceSection
from analysis.methods.tracing.together import PAIR, SUM
from analysis.report.format import DASH, MINUS, counted, fixed, interval, listed, number, p_value
from analysis.report.method import Lead
from analysis.study import indicators
from analysis.tables.similarities.families import shares_noise
from probes.config.schema import Config

RANKED = 3  # places that a sentence names where shares are undefined
LEVEL = 0.05  # below which an adjusted p is called beyond the floor

_EXPLAINED = {
    "verdict": "the verdict: the log-odds, by what the checker sees in an image and the prompt does not name, that it"
    " was drawn from what is planted for masculine words and not from what is planted for feminine ones",
    "gap": "how much nearer an image is to that of {first} than to that of {second} prompts, of the same noise",
    "presence": "whether the checker sees the thing in an image",
}


def opening(traced: TraceSection, config: Config) -> str:
    """Return what was traced."""
    total, shares = traced.shown("trace_total").iloc[0], traced.shown("trace_shares")
    first, second = traced.both.split("-")
    words = {member.name: f"“{member.word}”" for member in indicators(config)}
    name = outcome_words(traced.outcome)
    kind = name if name == VERDICT else name.split(" ")[0]
    if traced.outcome in NETWORKS:
        explained = explained_logit(traced.outcome, logit_settings(config))
    else:
        explained = _EXPLAINED[kind].format(first=first, second=second)
    controls = [words[row] for row in traced.tables["trace_total"].query("control")["donor"].unique()]
    places = int((shares["kind"] == "site").sum()) if len(shares) else 0
    text = (
        f"Traced: {counted(int(total['n_prompts']), config.unit)}"
        + (f" with {counted(traced.seeds, 'seed')} each" if config.unit == "prompt" else "")
        + f", {counted(places, 'place')} one by one. Images of {words[config.reference]} were drawn again, each with"
        f" activations of {words[first]} or {words[second]} of the same noise in place of their own"
        + (
            f", and of {listed(controls)}, of the same meaning as {words[config.reference]}"
            if controls
            else ""
        )
        + f". What is explained is {explained}."
    )
    if shares_noise(config):
        text += (
            " All prompts of a seed share their noise here: the intervals are for prompts with this noise."
        )
    return text


def sentences(traced: TraceSection, config: Config) -> list[str]:
    """Return what the trace says of both words together."""
    total, name = traced.shown("trace_total").iloc[0], outcome_words(traced.outcome)
    first, second = traced.both.split("-")
    text = (
        f"Total effect: between images generated from {first} and {second} prompts the {name} differs by "
        f"{_with_ends(total, 'total', 2)} on average ({p_value(total['p_value'])})."
    )
    shares = traced.shown("trace_shares")
    sites = shares[(shares["kind"] == "site") & shares["effect"].notna()] if len(shares) else shares
    if not total["told_from_0"]:
        text += " That cannot be told from 0, so there are no shares of it to state."
        return [text, *_ranked(sites, name), *_opposing(sites, name), *_together(traced)]
    sentences = [text]
    if len(sites):
        best = sites.loc[sites["sufficiency"].idxmax()]
        text = (
            f"The largest share is that of {patch_name(best)}: {_joint(best, 'sufficiency')}"
            f"{_why_outside(best, 'sufficiency')}"
        )
        if pd.notna(best["necessity"]):
            text += f"; it is needed for {_joint(best, 'necessity')}{_why_outside(best, 'necessity')}"
        sentences.append(
            f"{text}. The intervals hold for all places at once, and so for the largest. {_beyond(sites)}."
        )
    sentences += [*_opposing(sites, name), *_together(traced)]
    if pd.notna(total["half_step"]):
        sentences.append(
            f"Half of the effect is decided before call {_with_ends(total, 'half_step', 1)} of the U-Net."
        )
    return sentences


def lead(traced: TraceSection, config: Config) -> Lead:
    """Return the first screen: the total effect, and the place with the largest share of it."""
    total, name = traced.shown("trace_total").iloc[0], outcome_words(traced.outcome)
    first, second = traced.both.split("-")
    question = f"Where is it decided whether an image is one of {first} or of {second} prompts?"
    shares = traced.shown("trace_shares")
    sites = shares[(shares["kind"] == "site") & shares["sufficiency"].notna()] if len(shares) else shares
    if not total["told_from_0"]:
        answer = (
            f"The total effect of the words on the {name}, {_with_ends(total, 'total', 2)}, cannot be told from 0: no "
            "shares of it can be stated."
        )
    elif len(sites):
        best, beyond = sites.loc[sites["sufficiency"].idxmax()], int((sites["p_adjusted"] < LEVEL).sum())
        held = "do more than a synonym" if sites["floor_donor"].iloc[0] else "can be told from 0"
        answer = (
            f"The largest share of the total effect is that of {patch_name(best)}: {_joint(best, 'sufficiency')}; "
            f"{beyond} of {len(sites)} places {held}."
        )
    else:
        answer = f"The total effect of the words on the {name} is {_with_ends(total, 'total', 2)}."
    return Lead(question, answer, ("trace-shares",))


def _beyond(sites: pd.DataFrame) -> str:
    """Return how many places are beyond the floor."""
    beyond = int((sites["p_adjusted"] < LEVEL).sum())
    held = "what a word of the same meaning does" if sites["floor_donor"].iloc[0] else "0"
    return (
        f"{beyond} of {len(sites)} places {'is' if beyond == 1 else 'are'} beyond {held} "
        f"(p < {LEVEL}, adjusted over all)"
    )


def _ranked(sites: pd.DataFrame, name: str) -> list[str]:
    """Return the places by what each moves the outcome, where shares are undefined."""
    if sites.empty:
        return []
    if not (sites["p_adjusted"] < LEVEL).any():
        return [f"{_beyond(sites)}."]
    order = sites.loc[sites["effect"].abs().sort_values(ascending=False, kind="stable").index]
    top = [f"{patch_name(row)} {_effect(row)}" for _, row in order.head(RANKED).iterrows()]
    return [
        f"By what each place alone moves the {name}, the first {len(top)} of {len(sites)} are {listed(top)} "
        f"(mean over prompts, intervals for all places at once). {_beyond(sites)}."
    ]


def _opposing(sites: pd.DataFrame, name: str) -> list[str]:
    """Say that places push against each other, where some on both sides are told from the floor."""
    told = sites[sites["p_adjusted"] < LEVEL] if len(sites) else sites
    up, down = (
        (told[(told["effect_low"] > 0)], told[(told["effect_high"] < 0)]) if len(told) else (told, told)
    )
    if up.empty or down.empty:
        return []
    most, least = up.loc[up["effect"].idxmax()], down.loc[down["effect"].idxmin()]
    return [
        f"Places oppose each other: {patch_name(most)} moves the {name} by {_effect(most)}, {patch_name(least)} by "
        f"{_effect(least)}. The total effect is what is left of both: a small one does not say that nothing is "
        "decided, and a share is not how much of the decision a place makes."
    ]


def _together(traced: TraceSection) -> list[str]:
    """Say what the shares of all places add up to, and which places are redundant or need each other."""
    rows = traced.shown("trace_together")
    if rows.empty:
        return []
    sentences = []
    for row in rows[rows["kind"] == SUM].to_dict("records"):
        sums = [
            f"{estimand} to {number(row[f'{estimand}_sum'], 2)}{_span(row, f'{estimand}_sum')}"
            for estimand in ("sufficiency", "necessity")
            if pd.notna(row[f"{estimand}_sum"])
        ]
        text = (
            f"The shares of all {row['n_places']} places add up in {' and in '.join(sums)}." if sums else ""
        )
        if kind := interplay(row):
            text += (
                f" Patched all at once they differ from these sums ({_beyond_sums(row)}): {_INTERPLAY[kind]}."
            )
            if not (rows["kind"] == PAIR).any():
                text += " Pairs of the first places, patched together (`trace.pairs`), show which."
        if text:
            sentences.append(text.strip())
    for row in rows[rows["kind"] == PAIR].to_dict("records"):
        if kind := interplay(row):
            first, second = (patch_name(pd.Series({"site": site})) for site in row["site"].split(", "))
            beyond = _beyond_sums(row)
            sentences.append(
                f"{first} and {second} {_PAIRS[kind]} (both at once less the sum of each: {beyond})."
            )
    return sentences


def _beyond_sums(row: Mapping[str, Any]) -> str:
    """What places do at once beyond the sum of what each does alone."""
    parts = [
        f"{estimand} by {number(row[f'{estimand}_interaction'], 2, signed=True)}{_span(row, f'{estimand}_interaction')}"
        for estimand in ("sufficiency", "necessity")
        if pd.notna(row[f"{estimand}_interaction"])
    ]
    return listed(parts)


REDUNDANT, DEPENDENT = "redundant", "dependent"
_INTERPLAY = {
    REDUNDANT: "places are redundant, one can stand for another, so that one that is enough may not be needed",
    DEPENDENT: "places need one another, so that one alone shows too little",
}
_PAIRS = {REDUNDANT: "are redundant: either can stand for the other", DEPENDENT: "need each other"}


def interplay(row: Mapping[str, Any]) -> str:
    """Return whether places are redundant or need each other, by a row of ``trace_together``; empty where neither.

    Redundant places do less at once than the sum of what each is enough for, and are needed more at once than each is;
    of places that need each other it is the other way round. Signs are those of the total effect; without one nothing
    is said.
    """
    found = []
    for estimand, turn in (("sufficiency", 1.0), ("necessity", -1.0)):
        value, p = row[f"{estimand}_interaction"], row[f"p_{estimand}_adjusted"]
        if pd.notna(value) and p < LEVEL:
            found.append(DEPENDENT if turn * value > 0 else REDUNDANT)
    return found[0] if found and len(set(found)) == 1 else ""


def _why_outside(row: pd.Series, name: str) -> str:
    """Say why a share lies outside of 0 to 1; empty where it does not."""
    share, low, high = (row[f"{name}{end}"] for end in ("", "_joint_low", "_joint_high"))
    if share > 1:
        told = low > 1
        return (
            " (more than the word itself does: elsewhere some of it is taken back)"
            if told
            else " (not told from 1)"
        )
    if share < 0:
        return " (against the word)" if high < 0 else " (not told from 0)"
    return ""


def _effect(row: pd.Series) -> str:
    """What a place moves the outcome by, signed, with the interval of all places."""
    return f"{number(row['effect'], 2, signed=True)}{_span(row, 'effect')}"


def _joint(row: pd.Series, name: str) -> str:
    """A share with the interval of all places."""
    return f"{fixed(row[name], 2).replace('-', MINUS)}{_span(row, f'{name}_joint')}"


def _span(row: Mapping[str, Any], name: str) -> str:
    """The interval of a number, with a space before it; an end may be infinite."""
    text = span(row[f"{name}_low"], row[f"{name}_high"])
    return f" {text}" if text else ""


def span(low: float, high: float) -> str:
    """An interval of shares; an end may be infinite. Empty where there is none.

    Examples
    --------
    >>> span(-0.1, float("inf")), span(float("nan"), 1.0)
    ('[−0.10, ∞)', '')
    """
    if pd.isna(low) or pd.isna(high):
        return ""
    left = f"({MINUS}∞" if math.isinf(low) else f"[{number(low, 2)}"
    return f"{left}, {'∞)' if math.isinf(high) else f'{number(high, 2)}]'}"


def all_ends(row: Mapping[str, Any]) -> dict[str, str]:
    """Return the intervals of a row of shares, as texts."""
    names = ("sufficiency_joint", "necessity_joint", "floor", "beyond", "effect")
    return {name: span(row[f"{name}_low"], row[f"{name}_high"]) for name in names}


def _with_ends(row: pd.Series, name: str, digits: int) -> str:
    """A number of a table with its interval, where it has one."""
    text = number(row[name], digits)
    ends = interval(row[f"{name}_low"], row[f"{name}_high"], digits)
    return text if ends == DASH else f"{text} {ends}"
