"""Options of an audit as its design holds them: levels with the baselines first, and the shares held against."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from analysis.methods.audit.design import WORLD, read_reference
from probes.errors import UserError, nearest
from probes.user_tables import Source

Reference = float | Mapping[str, float] | Source


def order_levels(
    levels: dict[str, tuple[str, ...]], others: tuple[str, ...], baseline: Sequence[str]
) -> dict[str, tuple[str, ...]]:
    """The levels of each factor with the baselines first; a UserError for one of no factor after the first."""
    ordered = dict(levels)
    known = [level for name in others for level in levels[name]]
    for one in baseline:
        if one not in known:
            raise UserError(f"--baseline: {nearest('level', one, known)}")
        for name in others:
            if one in levels[name]:
                ordered[name] = (one, *(level for level in levels[name] if level != one))
    return ordered


def reference_of(
    against: Reference | None, by: str, levels: tuple[str, ...], answers: int
) -> tuple[dict[str, float], dict[str, int], str]:
    """The reference of each level of the factor `by`, of how many it is, and what it is in words."""
    if against is None:
        return dict.fromkeys(levels, 1 / answers), {}, "one half" if answers == 2 else f"1/{answers}"
    if isinstance(against, Mapping):
        against = pd.DataFrame({by: list(against), WORLD[0]: list(against.values())})
    if isinstance(against, pd.DataFrame):
        return *read_reference(against, by, levels), "its share in the table"
    try:
        share = float(against)
    except (TypeError, ValueError):
        return *read_reference(Path(against), by, levels), f"its share in {Path(against).name}"
    if not 0 < share < 1:
        raise UserError(
            f"--against: expected a share between 0 and 1, or a table, got {against!r:.60}: mend it"
        )
    return dict.fromkeys(levels, share), {}, f"{share:g}"
