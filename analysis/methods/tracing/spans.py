"""Numbers of a trace with their intervals, as the report writes them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from analysis.report.format import MINUS, fixed, number, with_interval


def with_span(row: Mapping[str, Any], name: str) -> str:
    """The interval of a number, with a space before it; an end may be infinite."""
    text = span(row[f"{name}_low"], row[f"{name}_high"])
    return f" {text}" if text else ""


def span(low: float, high: float) -> str:
    """An interval of shares, such as *[−0.10, ∞)*; empty where there is none."""
    if pd.isna(low) or pd.isna(high):
        return ""
    left = f"({MINUS}∞" if math.isinf(low) else f"[{number(low, 2)}"
    return f"{left}, {'∞)' if math.isinf(high) else f'{number(high, 2)}]'}"


def all_spans(row: Mapping[str, Any]) -> dict[str, str]:
    """The intervals of a row of shares, as texts."""
    names = ("sufficiency_joint", "necessity_joint", "floor", "beyond", "effect")
    return {name: span(row[f"{name}_low"], row[f"{name}_high"]) for name in names}


def with_ends(row: pd.Series, name: str, digits: int) -> str:
    """A number of a table with its interval, where it has one."""
    return with_interval(row[name], row[f"{name}_low"], row[f"{name}_high"], digits)


def effect(row: pd.Series) -> str:
    """The signed effect of a place on the outcome, with the interval of all places."""
    return f"{number(row['effect'], 2, signed=True)}{with_span(row, 'effect')}"


def joint_share(row: pd.Series, name: str) -> str:
    """A share with the interval of all places."""
    return f"{fixed(row[name], 2).replace('-', MINUS)}{with_span(row, f'{name}_joint')}"
