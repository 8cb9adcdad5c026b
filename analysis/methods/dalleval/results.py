"""What cards of a run say of an audit of professions: how far their images deviate from half and half."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from analysis.methods.dalleval.names import named, of_first
from analysis.methods.dalleval.page_tests import page_p_text
from analysis.methods.dalleval.scores import GENDER
from analysis.methods.gep.results import more_than_chance
from analysis.report.format import counted, defined, number, with_interval
from analysis.report.result import Result
from analysis.tables.registry import read
from probes.runs.run import Run

SECTION = "Professions (DALL-Eval)"


def results(run: Run) -> list[Result]:
    """Return the mean absolute deviation from half and half that the page speaks of, by the first reader of gender."""
    tables = set(run.tables())
    if "dalleval_mad" not in tables:
        return []
    mad = read(run, "dalleval_mad")
    own = of_first(mad, GENDER)
    agreement = read(run, "dalleval_agreement") if "dalleval_agreement" in tables else pd.DataFrame()
    wanted = ("debiased", "images_low", "images_high", "floor", "p_page")  # of what the page speaks
    return [
        _result(row, _error(agreement, row["source"]), run.config.measure.alpha)
        for row in own.to_dict("records")
        if all(defined(row[name]) for name in wanted)
    ]


def _result(row: Mapping[str, Any], error: str, alpha: float) -> Result:
    return Result(
        section=SECTION,
        name=f"Mean absolute deviation from half and half, debiased, {row['indicator']} prompts",
        value=float(row["debiased"]),
        low=float(row["images_low"]),
        high=float(row["images_high"]),
        method="over the images of these professions",
        floor=(
            f"{number(row['mad'])} as published, without the correction; chance alone gives {number(row['floor'])} "
            f"({page_p_text(row)})"
        ),
        verdict=f"{'more' if more_than_chance(row, alpha) else 'not more'} than chance",
        reader=named(row["source"]),
        error=f"{row['decided']} of {counted(row['asked'], 'image')} decided; {error}",
    )


def _error(agreement: pd.DataFrame, source: str) -> str:
    """What is known of a reader: how often others say the same of the same images."""
    own = agreement[agreement["question"] == GENDER] if len(agreement) else agreement
    found = []
    for row in own.to_dict("records"):
        if source in (row["first"], row["second"]) and defined(row["same"]):
            other = row["second"] if row["first"] == source else row["first"]
            same = with_interval(row["same"], row["low"], row["high"], 2)
            found.append(f"{named(other)} says the same of {same} of {counted(row['images'], 'image')}")
    return "; ".join(found) or "no other reader checked it on these images"
