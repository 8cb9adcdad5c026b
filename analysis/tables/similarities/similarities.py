"""Similarities of one metric in one space: the arrays that all statistics of similarities start from.

What is resampled and adjusted together are all sites and steps of one metric in one space (prompt, denoising or image;
Wu et al. 2025, section 4.1). Values stay as stored, in float32; statistics take them by blocks of columns, in float64.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from probes.config.schema import Config

PROMPT_SPACE = "prompt"  # no noise enters it
BLOCK_BYTES = 4 * 2**20  # of one pair's values in float64; no result depends on it


@dataclass(frozen=True)
class Similarities:
    """All values of one metric in one space.

    ``columns`` has ``site`` and ``step`` of each column, -1 where a site has no steps; ``prompts`` and ``seeds`` are
    ascending; ``values`` has the shape (n_pairs, n_prompts, n_seeds, n_columns), NaN where there is none.
    """

    space: str
    metric: str
    columns: pd.DataFrame
    pairs: list[str]
    prompts: NDArray[np.int64]
    seeds: NDArray[np.int64]
    values: NDArray

    def pair(self, first: str, second: str, indicators: Sequence[str]) -> NDArray[np.float64]:
        """Return the values of a pair, shape (n_prompts, n_seeds, n_columns); NaN if it was not compared."""
        name = pair_name(first, second, indicators)
        if name in self.pairs:
            return self.values[self.pairs.index(name)].astype(np.float64)
        return np.full(self.values.shape[1:], np.nan)

    def reach(self) -> NDArray[np.float64]:
        """Return how much two values of a column differ at most, over all pairs, prompts and seeds; 0 without values.

        By so much a prompt's difference could at most be other than 0, judging by all words of the run.
        """
        rows = self.values.reshape(-1, self.values.shape[3])
        low, high = (extreme.reduce(rows, axis=0, initial=np.nan) for extreme in (np.fmin, np.fmax))
        return np.nan_to_num(high.astype(np.float64) - low)

    def blocks(self, pairs: int = 1) -> Iterator[tuple[slice, Similarities]]:
        """Yield blocks of columns, of which so many pairs in float64 stay within `BLOCK_BYTES`; nothing is copied."""
        _, n_prompts, n_seeds, n_columns = self.values.shape
        width = max(1, BLOCK_BYTES // (8 * max(n_prompts * n_seeds * pairs, 1)))
        for start in range(0, n_columns, width):
            block = slice(start, min(start + width, n_columns))
            columns = self.columns.iloc[block].reset_index(drop=True)
            yield block, replace(self, columns=columns, values=self.values[..., block])

    def at(self, columns: NDArray[np.int64]) -> Similarities:
        """Return some of their columns."""
        own = self.columns.iloc[columns].reset_index(drop=True)
        return replace(self, columns=own, values=self.values[..., columns])

    def over_units(self, config: Config) -> Similarities:
        """Return them with what intervals are over as prompts: of a run of one prompt, its seeds (`Config.unit`)."""
        if config.unit == "prompt" or self.space == PROMPT_SPACE:
            return self
        numbers = np.arange(len(self.seeds))
        return replace(
            self, prompts=numbers, seeds=np.zeros(1, int), values=self.values.transpose(0, 2, 1, 3)
        )

    def without_seed(self, number: int) -> Similarities:
        """Return them without the seed of this index."""
        rest = np.delete(self.seeds, number)
        return replace(self, seeds=rest, values=np.delete(self.values, number, axis=2))


def pair_name(first: str, second: str, indicators: Sequence[str]) -> str:
    """Return the name of a pair as in tables: in the order of the indicators.

    >>> pair_name("masculine", "neutral", ["neutral", "feminine", "masculine"])
    'neutral-masculine'
    """
    return "-".join(sorted((first, second), key=list(indicators).index))


def from_table(table: pd.DataFrame) -> list[Similarities]:
    """Return the similarities of a table with a row per value.

    Its columns are ``space``, ``site``, ``step``, ``metric``, ``triplet``, ``seed``, ``pair`` and ``value``.
    """
    prompts, seeds = (np.sort(table[name].unique()) for name in ("triplet", "seed"))
    found = []
    for (space, metric), rows in table.groupby(["space", "metric"], observed=True, sort=False):
        columns, pairs = rows[["site", "step"]].drop_duplicates(), list(rows["pair"].unique())
        index = pd.MultiIndex.from_product([pairs, prompts, seeds])
        values = rows.pivot(index=["pair", "triplet", "seed"], columns=["site", "step"], values="value")
        values = values.reindex(index=index, columns=pd.MultiIndex.from_frame(columns)).to_numpy()
        values = values.reshape(len(pairs), len(prompts), len(seeds), len(columns))
        found.append(
            Similarities(space, metric, columns.reset_index(drop=True), pairs, prompts, seeds, values)
        )
    return found


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
    if config.unit == "prompt" or not {"n_prompts", "p_control"} & {*table}:
        return table
    of_prompts = table["space"] == PROMPT_SPACE if "space" in table else False
    return table.assign(unit=np.where(of_prompts, "prompt", config.unit))
