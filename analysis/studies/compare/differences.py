"""Differences of two models on the same prompts, by quantity.

Runs are paired by prompt: a prompt that is hard for one model is mostly hard for the other, and what it adds to both
falls out of the difference. Seeds are averaged within a run, so runs may have other seeds, or more. Null hypothesis of
the test: on each prompt the two models could have changed places.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.stats.effects import effect_sizes
from analysis.stats.permutation import sign_flip_test
from analysis.studies.compare.quantities import KEYS, Quantities
from probes.errors import UserError, parse_json

FEWEST = (
    6  # prompts: of fewer no sign flip is told from chance at 0.05, and an interval of a mean says nothing
)
TOO_FEW = "too few prompts to say"
VALUE_COLUMNS = ("run", *KEYS, "value", "ci_low", "ci_high", "n_prompts", "reason")
DIFFERENCE_COLUMNS = (
    "first",
    "second",
    *KEYS,
    "value_first",
    "value_second",
    "difference",
    "ci_low",
    "ci_high",
    "d_z",
    "d_z_low",
    "d_z_high",
    "p_value",
    "p_adjusted",
    "n_prompts",
    "reason",
)


def require_same(runs: Sequence[Quantities]) -> None:
    """Refuse runs of different prompts or indicators."""
    first = runs[0]
    for other in runs[1:]:
        here, there = (set(parse_json(run.prompts[0])) for run in (first, other))
        if here != there:
            raise UserError(
                f"{other.name}: expected the indicators of {first.name} ({', '.join(sorted(here))}), got "
                f"{', '.join(sorted(there))}: compare runs of one triplets.yaml"
            )
        alone = sorted(set(first.prompts) ^ set(other.prompts))
        if alone:
            owner = first.name if alone[0] in set(first.prompts) else other.name
            text = next(iter(parse_json(alone[0]).values()))
            raise UserError(
                f"{other.name}: expected the prompts of {first.name}, {len(alone)} stand in one of the two only "
                f"(first: {text!r}, in {owner}): compare runs of one triplets.yaml"
            )


def compare(
    runs: Sequence[Quantities],
    *,
    level: float = 0.95,
    resamples: int = 2000,
    permutations: int = 10000,
    seed: int = 0,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return every quantity that all runs have: its value in each, and its difference in each pair of them.

    One row per run and quantity (`VALUE_COLUMNS`), and one per pair of runs and quantity (`DIFFERENCE_COLUMNS`), where
    ``difference`` is the second run's value less the first's, with intervals (``envelope``) and sign flips over
    prompts; ``p_adjusted`` is max-T over all quantities of one kind and all pairs of runs. A quantity that all runs
    lack at a prompt is compared over the others; one of fewer than `FEWEST` prompts has no intervals.
    """
    require_same(runs)
    keys = [tuple(row) for row in runs[0].keys.itertuples(index=False)]
    places = []
    for run in runs:
        columns = {tuple(row): number for number, row in enumerate(run.keys.itertuples(index=False))}
        places.append(columns)
        keys = [key for key in keys if key in columns]
    if not keys:
        raise UserError(
            f"{', '.join(run.name for run in runs)}: expected a quantity that all of them have, found none: "
            "measure them with the same sites"
        )
    values = [
        run.values[np.ix_(np.argsort(np.array(run.prompts, object)), [place[key] for key in keys])]
        for run, place in zip(runs, places)
    ]
    sampling = {"level": level, "resamples": resamples, "seed": seed}
    named = pd.DataFrame(keys, columns=list(KEYS))
    tables = [_of_run(run.name, named, of_run, sampling) for run, of_run in zip(runs, values)]
    differences = _differences([run.name for run in runs], named, values, permutations, sampling)
    return pd.concat(tables, ignore_index=True), differences


def _of_run(name: str, keys: pd.DataFrame, values: NDArray[np.float64], sampling: dict) -> pd.DataFrame:
    size = effect_sizes(values, **sampling)
    ends = {"value": size.mean, "ci_low": size.mean_low, "ci_high": size.mean_high}
    return _said(keys.assign(run=name, **ends, n_prompts=size.n, reason=size.mean_reason))[
        list(VALUE_COLUMNS)
    ]


def _said(table: pd.DataFrame) -> pd.DataFrame:
    """The table without intervals of fewer than `FEWEST` prompts."""
    few = table["n_prompts"].between(1, FEWEST - 1)
    table.loc[few, [name for name in table if name.endswith(("_low", "_high"))]] = np.nan
    table.loc[few, "reason"] = TOO_FEW
    return table


def _differences(
    names: Sequence[str],
    keys: pd.DataFrame,
    values: Sequence[NDArray[np.float64]],
    permutations: int,
    sampling: dict,
) -> pd.DataFrame:
    tables = []
    for one, other in combinations(range(len(names)), 2):
        difference = values[other] - values[one]
        size = effect_sizes(difference, **sampling)
        both = ~np.isnan(difference)
        with np.errstate(invalid="ignore"):
            means = [np.where(both, values[run], 0.0).sum(axis=0) / both.sum(axis=0) for run in (one, other)]
        columns = {
            "first": names[one],
            "second": names[other],
            "value_first": means[0],
            "value_second": means[1],
            "difference": size.mean,
            "ci_low": size.mean_low,
            "ci_high": size.mean_high,
            "d_z": size.d_z,
            "d_z_low": size.d_z_low,
            "d_z_high": size.d_z_high,
            "n_prompts": size.n,
            "reason": size.mean_reason,
        }
        tables.append(keys.assign(**columns))
    table = _said(pd.concat(tables, ignore_index=True))
    every = np.hstack([values[other] - values[one] for one, other in combinations(range(len(names)), 2)])
    table["p_value"], table["p_adjusted"] = np.nan, np.nan
    for kind in table["kind"].unique():
        rows = np.flatnonzero(table["kind"] == kind)
        test = sign_flip_test(every[:, rows], permutations=permutations, seed=sampling["seed"])
        table.loc[rows, "p_value"], table.loc[rows, "p_adjusted"] = test.p_value, test.p_adjusted
    return table[list(DIFFERENCE_COLUMNS)]
