"""What the tables of similarities and of gaps have in common: rows of one family (space and metric) after another."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pandas as pd

from analysis.metrics.registry import definition
from probes.config import Config

INTERVAL = "envelope"
PROMPT_SPACE = "prompt"  # no noise enters it


def shares_noise(config: Config) -> bool:
    """Return whether all prompts of a seed share their noise."""
    return config.sampler.noise == "shared"


def named(table: pd.DataFrame, space: str, metric: str, columns: Sequence[str]) -> pd.DataFrame:
    """Return the columns of a table of one family, its space, metric and version among them."""
    table["space"], table["metric"] = space, metric
    table["version"] = definition(metric).version
    return table[list(columns)]


def stacked(tables: Iterable[pd.DataFrame], columns: Sequence[str]) -> pd.DataFrame:
    """Put tables of families below each other; without any, one of these columns and no row."""
    tables = [table for table in tables if len(table)]
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=list(columns))
