"""A number and its interval in a table: three columns, ``NAME``, ``NAME_low`` and ``NAME_high``."""

from __future__ import annotations

from typing import Any


def with_ends(name: str) -> tuple[str, str, str]:
    """Return the names of the columns of a number and of its interval."""
    return name, f"{name}_low", f"{name}_high"


def interval_columns(name: str, value: Any, low: Any, high: Any) -> dict[str, Any]:
    """Return the columns of a number and of its interval."""
    return dict(zip(with_ends(name), (value, low, high), strict=True))
