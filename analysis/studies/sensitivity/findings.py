"""Every finding under every setting, and what changes where a choice moves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from analysis.studies.sensitivity.gaps import gap_settings
from analysis.studies.sensitivity.objects import object_settings
from analysis.study import contrasts
from analysis.tables.registry import TABLES
from probes.errors import UserError
from probes.runs.store import Run

COLUMNS = TABLES["sensitivity"].columns


def sensitivity(run: Run, **ranges: Sequence[float]) -> pd.DataFrame:
    """Compute every finding under every setting.

    Parameters
    ----------
    run : Run
        A measured run; ``objects/`` may be missing.
    **ranges : sequence of float
        ``thetas``, ``sigmas``, ``sigmas_human``, ``least_scores`` over those of `analysis.studies.sensitivity.objects`.

    Returns
    -------
    DataFrame
        One row per setting and quantity, with `COLUMNS`. ``of_run`` marks the setting of the run; ``changes`` says what
        is
        other than there: *sign* of the value, *interval* (it leaves out 0 in one of the two only), *words* (more than
        these words differ among themselves in one of the two only).

    Raises
    ------
    UserError
        If the run is not measured, or nothing of it is compared with anything else.
    """
    if not contrasts(run.config):
        raise UserError(
            f"{run.path}: expected a contrast whose findings can change, got `contrasts: []`: "
            "name two indicators under `contrasts` and measure again"
        )
    settings = [*gap_settings(run)]
    if run.parts("objects"):
        settings += object_settings(run, **ranges)
    if not settings:
        raise UserError(
            f"{run.path}: expected a headline metric to move a choice of, found none: see capture.sites"
        )
    tables = [
        setting.findings.assign(choice=setting.choice, setting=setting.name, of_run=setting.of_run)
        for setting in settings
    ]
    table = pd.concat(tables, ignore_index=True)
    table["p_control"] = table.get("p_control", np.nan)
    table["changes"] = _changes(table, 1 - run.config.measure.level)
    return table[list(COLUMNS)]


def _changes(table: pd.DataFrame, alpha: float) -> list[str]:
    """Return what of each row is other than under the run's setting of the same choice."""
    key = ["choice", "kind", "what", "quantity"]
    columns = {
        "sign": np.sign(table["value"].fillna(0.0)),
        "interval": (table["ci_low"] > 0) | (table["ci_high"] < 0),
        "words": table["p_control"] < alpha,
    }
    state = pd.DataFrame(columns)
    of_run = table[table["of_run"]].drop_duplicates(key)
    base = state.loc[of_run.index].set_index(pd.MultiIndex.from_frame(of_run[key]))
    expected = base.reindex(pd.MultiIndex.from_frame(table[key]))
    # a count of detections has no sign to change
    comparable = expected["sign"].notna().to_numpy() & (table["kind"] != "groups").to_numpy()
    changed = {name: comparable & (expected[name].to_numpy() != state[name].to_numpy()) for name in columns}
    return [", ".join(name for name in changed if changed[name][row]) for row in range(len(table))]
