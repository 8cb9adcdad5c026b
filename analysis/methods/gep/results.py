"""What cards of a run say of an audit by GEP: the score of each setting, with its interval, floor, test and reader."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from analysis.methods.gep.inference import over_units
from analysis.methods.gep.page_tests import first_source
from analysis.methods.gep.sources import SOURCES
from analysis.report.format import counted, defined, number, p_value
from analysis.report.result import Result
from analysis.tables.registry import read
from probes.runs.run import Run

SECTION = "Attributes (GEP)"


def more_than_chance(row: Mapping[str, Any], alpha: float) -> bool:
    """Tell whether the score of a row of ``tables/gep_score`` is called more than chance, by tests of level `alpha`."""
    return bool(page_p_value(row) < alpha and row["excess"] > 0)


def page_p_value(row: Mapping[str, Any]) -> float:
    """Return the p-value of a score adjusted over the page; of a row that the page does not speak of its own."""
    return float(row["p_value"] if np.isnan(row["p_page"]) else row["p_page"])


def page_p_text(row: Mapping[str, Any]) -> str:
    """The p-value of `page_p_value` with the family over which it is adjusted."""
    adjusted = ", adjusted over settings and contrasts" if page_p_value(row) > row["p_value"] else ""
    return p_value(page_p_value(row)) + adjusted


def results(run: Run) -> list[Result]:
    """Return the score of every setting and contrast, by the first source; those without an interval are left out."""
    if not {"gep_score", "gep_auc"} <= set(run.tables()):
        return []
    score, auc = read(run, "gep_score"), read(run, "gep_auc")
    source = first_source(score)
    own = score[(score["source"] == source) & (score["kind"] == "contrast")]
    wanted = ("debiased", "low", "high", "floor", "p_value")
    return [
        _result(row, _error(auc, row["source"]), run.config.measure.alpha)
        for row in own.to_dict("records")
        if all(defined(row[name]) for name in wanted)
    ]


def _result(row: Mapping[str, Any], error: str, alpha: float) -> Result:
    pair = f"{row['first']} against {row['second']}"
    return Result(
        section=SECTION,
        name=f"GEP score, debiased, {row['setting']} setting, {pair}",
        value=float(row["debiased"]),
        low=float(row["low"]),
        high=float(row["high"]),
        method=f"scores that a test does not exclude, {over_units([row['unit']])}",
        floor=(
            f"{number(row['score'])} as published, without the correction; chance alone gives {number(row['floor'])} "
            f"({page_p_text(row)}, the smallest possible {number(row['p_smallest'])})"
        ),
        verdict=f"{'more' if more_than_chance(row, alpha) else 'not more'} than chance",
        reader=SOURCES[row["source"]],
        error=error,
    )


def _error(auc: pd.DataFrame, source: str) -> str:
    """What is known of a source: how well it tells images with and without an attribute apart, by labels."""
    own = auc[auc["source"] == source]
    found = [
        f"by {labels}, AUC {number(rows['auc'].mean(), 2)} on average over {counted(len(rows), 'attribute')}, from "
        f"{number(rows['auc'].min(), 2)} to {number(rows['auc'].max(), 2)}"
        for labels, rows in own.groupby("labels", sort=False)
    ]
    return "; ".join(found) or "nobody checked it on these images"
