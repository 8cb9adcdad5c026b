"""Activations of a run by place: a site, at sites of tokens with a group of positions. And who plays which role."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.study import contrasts
from probes.config.schema import Config
from probes.errors import UserError
from probes.runs.run import Run

# address of a site, group of token positions; no group ("") where the mean is over space
Place = tuple[str, str]
MINIMUM = 4  # prompts, of which some must be held out


@dataclass(frozen=True)
class Roles:
    """Indicators of a run by what a probe does with them: it tells `first` (label 1) from `second` (label 0)."""

    first: str
    second: str
    reference: str
    synonyms: dict[str, float]  # other words with the label of the indicator whose meaning they have


@dataclass(frozen=True)
class Activations:
    """Pooled activations by place: site, and group of token positions."""

    samples: pd.DataFrame  # one row per image: ``sample_id``, ``triplet``, ``seed``, ``indicator``
    values: dict[Place, NDArray[np.float32]]  # (n_samples, calls, channels); NaN where an image has none
    timesteps: dict[Place, list[float]]  # one a call; NaN at sites that are read once


def roles(config: Config) -> Roles:
    """The roles of a run's indicators: its first contrast, its reference, and controls of the contrast's words."""
    pairs = contrasts(config)
    if not pairs:
        raise UserError(f"{config.name}: expected a contrast of two words to tell apart, found none: add one")
    first, second = pairs[0]
    labels = {first: 1.0, second: 0.0}
    synonyms = {
        name: labels[str(entry.control)]
        for name, entry in config.indicators.items()
        if entry.control in labels and name not in labels
    }
    if set(synonyms.values()) != {0.0, 1.0}:
        synonyms = {}
    return Roles(first, second, config.reference, synonyms)


def require_prompts(name: str, prompts: int) -> None:
    """Raise a UserError where there are too few prompts to hold some out."""
    if prompts < MINIMUM:
        raise UserError(
            f"{name}: expected at least {MINIMUM} prompts, got {prompts}: add some, or raise --limit"
        )


def read(run: Run, sites: Sequence[str] = ()) -> Activations:
    """The pooled activations of a run, of all sites or those named, without images at fault.

    All of them are held in memory, as many bytes as the folder ``pooled/`` has.
    """
    samples = run.samples(["sample_id", "triplet", "seed", "indicator", "fault"])
    samples = samples[samples["fault"].isna()].drop(columns="fault").reset_index(drop=True)
    number = dict(zip(samples["sample_id"], range(len(samples))))
    values: dict[Place, NDArray[np.float32]] = {}
    timesteps: dict[Place, list[float]] = {}
    patterns = [pattern.removeprefix("+") for pattern in sites] or ["*"]

    for table in run.part_tables("pooled"):
        rows = table.select(["sample_id", "site", "group", "values", "timesteps"]).to_pandas()
        wanted = {site for site in rows["site"].unique() if any(fnmatchcase(site, one) for one in patterns)}
        rows = rows[rows["sample_id"].isin(number) & rows["site"].isin(wanted)]
        for place, of_place in rows.groupby([rows["site"], rows["group"].fillna("")], sort=False):
            times = [float(time) for time in of_place["timesteps"].iloc[0]]
            vectors = np.stack(of_place["values"].to_list()).reshape(len(of_place), len(times), -1)
            if place not in values:
                timesteps[place] = times
                values[place] = np.full((len(samples), *vectors.shape[1:]), np.nan, np.float32)
            values[place][of_place["sample_id"].map(number)] = vectors
    if not values:
        raise UserError(
            f"{run.path / 'pooled'}: expected activations of {' '.join(patterns)!s:.120}, found none:"
            " name other --sites"
        )
    return Activations(samples, values, timesteps)
