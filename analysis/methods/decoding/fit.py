"""Probes of every place and step of a run, as tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.methods.decoding.places import OUTCOME, SYNONYMS, Activations, Place, Roles, cells
from analysis.methods.decoding.scores import (
    USUAL,
    VERSION,
    Choice,
    IntervalEstimate,
    PlaceRows,
    decode,
    decoding_step,
)

ESTIMATES = ("accuracy", "auc", SYNONYMS, OUTCOME, "selectivity")
UNDEFINED = IntervalEstimate(np.nan, np.nan, np.nan, 0, "no such rows")
FEW = "rows of both words in fewer than two prompts"


def decoding(
    found: Activations,
    chosen: Roles,
    outcome: NDArray[np.float64],
    choice: Choice = USUAL,
    tick: Callable[[], Any] = lambda: None,
) -> pd.DataFrame:
    """Table ``decoding``: one row per place and call, in the order in which sites run."""
    rows: list[dict[str, Any]] = []
    before: tuple[Place, PlaceRows, dict[str, Any]] | None = None
    for place, call, told, others in cells(found, chosen, outcome):
        if before and before[0] == place and np.array_equal(before[1].x, told.x):
            row = dict(before[2])  # keys and values of a text are the same at each step
        else:
            row = _row(told, others, choice)
        timestep = found.timesteps[place][call]
        when = {"step": call if np.isfinite(timestep) else -1, "timestep": timestep}
        rows.append({"site": place[0], "group": place[1], **when, **row})
        before = (place, told, row)
        tick()
    return pd.DataFrame(rows)


def _row(told: PlaceRows, others: dict[str, PlaceRows], choice: Choice) -> dict[str, Any]:
    usable = {name: rows for name, rows in others.items() if len(rows.label)}
    both = [set(told.prompt[told.label == label].tolist()) for label in (0.0, 1.0)]
    few = len(both[0] & both[1]) < 2
    result, reason = (None, FEW) if few else (decode(told, usable, choice), "")
    row: dict[str, Any] = {"n_prompts": len(both[0] & both[1]) if few else len(np.unique(told.prompt))}
    for name in ESTIMATES:
        of_others = result.transfers if result else {}
        one = getattr(result, name, None) or of_others.get(name, UNDEFINED)
        row |= {name: one.value, f"{name}_low": one.low, f"{name}_high": one.high}
        if name in (SYNONYMS, OUTCOME):
            row |= {f"{name}_n": one.n, f"{name}_reason": one.reason or reason}
    row |= {name: getattr(result, name, np.nan) for name in ("control_accuracy", "bits")}
    return {
        **row,
        "control_split": result.control_split if result else "",
        "reason": reason,
        "version": VERSION,
    }


def steps(table: pd.DataFrame) -> pd.DataFrame:
    """Table ``decoding_steps``: the decoding step of every place that is read at each step.

    NaN with a ``reason`` where there is none.
    """
    rows = []
    for (site, group), cell in table[table["step"] >= 0].groupby(["site", "group"], sort=False):
        step = decoding_step(cell["auc"], cell["auc_low"])
        last = cell.iloc[-1]
        rows.append(
            {
                "site": site,
                "group": group,
                "final_auc": last["auc"],
                "final_auc_low": last["auc_low"],
                "decoding_step": np.nan if step is None else float(cell["step"].iloc[step]),
                "timestep": np.nan if step is None else cell["timestep"].iloc[step],
                "reason": "" if step is not None else "at no step surely above chance",
                "version": VERSION,
            }
        )
    names = ["site", "group", "final_auc", "final_auc_low", "decoding_step", "timestep", "reason", "version"]
    return pd.DataFrame(rows, columns=names)


def separability(table: pd.DataFrame) -> pd.DataFrame:
    """A score of every place, highest first: the highest AUC over the steps, of held-out prompts, less ½.

    A place where the words can be told apart scores high whether or not the model makes use of it. The highest of
    several steps lies above 0 where there is nothing to be read, too; its interval is that of the one step.
    """
    known = table[table["auc"].notna()]
    best = known.loc[known.groupby(["site", "group"], sort=False)["auc"].idxmax()]
    ranked = best.sort_values("auc", ascending=False, kind="stable").reset_index(drop=True)
    scores = {f"score{end}": ranked[f"auc{end}"] - 0.5 for end in ("", "_low", "_high")}
    return ranked[["site", "group"]].assign(**scores, step=ranked["step"])
