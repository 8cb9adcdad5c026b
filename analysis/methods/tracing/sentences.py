"""The sentences of the report on a trace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from analysis.methods.tracing.figures import patch_name
from analysis.methods.tracing.logits import NETWORKS, explained_logit, logit_settings
from analysis.methods.tracing.outcomes import VERDICT, outcome_words
from analysis.methods.tracing.spans import effect, joint_share, with_ends, with_span
from analysis.methods.tracing.stored import TraceSection
from analysis.methods.tracing.together import DEPENDENT, ESTIMANDS, REDUNDANT, SERIES, interplay
from analysis.report.format import counted, listed, number, p_value
from analysis.study import indicators
from analysis.tables.similarities.similarities import shares_noise
from probes.config.schema import Config
from probes.stages.trace.variants import POOLED

RANKED = 3  # places that a sentence names where shares are undefined

_EXPLAINED = {
    "verdict": "the verdict: the log-odds, by what the checker sees in an image and the prompt does not name, that it"
    " was drawn from what is planted for masculine words and not from what is planted for feminine ones",
    "gap": "how much nearer an image is to that of {first} than to that of {second} prompts, of the same noise",
    "presence": "whether the checker sees the thing in an image",
}


def opening(traced: TraceSection, config: Config) -> str:
    """The first sentence: prompts, places and outcome that were traced."""
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
    """The sentences on both words together."""
    total, name = traced.shown("trace_total").iloc[0], outcome_words(traced.outcome)
    first, second = traced.both.split("-")
    alpha = config.measure.alpha
    if np.isnan(total["total"]):
        return [
            f"The {name} has no value in any image that was drawn (the column `reason` of `trace_outcomes` says why). "
            "Another outcome is named in `measure: {outcomes: [ssim]}` and measured with `--stage measure`."
        ]
    if total["n_prompts"] == 1:
        return [
            f"An illustration: one {config.unit} was traced, in which the {name} of images generated from {first} and"
            f" {second} prompts differs by {number(total['total'], 2)}. No interval can be given, and no shares: trace"
            f" more {config.unit}s."
        ]
    text = (
        f"Total effect: between images generated from {first} and {second} prompts the {name} differs by "
        f"{with_ends(total, 'total', 2)} on average ({p_value(total['p_value'])})."
    )
    shares = traced.shown("trace_shares")
    sites = shares[(shares["kind"] == "site") & shares["effect"].notna()] if len(shares) else shares
    if not total["told_from_0"]:
        text += " That cannot be told from 0, so there are no shares of it to state."
        return [text, *_ranked(sites, name, alpha), *_opposing(sites, name, alpha), *together(traced, alpha)]
    found = [text]
    if len(sites):
        found.append(
            f"{_largest(sites, alpha)}. The intervals hold for all places at once, and so for the largest."
            f" {beyond(sites, alpha)}."
        )
        found += [_of_pooled(row) for _, row in sites[sites["site"] == POOLED].iterrows()]
    found += [*_opposing(sites, name, alpha), *together(traced, alpha)]
    return found


def _largest(sites: pd.DataFrame, alpha: float) -> str:
    """Say which place has the largest share; where none alone is enough, which is needed most."""
    best = sites.loc[sites["sufficiency"].idxmax()]
    share = f"{joint_share(best, 'sufficiency')}{why_outside(best, 'sufficiency')}"
    if not (sites["p_adjusted"] < alpha).any() and sites["necessity"].max() > best["sufficiency"]:
        most = sites.loc[sites["necessity"].idxmax()]
        return (
            f"No place alone is told to be enough for any of it: the largest share is {share}, that of"
            f" {patch_name(best)}; the one that is needed most is {patch_name(most)}, for"
            f" {joint_share(most, 'necessity')}{why_outside(most, 'necessity')}"
        )
    text = f"The largest share is that of {patch_name(best)}: {share}"
    if pd.notna(best["necessity"]):
        text += f"; it is needed for {joint_share(best, 'necessity')}{why_outside(best, 'necessity')}"
    return text


def _of_pooled(row: pd.Series) -> str:
    """Say what the pooled text does: a word map shows none of it."""
    text = f"The pooled text, which has no place in a word map, has the share {joint_share(row, 'sufficiency')} alone"
    if pd.notna(row["necessity"]):
        text += f" and is needed for {joint_share(row, 'necessity')}"
    return f"{text}."


def beyond(sites: pd.DataFrame, alpha: float) -> str:
    """Return how many places are beyond the floor."""
    count = int((sites["p_adjusted"] < alpha).sum())
    held = "what a word of the same meaning does" if sites["floor_donor"].iloc[0] else "0"
    return (
        f"{count} of {len(sites)} places {'is' if count == 1 else 'are'} beyond {held} "
        f"(p < {alpha:g}, adjusted over all)"
    )


def _ranked(sites: pd.DataFrame, name: str, alpha: float) -> list[str]:
    """Return the places by what each moves the outcome, where shares are undefined."""
    if sites.empty:
        return []
    if not (sites["p_adjusted"] < alpha).any():
        return [f"{beyond(sites, alpha)}."]
    order = sites.loc[sites["effect"].abs().sort_values(ascending=False, kind="stable").index]
    top = [f"{patch_name(row)} {effect(row)}" for _, row in order.head(RANKED).iterrows()]
    return [
        f"By what each place alone moves the {name}, the first {len(top)} of {len(sites)} are {listed(top)} "
        f"(mean over prompts, intervals for all places at once). {beyond(sites, alpha)}."
    ]


def _opposing(sites: pd.DataFrame, name: str, alpha: float) -> list[str]:
    """Say that places push against each other, where some on both sides are told from the floor."""
    told = sites[sites["p_adjusted"] < alpha] if len(sites) else sites
    up, down = (told[told["effect_low"] > 0], told[told["effect_high"] < 0]) if len(told) else (told, told)
    if up.empty or down.empty:
        return []
    most, least = up.loc[up["effect"].idxmax()], down.loc[down["effect"].idxmin()]
    return [
        f"Places oppose each other: {patch_name(most)} moves the {name} by {effect(most)}, {patch_name(least)} by "
        f"{effect(least)}. The total effect is what is left of both: a small one does not say that nothing is "
        "decided, and a share is not how much of the decision a place makes."
    ]


def why_outside(row: pd.Series, name: str) -> str:
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


_INTERPLAY = {
    REDUNDANT: "places are redundant, one can stand for another, so that one that is enough may not be needed",
    DEPENDENT: "places need one another, so that one alone shows too little",
    SERIES: "places act in series, one passes on what another wrote, so that more than one may be enough and needed",
}


def together(traced: TraceSection, alpha: float) -> list[str]:
    """Say what the shares of all places add up to, and that places depend on one another, where that is told."""
    rows, shares = traced.shown("trace_together"), traced.shown("trace_shares")
    places = int((shares["kind"] == "site").sum()) if len(shares) else 0
    sentences = []
    for row in rows.to_dict("records"):
        number_of = row["n_places"]
        whole = (
            f"all {number_of} places"
            if number_of >= places
            else f"the {number_of} ways of the text into the image"
        )
        sums = _of_estimands(row, "sum", " to")
        text = f"The shares of {whole} add up in {' and in '.join(sums)}." if sums else ""
        if kind := interplay(row, alpha):
            apart = listed(_of_estimands(row, "interaction", " by", signed=True))
            text += f" Patched all at once they differ from these sums ({apart}): {_INTERPLAY[kind]}."
        sentences += [text.strip()] if text else []
    return sentences


def _of_estimands(row: Mapping[str, Any], what: str, word: str, signed: bool = False) -> list[str]:
    """A number of sufficiency and of necessity with its interval, in words."""
    return [
        f"{estimand}{word} {number(row[f'{estimand}_{what}'], 2, signed=signed)}{with_span(row, f'{estimand}_{what}')}"
        for estimand in ESTIMANDS
        if pd.notna(row[f"{estimand}_{what}"])
    ]
