"""Simulated rates beside the bounds within which they are to lie: what every sweep over worlds gives.

A sweep is a table of `COLUMNS`: of a world and a test or interval the rate, and how many simulations it rests on. What
is stored and shown of it (`summaries`) is for each test the lowest and highest rate over its worlds, and what misses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

ALPHA = 0.05
COLUMNS = ("world", "test", "kind", "rate", "simulations", "undefined")
LEVEL, AT_MOST, COVERS, AT_LEAST, POWER = "level", "at most", "coverage", "at least", "power"
# rates of tests that are to be exact, or that may be conservative; of intervals; and of power, of which much is good
BOUNDS = {
    LEVEL: (0.035, 0.065),
    AT_MOST: (0.0, 0.065),
    COVERS: (0.93, 0.97),
    AT_LEAST: (0.93, 1.0),
    POWER: (0.0, 1.0),
}
SHOWN = 2  # of the worlds that miss, beside the worst


def sweep(
    cases: Iterable[Any],
    rows_of: Callable[[Any, np.random.Generator, int], Iterable[tuple]],
    stream: int,
    seed: int,
) -> pd.DataFrame:
    """Rows of each world of a sweep, which has a stream of random numbers of its own."""
    rows = []
    for number, case in enumerate(cases):
        rows += rows_of(case, np.random.default_rng([seed, stream + number]), number)
    return pd.DataFrame(rows, columns=list(COLUMNS))


def rejection_row(world: str, test: str, p_value: Any, kind: str = LEVEL) -> tuple:
    """Share of the p-values at most 5 %, NaN where there is none; an undefined one is no rejection."""
    p_value = np.asarray(p_value, float)
    share = float((p_value <= ALPHA).mean()) if len(p_value) else np.nan
    return world, test, kind, share, len(p_value), int(np.isnan(p_value).sum())


def counted_row(world: str, test: str, hits: Any, kind: str = AT_MOST) -> tuple:
    """Mean of what was found in each simulation: whether something was said, or a share; NaN is left out."""
    hits = np.asarray(hits, float)
    defined = hits[~np.isnan(hits)]
    rate = float(defined.mean()) if len(defined) else np.nan
    return world, test, kind, rate, len(defined), len(hits) - len(defined)


def covered_row(world: str, test: str, truth: Any, ends: Any, kind: str = COVERS) -> tuple:
    """Part of the intervals (a pair of arrays, or what has `low` and `high`) that hold the truth, of those defined."""
    low, high = ends if isinstance(ends, tuple) else (ends.low, ends.high)
    defined = ~(np.isnan(low) | np.isnan(high))
    held = np.where(defined, (low <= truth) & (truth <= high), np.nan)
    return counted_row(world, test, held.ravel(), kind)


def misses(rate: float, kind: str) -> bool:
    """Whether a rate lies outside the bounds of its kind."""
    low, high = BOUNDS[kind]
    return not low <= rate <= high


def summaries(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Of each test its lowest and highest rate, the world of the worst (of a test the highest), what else misses.

    Rates are rounded to three decimals, as `others` are: a world, its rate and its Monte Carlo standard error.
    """
    rows = []
    for (test, kind), own in table.dropna(subset="rate").groupby(["test", "kind"], sort=False):
        own = own.sort_values("rate", ascending=kind not in (LEVEL, AT_MOST), kind="stable")
        error = np.sqrt(own["rate"] * (1 - own["rate"]) / own["simulations"])
        cells = [[world, round(r, 4), round(e, 5)] for world, r, e in zip(own["world"], own["rate"], error)]
        others = [cell for cell, rate in zip(cells[1:], own["rate"][1:]) if misses(rate, kind)]
        rows.append(
            {"test": test, "kind": kind, "simulations": int(own["simulations"].max()), "worlds": len(own)}
            | {"worst": cells[0], "best": cells[-1][1], "others": others}
        )
    return rows


def lines(rows: Sequence[dict[str, Any]]) -> list[list[str]]:
    """The cells of a page's table of such summaries: what, its bounds, the rates, the worst world, what else misses."""
    return [
        [
            row["test"],
            {POWER: "high", AT_MOST: "≤ 6.5", AT_LEAST: "≥ 93"}.get(row["kind"])
            or " to ".join(f"{100 * end:g}" for end in BOUNDS[row["kind"]]),
            _ends(row),
            row["worst"][0] if row["worlds"] > 1 else "—",
            _others(row),
        ]
        for row in rows
    ]


def _others(row: dict[str, Any]) -> str:
    """What else misses, beyond `SHOWN` only how many."""
    cells = [f"{world} {_cell(rate, error, row)}" for world, rate, error in row["others"]]
    more = [f"{len(cells) - SHOWN} more"] if len(cells) > SHOWN else []
    return "; ".join(cells[:SHOWN] + more) or "—"


def _ends(row: dict[str, Any]) -> str:
    _, rate, error = row["worst"]
    worst, best = _cell(rate, error, row), f"{100 * row['best']:.1f}"
    if row["worlds"] == 1:
        return worst
    return f"{best} to {worst}" if row["kind"] in (LEVEL, AT_MOST) else f"{worst} to {best}"


def _cell(rate: float, error: float, row: dict[str, Any]) -> str:
    text = f"{100 * rate:.1f} ({100 * error:.1f})"
    return f"**{text}**" if misses(rate, row["kind"]) else text
