"""How alike are two members of a triplet? The similarities of a run as matrices, one family in memory at a time.

A *family* is what is resampled and adjusted together: all sites and steps of one metric in one space (prompt, denoising
or image; Wu et al. 2025, section 4.1). Its values go from where they are stored to float32 arrays; statistics take them
by blocks of columns (`Family.blocks`), in float64. All statistics of similarities start here; where the values are
stored is the business of `analysis.tables.similarities.stored`. A tidy table of a few (one row per number, with
`COLUMNS`), such as co-occurrence similarities, does as well (`similarities`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

COLUMNS = (
    *("space", "site", "step", "timestep", "metric", "triplet", "seed", "pair", "value"),
    *("reason", "version"),
)
BLOCK_BYTES = 32 * 2**20  # of one pair's values in float64; no result depends on it

Where = Callable[[str, str, str], bool]  # of a space, a site and a metric


def pair_name(first: str, second: str, indicators: Sequence[str]) -> str:
    """Name a pair as the tables do: in the order of the indicators.

    >>> pair_name("masculine", "neutral", ["neutral", "feminine", "masculine"])
    'neutral-masculine'
    """
    return "-".join(sorted((first, second), key=list(indicators).index))


@dataclass(frozen=True)
class Family:
    """All values of one metric in one space.

    ``columns`` has ``site`` and ``step`` of each column, -1 where a site has no steps. ``prompts`` are the triplets of
    the rows, ascending: those of all families that were chosen together, so that every family sees the same resamples.
    ``arrays`` are side by side all columns, each ``(n_pairs, n_prompts, n_seeds, n_columns of a site)``, as stored in
    float32; NaN where there is no value.
    """

    space: str
    metric: str
    columns: pd.DataFrame
    pairs: list[str]
    prompts: NDArray[np.int64]
    arrays: list[NDArray]

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Number of pairs, prompts, seeds and columns."""
        return *self.arrays[0].shape[:3], len(self.columns)

    @property
    def values(self) -> NDArray[np.float64]:
        """All values, shape (n_pairs, n_prompts, n_seeds, n_columns); of a large family take `blocks`."""
        return np.concatenate(self.arrays, axis=3, dtype=np.float64)

    def pair(self, first: str, second: str, indicators: Sequence[str]) -> NDArray[np.float64]:
        """Return the values of a pair, shape (n_prompts, n_seeds, n_columns); NaN if it was not compared."""
        name = pair_name(first, second, indicators)
        if name in self.pairs:
            row = self.pairs.index(name)
            return np.concatenate([array[row] for array in self.arrays], axis=2, dtype=np.float64)
        return np.full(self.shape[1:], np.nan)

    def reach(self) -> NDArray[np.float64]:
        """Return how much two values of a column differ at most, over all pairs, prompts and seeds; shape (n_columns,).

        By so much a prompt's difference could at most be other than 0, judging by all words of the run. 0 where a
        column has no value.
        """
        low, high = (
            np.concatenate(
                [
                    smaller.reduce(array.reshape(-1, array.shape[3]), axis=0, initial=np.nan)
                    for array in self.arrays
                ],
                dtype=np.float64,
            )
            for smaller in (np.fmin, np.fmax)
        )
        return np.nan_to_num(high - low)

    def blocks(self, pairs: int = 1) -> Iterator[tuple[slice, Family]]:
        """Yield blocks of columns and their families, so that so many pairs in float64 stay within `BLOCK_BYTES`.

        Nothing is copied.
        """
        _, n_prompts, n_seeds, n_columns = self.shape
        width = max(1, BLOCK_BYTES // (8 * max(n_prompts * n_seeds * pairs, 1)))
        for start in range(0, n_columns, width):
            stop, parts, place = min(start + width, n_columns), [], 0
            for array in self.arrays:
                low, high = max(start - place, 0), min(stop - place, array.shape[3])
                if low < high:
                    parts.append(array[..., low:high])
                place += array.shape[3]
            columns = self.columns.iloc[start:stop].reset_index(drop=True)
            yield slice(start, stop), replace(self, columns=columns, arrays=parts)

    def over_seeds(self) -> Family:
        """Return the family of one prompt with a seed in the place of each prompt, numbered in their order."""
        arrays = [array.transpose(0, 2, 1, 3) for array in self.arrays]
        return replace(self, prompts=np.arange(self.shape[2]), arrays=arrays)

    def without_seed(self, number: int) -> Family:
        """Return the family without the seed of this place."""
        return replace(self, arrays=[np.delete(array, number, axis=2) for array in self.arrays])


class Similarities(ABC):
    """Similarities of a run: which there are, and their values when they are asked for."""

    @abstractmethod
    def families(self) -> Iterator[Family]:
        """Yield the families one after another, in the order in which they are stored.

        Prompts and seeds are those of all rows chosen.
        """

    @property
    @abstractmethod
    def keys(self) -> list[tuple[str, str, str]]:
        """Space, site and metric of all that there is, in order."""

    @abstractmethod
    def select(self, where: Where) -> Similarities:
        """Return those of a space, site and metric that `where` accepts."""

    @property
    @abstractmethod
    def seeds(self) -> list[int]:
        """Seeds that there are, ascending."""

    @property
    def metrics(self) -> list[str]:
        """Metrics that there are, by name."""
        return sorted({metric for _, _, metric in self.keys})

    def only(self, keys: Collection[tuple[str, str, str]]) -> Similarities:
        """Return those of these spaces, sites and metrics."""
        return self.select(lambda *key: key in keys)

    def family(self, space: str, site: str, metric: str) -> Family | None:
        """Return the values of one site and metric, prompts and seeds its own; None where there are none."""
        return next(self.only({(space, site, metric)}).families(), None)


class TidySimilarities(Similarities):
    """Similarities of a tidy table: one row per number, with `COLUMNS`; nothing depends on its last two."""

    def __init__(self, table: pd.DataFrame):
        self.table = table

    @property
    def keys(self) -> list[tuple[str, str, str]]:
        """Space, site and metric of all that there is, in order."""
        return list(dict.fromkeys(self._places()))

    @property
    def seeds(self) -> list[int]:
        """Seeds that there are, ascending."""
        return [int(seed) for seed in np.sort(self.table["seed"].unique())]

    def select(self, where: Where) -> TidySimilarities:
        """Return some of the similarities, see `Similarities.select`."""
        return TidySimilarities(self.table[np.array([where(*place) for place in self._places()], bool)])

    def families(self) -> Iterator[Family]:
        """Yield the families one after another."""
        table = self.table
        prompts, seeds = (np.sort(table[name].unique()) for name in ("triplet", "seed"))
        for (space, metric), rows in table.groupby(["space", "metric"], observed=True, sort=False):
            if rows.duplicated(["pair", "triplet", "seed", "site", "step"]).any():
                raise ValueError(f"pairs: {space}, {metric}: expected each value once, found some twice")
            places, pairs = rows[["site", "step"]].drop_duplicates(), list(rows["pair"].unique())
            columns = pd.DataFrame(
                {"site": places["site"].to_numpy(object), "step": places["step"].to_numpy(np.int64)}
            )
            values = rows.pivot(index=["pair", "triplet", "seed"], columns=["site", "step"], values="value")
            values = values.reindex(
                index=pd.MultiIndex.from_product([pairs, prompts, seeds]),
                columns=pd.MultiIndex.from_frame(columns),
            )
            shape = (len(pairs), len(prompts), len(seeds), len(columns))
            yield Family(
                str(space),
                str(metric),
                columns,
                [str(name) for name in pairs],
                prompts,
                [values.to_numpy(np.float64).reshape(shape)],
            )

    def _places(self) -> list[tuple[str, str, str]]:
        return list(zip(*(self.table[name].astype(str) for name in ("space", "site", "metric"))))


def similarities(of: Similarities | pd.DataFrame) -> Similarities:
    """Return similarities as they are, and a tidy table of them as `TidySimilarities`."""
    return TidySimilarities(of) if isinstance(of, pd.DataFrame) else of
