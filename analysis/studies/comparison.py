"""Do two models differ on the same prompts? Every quantity of a run by prompt, and its difference between runs.

Runs are paired by prompt: a prompt that is hard for one model is mostly hard for the other, and what it adds to both
falls out of the difference. Seeds are averaged within a run, so runs may have other seeds, or more. Null hypothesis of
the test: on each prompt the two models could have changed places.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.metrics.cooccurrence import ALL, counted
from analysis.metrics.registry import definition, headline_metrics
from analysis.stats.effects import effect_sizes, prompt_means
from analysis.stats.sign_flips import sign_flip_test
from analysis.study import comparison, contrasts, indicators
from analysis.tables.objects import looked_at
from analysis.tables.stored_similarities import StoredSimilarities
from probes.errors import UserError
from probes.store import Run

KEYS = ("kind", "what", "space", "site", "step", "metric")
VALUE_COLUMNS = ("run", *KEYS, "value", "ci_low", "ci_high", "n_prompts", "reason")
DIFFERENCE_COLUMNS = (
    *("first", "second", *KEYS, "value_first", "value_second", "difference", "ci_low", "ci_high"),
    *("d_z", "d_z_low", "d_z_high", "p_value", "p_adjusted", "n_prompts", "reason"),
)


@dataclass(frozen=True)
class Quantities:
    """What a run measured, by prompt.

    Attributes
    ----------
    name : str
        Of the run.
    prompts : list of str
        The texts of each prompt, by indicator, as JSON.
    keys : DataFrame
        A row a quantity, with the columns `KEYS`. ``kind`` is *gap* (``what`` the contrast; positive: the reference is
        nearer to its first), *similarity* (``what`` the pair) or *presence* (``what`` the contrast, ``metric`` the
        object: part of the images with it, first less second).
    values : ndarray of float64, shape (n_prompts, n_quantities)
        Means over seeds; NaN where there is none.
    """

    name: str
    prompts: list[str]
    keys: pd.DataFrame
    values: NDArray[np.float64]


def quantities(run: Run, *, name: str | None = None, every: bool = False) -> Quantities:
    """Read what a run measured.

    Parameters
    ----------
    run : Run
        A measured run; ``tables/objects`` may be missing.
    name : str, optional
        Default: the run's own.
    every : bool
        Take every site and step, not only the headline metrics at the end of each space.

    Raises
    ------
    UserError
        If the run is not measured.
    """
    samples = run.samples(["triplet", "indicator", "prompt"]).drop_duplicates(["triplet", "indicator"])
    texts = {
        triplet: json.dumps(dict(sorted(zip(rows["indicator"], rows["prompt"]))), ensure_ascii=False)
        for triplet, rows in samples.groupby("triplet")
    }
    keys, values = _similarities(run, np.array(sorted(texts)), every)
    if "objects" in {file.stem for file in (run.path / "tables").glob("*.parquet")}:
        own_keys, own = _presence(run, np.array(sorted(texts)))
        keys, values = pd.concat([keys, own_keys], ignore_index=True), np.hstack([values, own])
    return Quantities(name or run.config.name, [texts[triplet] for triplet in sorted(texts)], keys, values)


def _similarities(run: Run, triplets: NDArray, every: bool) -> tuple[pd.DataFrame, NDArray[np.float64]]:
    """Gaps and the similarities of the reference, by prompt."""
    config, pairs = run.config, StoredSimilarities(run)
    names, reference = [member.name for member in indicators(config)], config.reference
    wanted = {(m.space, m.site, m.metric) for m in headline_metrics(config.measure.text_readout)}
    if not every:
        pairs = pairs.only(wanted)
    keys, values = [], []
    for family in pairs.families():
        row = np.searchsorted(triplets, family.prompts)
        sign = 1.0 if definition(family.metric).higher_is_nearer else -1.0
        near = {
            name: prompt_means(family.pair(reference, name, names)) for name in names if name != reference
        }
        own = [("similarity", f"{reference}-{name}", value) for name, value in near.items()]
        own += [
            ("gap", f"{one}-{other}", sign * (near[one] - near[other])) for one, other in contrasts(config)
        ]
        for kind, what, value in own:
            table = family.columns.assign(kind=kind, what=what, space=family.space, metric=family.metric)
            keys.append(table[list(KEYS)])
            values.append(np.full((len(triplets), value.shape[1]), np.nan))
            values[-1][row] = value
    empty = pd.DataFrame(columns=list(KEYS))
    return (
        (pd.concat(keys, ignore_index=True), np.hstack(values))
        if keys
        else (empty, np.empty((len(triplets), 0)))
    )


def _presence(run: Run, triplets: NDArray) -> tuple[pd.DataFrame, NDArray[np.float64]]:
    """Presence of every object but individuals, first less second indicator of each contrast, by prompt."""
    chosen = comparison(run.config)
    table = counted(looked_at(run), run.table("objects"), chosen.names, without=chosen.individuals)[ALL]
    row = np.searchsorted(triplets, table.prompts.astype(triplets.dtype))
    keys, values = [], []
    for one, other in contrasts(run.config):
        difference = table.presence[:, table.column(one)] - table.presence[:, table.column(other)]
        own = np.full((len(triplets), len(table.objects)), np.nan)
        own[row] = 0.0
        own[row[table.prompt], table.object] = difference / table.seeds[table.prompt]
        values.append(own)
        place = {
            "kind": "presence",
            "what": f"{one}-{other}",
            "space": "image",
            "site": "objects",
            "step": -1,
        }
        keys.append(pd.DataFrame(place | {"metric": table.objects})[list(KEYS)])
    return (
        (pd.concat(keys, ignore_index=True), np.hstack(values))
        if keys
        else (pd.DataFrame(columns=list(KEYS)), np.empty((len(triplets), 0)))
    )


def require_same(runs: Sequence[Quantities]) -> None:
    """Refuse runs of different prompts or indicators.

    Raises
    ------
    UserError
        Naming the run and the first prompt that differs.
    """
    first = runs[0]
    for other in runs[1:]:
        here, there = (set(json.loads(run.prompts[0])) for run in (first, other))
        if here != there:
            raise UserError(
                f"{other.name}: expected the indicators of {first.name} ({', '.join(sorted(here))}), got "
                f"{', '.join(sorted(there))}: compare runs of one triplets.yaml"
            )
        alone = sorted(set(first.prompts) ^ set(other.prompts))
        if alone:
            owner = first.name if alone[0] in set(first.prompts) else other.name
            text = next(iter(json.loads(alone[0]).values()))
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
    """Every quantity that all runs have: its value in each, and its difference in each pair of them.

    Parameters
    ----------
    runs : sequence of Quantities
        Two or more, of the same prompts in any order.
    level, resamples, permutations, seed
        Of intervals (``envelope``) and sign flips over prompts. ``p_adjusted`` is max-T over all quantities of one
        kind and all pairs of runs.

    Returns
    -------
    (DataFrame, DataFrame)
        A row a run and quantity, with `VALUE_COLUMNS`; a row a pair of runs and quantity, with `DIFFERENCE_COLUMNS`,
        where ``difference`` is the second run's value less the first's. A quantity that all runs lack at a prompt is
        compared over the others.

    Raises
    ------
    UserError
        If prompts or indicators differ, or no quantity is common to all runs.
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
        run.values[np.ix_(np.argsort(np.array(run.prompts, object)), [own[key] for key in keys])]
        for run, own in zip(runs, places)
    ]
    sampling = {"level": level, "resamples": resamples, "seed": seed}
    named = pd.DataFrame(keys, columns=list(KEYS))
    own = [_of_run(run.name, named, part, sampling) for run, part in zip(runs, values)]
    differences = _differences([run.name for run in runs], named, values, permutations, sampling)
    return pd.concat(own, ignore_index=True), differences


