"""What the tables of similarities and of gaps have in common: rows of one family (space and metric) after another."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

from analysis.metrics.registry import definition
from probes.config.schema import Config

PROMPT_SPACE = "prompt"  # no noise enters it
_OVER_UNITS = {"n_prompts", "p_control"}  # a table with one of these columns holds intervals or p-values


def shares_noise(config: Config) -> bool:
    """Return whether all prompts of a seed share their noise; seeds of one prompt are independent."""
    return config.sampler.noise == "shared" and config.unit == "prompt"


def by_unit(rows: pd.DataFrame, config: Config) -> pd.DataFrame:
    """Return rows with what intervals are over in their column ``triplet``: of a run of one prompt, its seeds.

    Source: Wu et al. 2025, section 7.1: one prompt, a thousand seeds.
    """
    return rows if config.unit == "prompt" else rows.assign(triplet=rows["seed"], seed=0)


def with_unit(table: pd.DataFrame, config: Config) -> pd.DataFrame:
    """Return a table; of a run of one prompt, and if it holds intervals or p-values, with what these are over."""
    if config.unit == "prompt" or _OVER_UNITS.isdisjoint(table.columns):
        return table
    of_prompts = table["space"] == PROMPT_SPACE if "space" in table else False
    return table.assign(unit=np.where(of_prompts, "prompt", config.unit))


def named(table: pd.DataFrame, space: str, metric: str, columns: Sequence[str]) -> pd.DataFrame:
    """Return the columns of a table of one family, its space, metric and version among them."""
    table["space"], table["metric"] = space, metric
    table["version"] = definition(metric).version
    return table[list(columns)]


def stacked(tables: Iterable[pd.DataFrame], columns: Sequence[str]) -> pd.DataFrame:
    """Put tables of families below each other; without any, one of these columns and no row."""
    tables = [table for table in tables if len(table)]
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=list(columns))
