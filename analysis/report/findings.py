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
from analysis.report.environment import phrase
from analysis.report.finding import Finding, finding
from analysis.stats.multiplicity import gatekept
from analysis.study import contrasts, indicators
from analysis.tables.registry import TABLES
from analysis.tables.similarities.side_shares import side_shares
from analysis.tables.similarities.word_gap import SideWords, words_of
from probes.config.schema import Config

COLUMNS = TABLES["findings"].columns
OF_GAP = ("gap", "ci_low", "ci_high", "p_value", "word_gap", "word_low", "word_high", "p_control", "delta")


@dataclass(frozen=True)
class Summary:
    """The findings of one contrast, the primary measure first, and the sentences above them.

    ``answer``: of at most thirty words; ``others``: on the other measures.
    """

    contrast: tuple[str, str]
    answer: str
    others: str
    findings: list[Finding]


def summaries(gap: pd.DataFrame, config: Config, disparity: pd.DataFrame | None = None) -> list[Summary]:
    """Word the findings of every contrast. Without `disparity` there are no shares of the sides' distance."""
    measure, people, pairs = config.measure, indicators(config), contrasts(config)
    spelled = {person.name: person.word for person in people}
    controls = {person.name: person.control for person in people if person.control}
    metrics = headline_metrics(measure.text_readout)
    metrics.sort(key=lambda metric: metric.key != measure.primary)
    family = "the measures and contrasts" if len(pairs) > 1 else "the measures"
    result = []
    for contrast in pairs:
        names = words_of(contrast, config.reference, controls)
        sides = (names.first, names.second, names.reference)
        words = SideWords(*([spelled[name] for name in side] for side in sides))
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
        result.append(Summary(contrast, _answer(findings, contrast), others, findings))
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


def _answer(findings: Sequence[Finding], contrast: tuple[str, str]) -> str:
    """The short sentence about the primary measure."""
    if not findings:
        return f"No similarity could be compared for {contrast[0]} against {contrast[1]}: what is missing stands below."
    if not findings[0].primary:
        return "The primary measure was not captured; the others are adjusted for one another."
    return findings[0].answer
