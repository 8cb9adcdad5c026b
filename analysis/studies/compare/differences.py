"""Differences of two models on the same prompts, by quantity.

Runs are paired by prompt: a prompt that is hard for one model is mostly hard for the other, and what it adds to both
falls out of the difference. Seeds are averaged within a run, so runs may have other seeds, or more. Null hypothesis of
the test: on each prompt the two models could have changed places.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import combinations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.metrics.cooccurrence import ALL, counted
from analysis.metrics.registry import headline_metrics
from analysis.stats.bootstrap import bootstrap_interval
from analysis.stats.permutation import sign_flip_test
from analysis.study import comparison, contrasts
from analysis.tables.object_tables import observed_images
from analysis.tables.registry import read
from probes.errors import UserError, parse_json
from probes.runs.run import Run

KEYS = ("kind", "what", "space", "site", "step", "metric")
FEWEST = (
    6  # prompts: of fewer no sign flip differs from chance at 0.05, and an interval of a mean says nothing
)
TOO_FEW = "too few prompts to say"
ESTIMATE = ("ci_low", "ci_high", "n_prompts", "reason")
VALUE_COLUMNS = ("run", *KEYS, "value", *ESTIMATE)
DIFFERENCE_COLUMNS = (
    *("first", "second", *KEYS, "value_first", "value_second", "difference"),
    *(*ESTIMATE[:2], "p_value", "p_adjusted", *ESTIMATE[2:]),
)


def prompt_values(run: Run) -> pd.DataFrame:
    """The values of a run by prompt: its headline gaps (table ``gap_prompts``), and objects where they were looked for.

    The index are the texts of each prompt, by indicator, as JSON; columns are `KEYS`: ``kind`` is *gap* (``what`` the
    contrast; positive: the reference is nearer to its first) or *presence* (``metric`` the object: share of the images
    with it, first less second indicator). Values are means over seeds, NaN where there is none.
    """
    config = run.config
    headline = [metric.place for metric in headline_metrics(config.measure.text_readout)]
    gaps = read(run, "gap_prompts").assign(kind="gap").rename(columns={"contrast": "what"})
    gaps = gaps[pd.MultiIndex.from_frame(gaps[["space", "site", "metric"]]).isin(headline)]
    columns = pd.MultiIndex.from_frame(gaps[list(KEYS)].drop_duplicates())
    tables = [
        gaps.groupby(["triplet", *KEYS], observed=True)["gap"]
        .mean()
        .unstack(list(KEYS))
        .reindex(columns=columns)
    ]
    if "objects" in run.tables():
        chosen = comparison(config)
        objects = counted(
            observed_images(run), read(run, "objects"), chosen.names, without=chosen.individuals
        )[ALL]
        for contrast in contrasts(config):
            first, second = (objects.presence[:, objects.column(side)] for side in contrast)
            shares = np.zeros((len(objects.prompts), len(objects.objects)))
            shares[objects.prompt, objects.object] = (first - second) / objects.seeds[objects.prompt]
            keys = [
                ("presence", "-".join(contrast), "image", "objects", -1, name) for name in objects.objects
            ]
            columns = pd.MultiIndex.from_tuples(keys, names=KEYS)
            tables.append(pd.DataFrame(shares, objects.prompts.astype(int), columns))
    samples = run.samples(["triplet", "indicator", "prompt"]).drop_duplicates(["triplet", "indicator"])
    texts = {
        triplet: json.dumps(dict(sorted(zip(rows["indicator"], rows["prompt"]))), ensure_ascii=False)
        for triplet, rows in samples.groupby("triplet")
    }
    values = pd.concat([pd.DataFrame(index=sorted(texts)), *tables], axis=1)
    values.columns = pd.MultiIndex.from_tuples(values.columns, names=KEYS)
    return values.rename(index=texts).sort_index()


def require_same(runs: Mapping[str, pd.DataFrame]) -> None:
    """Refuse runs of different prompts or indicators."""
    (first, values), *others = runs.items()
    for other, table in others:
        words = [set(parse_json(one.index[0])) for one in (values, table)]
        if words[0] != words[1]:
            raise UserError(
                f"{other}: expected the indicators of {first} ({', '.join(sorted(words[0]))}), got "
                f"{', '.join(sorted(words[1]))}: compare runs of one triplets.yaml"
            )
        alone = sorted(set(values.index) ^ set(table.index))
        if alone:
            text = next(iter(parse_json(alone[0]).values()))
            raise UserError(
                f"{other}: expected the prompts of {first}, {len(alone)} stand in one of the two only "
                f"(first: {text!r}, in {first if alone[0] in values.index else other}): compare runs of one"
                " triplets.yaml"
            )


def compare(
    runs: Mapping[str, pd.DataFrame],
    *,
    level: float = 0.95,
    resamples: int = 2000,
    permutations: int = 10000,
    seed: int = 0,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return every quantity that all runs have: its value in each, and its difference in each pair of them.

    `runs` are values by prompt (`prompt_values`), by name. One row per run and quantity (`VALUE_COLUMNS`), and one per
    pair of runs and quantity (`DIFFERENCE_COLUMNS`), where ``difference`` is the second run's value less the first's,
    with bootstrap intervals and sign flips over prompts; ``p_adjusted`` is max-T over all quantities of one kind and
    all pairs of runs. A quantity that all runs lack at a prompt is compared over the others; one of fewer than `FEWEST`
    prompts has no intervals.
    """
    require_same(runs)
    keys = next(iter(runs.values())).columns
    for table in runs.values():
        keys = keys[keys.isin(table.columns)]
    if keys.empty:
        raise UserError(
            f"{', '.join(runs)}: expected a quantity that all of them have, found none: "
            "measure them with the same sites"
        )
    sampling = {"level": level, "resamples": resamples, "seed": seed}
    values = {name: table.sort_index()[keys].to_numpy(float) for name, table in runs.items()}
    tables = [_estimates(keys, table, "value", sampling).assign(run=name) for name, table in values.items()]
    differences, moved = [], []
    for first, second in combinations(values, 2):
        difference = values[second] - values[first]
        both = pd.DataFrame(np.where(np.isnan(difference), np.nan, 1.0))
        table = _estimates(keys, difference, "difference", sampling)
        for side, name in (("first", first), ("second", second)):
            table[side], table[f"value_{side}"] = name, (both * values[name]).mean().to_numpy()
        differences.append(table)
        moved.append(difference)
    table, every = pd.concat(differences, ignore_index=True), np.hstack(moved)
    for _, rows in table.groupby("kind"):
        test = sign_flip_test(every[:, rows.index], permutations=permutations, seed=seed)
        table.loc[rows.index, "p_value"], table.loc[rows.index, "p_adjusted"] = test.p_value, test.p_adjusted
    return pd.concat(tables, ignore_index=True)[list(VALUE_COLUMNS)], table[list(DIFFERENCE_COLUMNS)]


def _estimates(
    keys: pd.MultiIndex, values: NDArray[np.float64], name: str, sampling: Mapping[str, float]
) -> pd.DataFrame:
    """The mean of every quantity over prompts, with its interval where there are at least `FEWEST`."""
    interval = bootstrap_interval(values, **sampling)
    few = (interval.n > 0) & (interval.n < FEWEST)
    return keys.to_frame(index=False).assign(
        **{name: interval.mean},
        ci_low=np.where(few, np.nan, interval.low),
        ci_high=np.where(few, np.nan, interval.high),
        n_prompts=interval.n,
        reason=np.where(few, TOO_FEW, interval.reason),
    )
