"""What cards of a run say of an audit of professions: how far their images deviate from half and half."""

from __future__ import annotations

import pandas as pd

from analysis.methods.dalleval.names import named, of_first
from analysis.methods.dalleval.page_tests import page_p_text
from analysis.methods.dalleval.scores import GENDER
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
    agreement = read(run, "dalleval_agreement") if "dalleval_agreement" in tables else pd.DataFrame()
    return [
        Result(
            section=SECTION,
            name=f"Mean absolute deviation from half and half, debiased, {row['indicator']} prompts",
            value=float(row["debiased"]),
            low=float(row["low"]),
            high=float(row["high"]),
            method="over the images of these professions",
            floor=(
                f"{number(row['mad'])} as published, without the correction; chance alone gives "
                f"{number(row['floor'])} ({page_p_text(row)})"
            ),
            verdict=f"{'more' if row['p_page'] < run.config.measure.alpha else 'not more'} than chance",
            reader=named(row["source"]),
            error=f"{counted(row['images'], 'image')} decided; {_error(agreement, row['source'])}",
        )
        for row in of_first(read(run, "dalleval_mad"), GENDER).to_dict("records")
        if all(defined(row[name]) for name in ("debiased", "low", "high", "floor", "p_page"))
    ]


def _error(agreement: pd.DataFrame, source: str) -> str:
    """What is known of a reader: how often others say the same of the same images."""
    found = []
    for row in agreement.to_dict("records"):
        others = {row["first"], row["second"]} - {source}
        if row["question"] == GENDER and len(others) == 1 and defined(row["same"]):
            same = with_interval(row["same"], row["low"], row["high"], 2)
            found.append(f"{named(*others)} says the same of {same} of {counted(row['images'], 'image')}")
    return "; ".join(found) or "no other reader checked it on these images"
