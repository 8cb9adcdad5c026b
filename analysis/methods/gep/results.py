"""Verdicts of DALL-Eval's rows with ``p_page`` and ``excess``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from analysis.report.format import p_value


def more_than_chance(row: Mapping[str, Any], alpha: float) -> bool:
    """Return whether a row is called more than chance, by tests of level `alpha`."""
    return bool(page_p_value(row) < alpha and row["excess"] > 0)


def page_p_value(row: Mapping[str, Any]) -> float:
    """Return the p-value adjusted over the page; of a row that the page does not speak of its own."""
    return float(row["p_value"] if np.isnan(row["p_page"]) else row["p_page"])


def page_p_text(row: Mapping[str, Any]) -> str:
    """The p-value of `page_p_value` with the family over which it is adjusted."""
    adjusted = ", adjusted over settings and contrasts" if page_p_value(row) > row["p_value"] else ""
    return p_value(page_p_value(row)) + adjusted
