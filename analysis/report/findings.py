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
from dataclasses import asdict, dataclass

import numpy as np
import pandas as pd

from analysis.metrics.registry import headline_metrics
from analysis.report.finding import Finding, finding
from analysis.report.sentences import phrase
from analysis.report.verdict import ContrastWords
from analysis.stats.multiplicity import gatekept
from analysis.study import Member, contrasts, indicators
from analysis.tables.registry import TABLES
from analysis.tables.similarities.side_shares import side_shares
from analysis.tables.similarities.word_gap import SideWords, words_of
from probes.config.schema import Config

COLUMNS = TABLES["findings"].columns
OF_GAP = ("gap", "ci_low", "ci_high", "p_value", "word_gap", "word_low", "word_high", "p_control", "delta")


@dataclass(frozen=True)
class Summary:
    """The findings of one contrast, the primary measure first, and the sentences above them.

    ``answer``: of at most thirty words; ``others``: on the other measures; ``correlations``: of the gaps of measures
    that view the same images, by their symbols.
    """

    contrast: tuple[str, str]
    words: ContrastWords
    answer: str
    others: str
    findings: list[Finding]
    correlations: pd.DataFrame


def summaries(
    gap: pd.DataFrame, agreement: pd.DataFrame, config: Config, disparity: pd.DataFrame | None = None
) -> list[Summary]:
    """Word the findings of every contrast. Without `disparity` there are no shares of the sides' distance."""
    measure, people, pairs = config.measure, indicators(config), contrasts(config)
    metrics = headline_metrics(measure.text_readout)
    metrics.sort(key=lambda metric: metric.key != measure.primary)
    family = "the measures and contrasts" if len(pairs) > 1 else "the measures"
    result = []
    for contrast in pairs:
        names = _names(contrast, config.reference, people)
        words = contrast_words(contrast, config.reference, people)
        own = gap[gap["contrast"] == "-".join(contrast)]
        rows = [(metric, table.iloc[0].to_dict()) for metric in metrics if len(table := metric.rows_of(own))]
        gate = 0 if rows and rows[0][0].key == measure.primary else None
        adjusted = gatekept([float(row.get("p_control", np.nan)) for _, row in rows], gate)
        findings = [
            finding(
                row,
                metric,
                config.reference,
                contrast,
                words=words,
                alpha=measure.alpha,
                p_measures=float(min(len(pairs) * p, 1) if p == p else p),
                family=family,
                primary=metric.key == measure.primary,
                shares=None
                if disparity is None
                else side_shares(row, disparity, metric, names.first, names.second),
            )
            for (metric, row), p in zip(rows, adjusted)
        ]
        others = phrase("finding", "others", findings) if len(findings) > 1 else ""
        matrix = correlations(findings, agreement, contrast)
        result.append(Summary(contrast, words, _answer(findings, contrast), others, findings, matrix))
    return result


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
            **{name: float(one.row.get(name, np.nan)) for name in OF_GAP},
            "p_measures": one.p_measures,
            "n_prompts": one.n,
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


def _names(contrast: tuple[str, str], reference: str, people: Sequence[Member]) -> SideWords:
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
    present = [key for key in views if key in wide.index]
    return wide.reindex(index=present, columns=present).rename(index=views, columns=views)


def _answer(findings: Sequence[Finding], contrast: tuple[str, str]) -> str:
    """The short sentence about the primary measure."""
    if not findings:
        return f"No similarity could be compared for {contrast[0]} against {contrast[1]}: what is missing stands below."
    if not findings[0].primary:
        return "The primary measure was not captured; the others are adjusted for one another."
    return findings[0].answer
