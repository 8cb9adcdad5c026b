"""The report's section on a trace: what of the tables it shows, and in which words."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pandas as pd

from analysis.methods.tracing.figures import (
    draw_curve,
    draw_effects,
    draw_heads,
    draw_shapley,
    draw_shares,
    draw_windows,
    patch_name,
)
from analysis.methods.tracing.latex import documents
from analysis.methods.tracing.logits import NETWORKS, explained_logit, logit_settings
from analysis.methods.tracing.outcomes import VERDICT, outcome_words
from analysis.methods.tracing.steps import UNTESTED
from analysis.methods.tracing.strip import StripRow, captions, draw_strip, lead_examples, strip_of
from analysis.methods.tracing.together import PAIR, SUM
from analysis.report.figures.style import Drawn
from analysis.report.format import (
    MINUS,
    counted,
    fixed,
    listed,
    number,
    p_value,
    with_interval,
)
from analysis.report.method import Example, Lead, ReportedMethod, ReportSection
from analysis.study import indicators
from analysis.tables.registry import read
from analysis.tables.similarities.families import shares_noise
from probes.config.schema import Config

if TYPE_CHECKING:
    from probes.runs.store import Run

NAMES = (
    "trace_total",
    "trace_shares",
    "trace_windows",
    "trace_heads",
    "trace_together",
    "trace_curve",
    "trace_shapley",
    "trace_cuts",
)
FIGURES = (
    "trace-shares",
    "trace-effects",
    "trace-windows",
    "trace-curve",
    "trace-heads",
    "trace-shapley",
    "trace-strip",
)
RANKED = 3  # places that a sentence names where shares are undefined
LEVEL = 0.05  # below which an adjusted p is called beyond the floor


@dataclass(frozen=True)
class TraceSection:
    """The tables of a trace, by name, and the images of its strip.

    Attributes
    ----------
    tables : mapping of str to DataFrame
        Those that the run holds.
    seeds : int
        Of each prompt.
    sites : int
        Places that were swept.
    strip : sequence of StripRow
    columns : sequence of str
        Heads of the strip.
    lead_examples : sequence of Example
        Triplets with the total effect of each.
    """

    tables: Mapping[str, pd.DataFrame]
    seeds: int
    strip: Sequence[StripRow] = ()
    columns: Sequence[str] = ()
    lead_examples: Sequence[Example] = ()

    @property
    def outcome(self) -> str:
        """The outcome that is shown: the first."""
        return str(self.tables["trace_total"]["outcome"].iloc[0])

    @property
    def both(self) -> str:
        """Name of both words together."""
        return str(self.tables["trace_total"]["donor"].iloc[0])

    def shown(self, name: str, every_donor: bool = False) -> pd.DataFrame:
        """Rows of a table of the outcome that is shown, of both words together or of every donor."""
        if name not in self.tables:
            return pd.DataFrame()
        table = self.tables[name]
        table = table[table["outcome"] == self.outcome]
        if not every_donor and "donor" in table:
            table = table[table["donor"] == self.both]
        return table.reset_index(drop=True)


def read_trace(run: Run) -> TraceSection | None:
    """Read the tables of the section and the images of its strip; None for a run without a trace."""
    there = set(run.tables())
    if "trace_total" not in there:
        return None
    tables = {name: read(run, name) for name in NAMES if name in there}
    outcomes = read(run, "trace_outcomes")
    section = TraceSection(tables, int(outcomes["seed"].nunique()))
    if not run.parts("traced"):  # the tables may be all that is left of it
        return section
    outcomes = outcomes[outcomes["outcome"] == section.outcome]
    words = section.both.split("-")
    strip, columns = strip_of(run, section.shown("trace_shares"), outcomes, words)
    return replace(section, strip=strip, columns=columns, lead_examples=lead_examples(run, outcomes, words))


def draw(section: TraceSection, config: Config) -> dict[str, Drawn]:
    """Draw the figures of the outcome that is shown, by name."""
    level, unit, total = config.measure.level, config.unit, section.shown("trace_total").iloc[0]
    drawn = [
        draw_shares(section.shown("trace_shares"), level, unit)
        or draw_effects(section.shown("trace_shares"), level, outcome_words(section.outcome), unit),
        draw_windows(section.shown("trace_windows"), unit),
        draw_curve(section.shown("trace_curve", every_donor=True), total, level, unit),
        draw_heads(section.shown("trace_heads"), level, unit),
        draw_shapley(section.shown("trace_shapley"), level, unit),
        draw_strip(section.strip, section.columns, outcome_words(section.outcome)),
    ]
    return {figure.name: figure for figure in drawn if figure is not None}


def draw_trace(run: Run) -> dict[str, Drawn]:
    """Draw the figures of a run's trace, by name; none of a run without one.

    Parameters
    ----------
    run : probes.runs.store.Run
        A measured run.
    """
    section = read_trace(run)
    return draw(section, run.config) if section else {}


def section(traced: TraceSection, config: Config) -> dict[str, Any]:
    """Lay the section out.

    Returns
    -------
    dict
        ``sentences``; ``totals``, ``rows`` (of every donor, with the name of what was patched) and ``cuts``: rows of
        tables; ``outcome`` in words; ``others``: further outcomes that were measured.
    """
    totals, shares = (
        traced.shown("trace_total", every_donor=True),
        traced.shown("trace_shares", every_donor=True),
    )
    every = traced.tables["trace_total"]["outcome"]
    return {
        "figures": FIGURES,
        "opening": _opening(traced, config),
        "sentences": _sentences(traced, config),
        "totals": totals.to_dict("records"),
        "rows": [
            {**row, "patch": patch_name(pd.Series(row)), "ends": _all_ends(row)}
            for row in shares.to_dict("records")
        ],
        "cuts": [
            {**row, "where": patch_name(pd.Series({**row, "kind": "cut"}))}
            for row in traced.shown("trace_cuts", every_donor=True).to_dict("records")
        ],
        "untested": UNTESTED,
        "outcome": outcome_words(traced.outcome),
        "others": [outcome_words(name) for name in dict.fromkeys(every) if name != traced.outcome],
    }


_EXPLAINED = {
    "verdict": "the verdict: the log-odds, by what the checker sees in an image and the prompt does not name, that it"
    " was drawn from what is planted for masculine words and not from what is planted for feminine ones",
    "gap": "how much nearer an image is to that of {first} than to that of {second} prompts, of the same noise",
    "presence": "whether the checker sees the thing in an image",
}


def _opening(traced: TraceSection, config: Config) -> str:
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


def _sentences(traced: TraceSection, config: Config) -> list[str]:
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
    question = f"Where in the model do {first} and {second} prompts take effect?"
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
    return Lead(question, answer, FIGURES[:2], traced.lead_examples, *captions(name, [first, second]))


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


def _all_ends(row: Mapping[str, Any]) -> dict[str, str]:
    """The intervals of a row of shares, as texts."""
    names = ("sufficiency_joint", "necessity_joint", "floor", "beyond", "effect")
    return {name: span(row[f"{name}_low"], row[f"{name}_high"]) for name in names}


def _with_ends(row: pd.Series, name: str, digits: int) -> str:
    """A number of a table with its interval, where it has one."""
    return with_interval(row[name], row[f"{name}_low"], row[f"{name}_high"], digits)


REPORTED = ReportedMethod(
    section=ReportSection(
        "analysis.methods.tracing/section.html.j2",
        read=read_trace,
        draw=draw,
        context=section,
        anchor="trace",
        title="Trace",
        lead=lead,
    ),
    documents=documents,
)