def _of_run(name: str, keys: pd.DataFrame, values: NDArray[np.float64], sampling: dict) -> pd.DataFrame:
    size = effect_sizes(values, **sampling)
    ends = {"value": size.mean, "ci_low": size.mean_low, "ci_high": size.mean_high}
    return keys.assign(run=name, **ends, n_prompts=size.n, reason=size.mean_reason)[list(VALUE_COLUMNS)]


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
            means = [np.where(both, values[own], 0.0).sum(axis=0) / both.sum(axis=0) for own in (one, other)]
        tables.append(keys.assign(
            first=names[one], second=names[other], value_first=means[0], value_second=means[1],
            difference=size.mean, ci_low=size.mean_low, ci_high=size.mean_high,
            d_z=size.d_z, d_z_low=size.d_z_low, d_z_high=size.d_z_high,
            n_prompts=size.n, reason=size.mean_reason,
        ))  # fmt: skip
    table = pd.concat(tables, ignore_index=True)
    every = np.hstack([values[other] - values[one] for one, other in combinations(range(len(names)), 2)])
    table["p_value"], table["p_adjusted"] = np.nan, np.nan
    for kind in table["kind"].unique():
        rows = np.flatnonzero(table["kind"] == kind)
        test = sign_flip_test(every[:, rows], permutations=permutations, seed=sampling["seed"])
        table.loc[rows, "p_value"], table.loc[rows, "p_adjusted"] = test.p_value, test.p_adjusted
    return table[list(DIFFERENCE_COLUMNS)]
