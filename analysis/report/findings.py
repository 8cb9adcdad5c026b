"""Findings of every contrast: one primary measure, the others below it, each with its licence.

The same function serves the report, the calibration page (what would the report claim of the null world?) and
``tables/findings``, so that they cannot say different things.

One measure is primary (``measure.primary``) and is tested first, at the level of the run. The others look at the same
images, or at the text that made them: over ways to give out the words of the null world one of four unadjusted measures
is beyond words far oftener than one is. Their p against words is therefore adjusted by Holm among themselves and never
falls below the primary's (`analysis.stats.multiplicity.gatekept`): all four together claim falsely at the level that
one claims at, and the primary measure loses no power to the company it keeps. Contrasts are several questions: where
there are more than one, these p-values are multiplied by their number (Bonferroni).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
import pandas as pd

from analysis.metrics.registry import Metric, headline_metrics
from analysis.report.finding import Finding, SpecificationRange
from analysis.report.format import counted, listed, number, p_value
from analysis.report.verdict import ContrastWords
from analysis.report.wording import finding
from analysis.stats.multiplicity import gatekept
from analysis.study import Member, contrasts, indicators
from analysis.tables.registry import TABLES
from analysis.tables.similarities.word_gap import words_of
from analysis.tables.similarities.side_shares import side_shares
from probes.config.schema import Config

COLUMNS = TABLES["findings"].columns


@dataclass(frozen=True)
class Summary:
    """The findings of one contrast, the primary measure first, and the sentences above them.

    ``answer``: of at most thirty words; ``opening``: the whole claim with its words; ``others``: on the other measures;
    ``correlations``: of the gaps of measures that view the same images, by their symbols.
    """

    contrast: tuple[str, str]
    words: ContrastWords
    answer: str
    opening: str
    others: str
    findings: list[Finding]
    correlations: pd.DataFrame


def summaries(
    gap: pd.DataFrame,
    specifications: pd.DataFrame,
    agreement: pd.DataFrame,
    config: Config,
    disparity: pd.DataFrame | None = None,
) -> list[Summary]:
    """Word the findings of every contrast. Without `disparity` there are no shares of the sides' distance."""
    measure, people, reference = config.measure, indicators(config), config.reference
    metrics = headline_metrics(measure.text_readout)
    primary = measure.primary
    metrics = sorted(metrics, key=lambda metric: metric.key != primary)
    alpha = measure.alpha
    found, pairs = [], contrasts(config)
    family = "the measures and contrasts" if len(pairs) > 1 else "the measures"
    for contrast in pairs:
        words = contrast_words(contrast, reference, people)
        here = gap[gap["contrast"] == "-".join(contrast)]
        rows = [(metric, row) for metric in metrics if (row := _row(here, metric)) is not None]
        gate = 0 if rows and rows[0][0].key == primary else None
        p_values = gatekept([float(row.get("p_control", np.nan)) for _, row in rows], gate)
        p_values = np.minimum(len(pairs) * p_values, 1)
        findings = [
            finding(
                row,
                metric,
                reference,
                contrast,
                words=words,
                alpha=alpha,
                p_measures=float(p_words),
                family=family,
                specified=specified(specifications, metric, contrast),
                primary=metric.key == primary,
            )
            for (metric, row), p_words in zip(rows, p_values)
        ]
        if disparity is not None:
            names = _names(contrast, reference, people)
            findings = [
                replace(one, shares=side_shares(one.row, disparity, one.metric, names.first, names.second))
                for one in findings
            ]
        opening = _opening(findings, contrast)
        others = _others(findings)
        matrix = correlations(findings, agreement, contrast)
        found.append(Summary(contrast, words, _answer(findings, contrast), opening, others, findings, matrix))
    return found


def findings_table(found: Sequence[Summary]) -> pd.DataFrame:
    """Return the findings as a table, with `COLUMNS`: one row per contrast and headline measure."""
    rows = [
        {
            "contrast": "-".join(summary.contrast),
            **{name: getattr(one.metric, name) for name in ("space", "site", "metric")},
            "measure": one.metric.key,
            "primary": one.primary,
            "state": one.verdict.state,
            "direction": one.direction,
            "licence": one.verdict.licence,
            **{name: float(one.row.get(name, np.nan)) for name in ("gap", "word_gap", "p_control")},
            "p_measures": one.p_measures,
            "specifications": one.specified.count if one.specified else 0,
            "specified_low": one.specified.low if one.specified else np.nan,
            "specified_high": one.specified.high if one.specified else np.nan,
            **asdict(one.shares),
            "claim": one.claim,
        }
        for summary in found
        for one in summary.findings
    ]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def contrast_words(contrast: tuple[str, str], reference: str, people: Sequence[Member]) -> ContrastWords:
    """Return the words of a contrast, as they stand in the prompts."""
    spelled = {person.name: person.word for person in people}
    names = _names(contrast, reference, people)
    return ContrastWords(
        *(tuple(spelled[name] for name in group) for group in (names.first, names.second, names.reference))
    )


