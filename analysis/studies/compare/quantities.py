"""Measurements of a run, by prompt: similarities and gaps, and presence of objects."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.metrics.cooccurrence import ALL, counted
from analysis.metrics.registry import definition, headline_metrics
from analysis.stats.bootstrap import prompt_means
from analysis.study import comparison, contrasts, indicators
from analysis.tables.object_tables import observed_images
from analysis.tables.registry import read
from analysis.tables.similarities.stored import StoredSimilarities
from probes.runs.run import Run

KEYS = ("kind", "what", "space", "site", "step", "metric")


@dataclass(frozen=True)
class Quantities:
    """Measurements of a run, by prompt.

    ``prompts`` are the texts of each prompt, by indicator, as JSON; ``keys`` has one row per quantity: ``kind`` is
    *gap* (``what`` the contrast; positive: the reference is nearer to its first), *similarity* (``what`` the pair) or
    *presence* (``what`` the contrast, ``metric`` the object: share of the images with it, first less second);
    ``values``, of shape (n_prompts, n_quantities), are means over seeds, NaN where there is none.
    """

    name: str
    prompts: list[str]
    keys: pd.DataFrame
    values: NDArray[np.float64]


def quantities(run: Run, *, name: str | None = None, every: bool = False) -> Quantities:
    """Read what a run measured: headline metrics at the end of each space, or at `every` site and step, and objects."""
    samples = run.samples(["triplet", "indicator", "prompt"]).drop_duplicates(["triplet", "indicator"])
    texts = {
        triplet: json.dumps(dict(sorted(zip(rows["indicator"], rows["prompt"]))), ensure_ascii=False)
        for triplet, rows in samples.groupby("triplet")
    }
    keys, values = _similarities(run, np.array(sorted(texts)), every)
    if "objects" in run.tables():
        object_keys, presence = _presence(run, np.array(sorted(texts)))
        keys, values = pd.concat([keys, object_keys], ignore_index=True), np.hstack([values, presence])
    return Quantities(name or run.config.name, [texts[triplet] for triplet in sorted(texts)], keys, values)


def _similarities(run: Run, triplets: NDArray, every: bool) -> tuple[pd.DataFrame, NDArray[np.float64]]:
    """Gaps and the similarities of the reference, by prompt."""
    config, pairs = run.config, StoredSimilarities(run)
    names, reference = [member.name for member in indicators(config)], config.reference
    wanted = {metric.place for metric in headline_metrics(config.measure.text_readout)}
    keys, values = [], []
    for family in pairs.families(None if every else wanted):
        row = np.searchsorted(triplets, family.prompts)
        sign = definition(family.metric).sign
        near = {
            name: prompt_means(family.pair(reference, name, names)) for name in names if name != reference
        }
        measured = [("similarity", f"{reference}-{name}", value) for name, value in near.items()]
        measured += [
            ("gap", f"{one}-{other}", sign * (near[one] - near[other])) for one, other in contrasts(config)
        ]
        for kind, what, value in measured:
            table = family.columns.assign(kind=kind, what=what, space=family.space, metric=family.metric)
            keys.append(table[list(KEYS)])
            values.append(np.full((len(triplets), value.shape[1]), np.nan))
            values[-1][row] = value
    return _side_by_side(keys, values, len(triplets))


def _presence(run: Run, triplets: NDArray) -> tuple[pd.DataFrame, NDArray[np.float64]]:
    """Presence of every object but individuals, first less second indicator of each contrast, by prompt."""
    chosen = comparison(run.config)
    table = counted(observed_images(run), read(run, "objects"), chosen.names, without=chosen.individuals)[ALL]
    row = np.searchsorted(triplets, table.prompts.astype(triplets.dtype))
    keys, values = [], []
    for one, other in contrasts(run.config):
        difference = table.presence[:, table.column(one)] - table.presence[:, table.column(other)]
        values.append(np.full((len(triplets), len(table.objects)), np.nan))
        values[-1][row] = 0.0
        values[-1][row[table.prompt], table.object] = difference / table.seeds[table.prompt]
        place = {
            "kind": "presence",
            "what": f"{one}-{other}",
            "space": "image",
            "site": "objects",
            "step": -1,
        }
        keys.append(pd.DataFrame(place | {"metric": table.objects})[list(KEYS)])
    return _side_by_side(keys, values, len(triplets))


def _side_by_side(
    keys: list[pd.DataFrame], values: list[NDArray[np.float64]], n_prompts: int
) -> tuple[pd.DataFrame, NDArray[np.float64]]:
    """Keys one after another and values beside one another; no quantity where there is none to join."""
    if not keys:
        return pd.DataFrame(columns=list(KEYS)), np.empty((n_prompts, 0))
    return pd.concat(keys, ignore_index=True), np.hstack(values)
