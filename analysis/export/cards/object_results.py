"""What cards of a run say of objects: of each that was tested, in how many more images of one side it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from analysis.report.format import defined, number, p_value
from analysis.report.objects import Objects
from analysis.report.result import Result
from analysis.study import contrasts
from probes.config.schema import Config

SECTION = "Objects"


def object_results(objects: Objects, config: Config, error: Sequence[str]) -> list[Result]:
    """Return the difference of every object that a claim could be made of; `error` is what is known of the detector."""
    reader = str(objects.observer.get("engine", "unknown"))
    return [
        _result(row, _floor(objects, first, second), reader, " ".join(error))
        for second, first in contrasts(config)
        for row in objects.rows("object_claims", first=first, second=second).to_dict("records")
        if defined(row["p_claim_adjusted"]) and _ends(row) is not None
    ]


def _ends(row: Mapping[str, Any]) -> tuple[float, float, float] | None:
    """The difference that is stated, with its interval: behind the detector's known errors, or over words."""
    for name in ("difference_corrected", "difference_words"):
        values = (row[name], row[f"{name}_low"], row[f"{name}_high"])
        if all(map(defined, values)):
            return float(values[0]), float(values[1]), float(values[2])
    return None


def _floor(objects: Objects, first: str, second: str) -> str:
    """How far all objects together are from the same, beside what chance gives."""
    rows = [
        one
        for pair in (f"{first}-{second}", f"{second}-{first}")
        for one in objects.rows("table_tests", group="all", indicators=pair, of="presence").to_dict("records")
        if defined(one["cramers_v"])
    ]
    if not rows:
        return ""
    one = rows[0]
    return (
        f"; all objects together, of the first word of each side: Cramér’s V {number(one['cramers_v'], 2)}, by chance "
        f"{number(one['cramers_v_floor'], 2)} ({p_value(one['p_value'])})"
    )


def _result(row: Mapping[str, Any], floor: str, reader: str, error: str) -> Result:
    value, low, high = _ends(row) or (0.0, 0.0, 0.0)
    words = f"{row['words_first']} and {row['words_second']} words"
    return Result(
        section=SECTION,
        name=f"{row['object']}, {row['second']} less {row['first']}",
        value=value,
        low=low,
        high=high,
        method=f"over prompts and words ({words})",
        floor=f"{p_value(row['p_claim_adjusted'])} adjusted over the objects (Benjamini–Hochberg){floor}",
        verdict=str(row["claim"]) + (f": {row['claim_reason']}" if row["claim_reason"] else ""),
        reader=reader,
        error=error,
    )