def _names(contrast: tuple[str, str], reference: str, people: Sequence[Member]):
    """The indicators of each side and of the reference, each with its controls."""
    return words_of(contrast, reference, {person.name: person.control for person in people if person.control})


def correlations(
    findings: Sequence[Finding], agreement: pd.DataFrame, contrast: tuple[str, str]
) -> pd.DataFrame:
    """Return how far the gaps of measures that view the same images correlate, as a symmetric matrix by symbols.

    Without rows where fewer than two do; NaN where a correlation is undefined, and on the diagonal.
    """
    views = {one.metric.key: one.metric.symbol for one in findings if one.metric.space != "prompt"}
    own = agreement[agreement["contrast"] == "-".join(contrast)]
    own = own[own["first"].isin(list(views)) & own["second"].isin(list(views))]
    both = pd.concat([own, own.rename(columns={"first": "second", "second": "first"})])
    if both["correlation"].notna().sum() == 0:
        return pd.DataFrame()
    wide = both.pivot(index="first", columns="second", values="correlation")
    there = [key for key in views if key in wide.index]
    return wide.reindex(index=there, columns=there).rename(index=views, columns=views)


def _answer(findings: Sequence[Finding], contrast: tuple[str, str]) -> str:
    """The short sentence about the primary measure."""
    if not findings:
        return f"No similarity could be compared for {contrast[0]} against {contrast[1]}: what is missing stands below."
    if not findings[0].primary:
        return "The primary measure was not captured; the others are adjusted for one another."
    return findings[0].answer


def specified(
    specifications: pd.DataFrame, metric: Metric, contrast: tuple[str, str]
) -> SpecificationRange | None:
    """Return the range of the gap over specifications; None where there is but the run's own."""
    own = metric.rows_of(specifications[specifications["contrast"] == "-".join(contrast)])
    gaps = own["gap"].dropna()
    return SpecificationRange(len(gaps), float(gaps.min()), float(gaps.max())) if len(gaps) > 1 else None


def _opening(findings: Sequence[Finding], contrast: tuple[str, str]) -> str:
    """The sentence about the primary measure, with its licence."""
    first, second = contrast
    if not findings:
        return f"No headline measure could be computed for {first} against {second}."
    top = findings[0]
    if not top.primary:
        return "The primary measure was not captured; the others are below, adjusted for one another."
    parts = [f"{p_value(top.p_measures)} {top.against}"] if top.p_measures == top.p_measures else []
    if top.direction and top.specified:
        parts.append(f"{range_of(top)} over {counted(top.specified.count, 'specification')}")
    rest = f" ({'; '.join(parts)})" if parts and top.direction else ""
    more = " This is by more than these words differ among themselves" if top.direction else ""
    return f"{top.claim}{more}{rest}{'.' if more else ''}"


def range_of(one: Finding) -> str:
    """Return the range of a gap over specifications in words; of one that has it."""
    low, high = (number(end, one.metric.digits) for end in (one.specified.low, one.specified.high))
    return f"the gap over words is from {low} to {high}" + (
        f" {one.metric.gap_unit}" if one.metric.unit else ""
    )


def _others(findings: Sequence[Finding]) -> str:
    """The sentences about the other measures: secondary, and how far they are views of the same images."""
    if len(findings) < 2:
        return ""
    top, others = findings[0], findings[1:]
    if not top.primary:
        text = ""
    elif not top.direction:
        names = listed(one.metric.symbol for one in others)
        text = (
            f"{names} {'are' if len(others) > 1 else 'is'} secondary, and without a direction where "
            f"{top.metric.symbol}, the primary measure, has none. "
        )
    else:
        same, against, none = (
            [one.metric.symbol for one in others if one.direction * top.direction == sign]
            for sign in (1, -1, 0)
        )
        parts = [f"{listed(same)} {_verb(same, 'point')} the same way"] if same else []
        parts += [f"{listed(against)} {_verb(against, 'point')} the other way"] if against else []
        parts += [f"{listed(none)} {_verb(none, 'show')} no direction"] if none else []
        text = (
            f"{top.metric.symbol} is the primary measure. Of the others, adjusted for one another and tested only "
            f"after it, {'; '.join(parts)}. "
        )
    views = [one.metric.symbol for one in findings if one.metric.space != "prompt"]
    if len(views) > 1:
        text += f"{listed(views)} are views of the same images, not separate findings."
    return text.strip()


def _verb(names: Sequence[str], verb: str) -> str:
    return verb if len(names) > 1 else f"{verb}s"


def _row(table: pd.DataFrame, metric: Metric) -> dict | None:
    rows = metric.rows_of(table)
    return rows.iloc[0].to_dict() if len(rows) else None
