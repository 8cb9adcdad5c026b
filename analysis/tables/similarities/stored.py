"""The similarities that a run stores: inside the model in ``captures/``, of its pictures in ``image_similarities``.

Part files are read one by one, with the columns that are asked for alone.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from analysis.metrics.registry import NO_STEP, definition
from analysis.tables.similarities.pictures import (
    FEATURE_METRICS,
    IMAGE_METRICS,
    IMAGE_SITE,
    IMAGE_TABLE,
    INDEX,
    OPTIONAL_METRICS,
)
from analysis.tables.similarities.similarities import Similarities
from hooks.architectures.addresses import has_steps, space
from probes.errors import UserError
from probes.runs.run import Run

TIMESTEP_TABLE = "timesteps"
FIXED = (*INDEX, "first", "second", "timesteps")  # columns of captures/ that are no site
Key = tuple[str, str, str]  # space, site and metric


def timesteps(run: Run) -> dict[int, float]:
    """Return the timestep of each step, as it was stored when the run was measured."""
    table = run.table(TIMESTEP_TABLE, ("step", "timestep"))
    return {int(step): float(time) for step, time in zip(table["step"], table["timestep"])}


class StoredSimilarities:
    """The similarities that a run stores.

    ``captures/`` may be missing, as in a run made of the pictures of a closed model; `images` (table
    ``image_similarities``) and `samples` are given where they were read already.

    Attributes
    ----------
    keys : list of (str, str, str)
        Space, site and metric of all that is stored, in order.
    timesteps : dict of int to float
        Of each call of the denoiser.
    """

    def __init__(self, run: Run, images: pd.DataFrame | None = None, samples: pd.DataFrame | None = None):
        self.run = run
        self.images = run.table(IMAGE_TABLE) if images is None else images
        self.timesteps: dict[int, float] = {}
        self._rows = [self._read_index(), self.images[[*INDEX]]]  # of captures, and of pictures
        self._columns = self._captured_columns() if len(self._rows[0]) else {}
        held = [name for name in (*IMAGE_METRICS, *OPTIONAL_METRICS, *FEATURE_METRICS) if name in self.images]
        pictures = [(space(IMAGE_SITE), IMAGE_SITE, name) for name in held] if len(self.images) else []
        self.keys: list[Key] = [*self._columns, *pictures]
        every = pd.concat([rows for rows in self._rows if len(rows)] or self._rows)
        self._prompts, self._seeds = (np.unique(every[name].to_numpy(np.int64)) for name in INDEX[:2])
        self._pairs = [list(rows["pair"].unique()) for rows in self._rows]
        self._places = [
            (
                pd.Index(pairs).get_indexer(rows["pair"]),
                np.searchsorted(self._prompts, rows["triplet"]),
                np.searchsorted(self._seeds, rows["seed"]),
            )
            for rows, pairs in zip(self._rows, self._pairs)
        ]
        if samples is None and run.parts("samples"):
            samples = run.samples(["triplet", "seed", "indicator", "fault"])
        # what the model held of an image at fault is no value either
        faulty = pd.DataFrame() if samples is None else samples[samples["fault"].notna()]
        among = [
            (row.triplet, row.seed, pair)
            for row in faulty.itertuples()
            for other in run.config.indicators
            for pair in (f"{row.indicator}-{other}", f"{other}-{row.indicator}")
        ]
        self._at_fault = [
            pd.MultiIndex.from_frame(rows).isin(among) if among else np.full(len(rows), False)
            for rows in self._rows
        ]

    def __getstate__(self) -> dict[str, Any]:
        """Return what another process needs: neither what the run keeps of its pictures nor the names of rows."""
        return self.__dict__ | {"run": Run(self.run.path, self.run.meta), "_rows": []}

    def families(self, keys: Collection[Key] | None = None) -> list[Similarities]:
        """Return the similarities of some keys, all by default, one of each space and metric that holds a value."""
        chosen = [key for key in self.keys if keys is None or key in keys]
        captured = self._read_captures([key for key in chosen if key in self._columns])
        groups: dict[tuple[str, str], list[Key]] = {}
        for key in chosen:
            groups.setdefault((key[0], key[2]), []).append(key)
        found = []
        for (where, metric), own in groups.items():
            kind = int(own[0] not in self._columns)
            parts = [(slice(None), {own[0]: self.images[[metric]].to_numpy()})] if kind else captured
            widths = [max((matrices[key].shape[1] for _, matrices in parts), default=0) for key in own]
            columns = [
                (site, step if has_steps(site) else NO_STEP)
                for (_, site, _), width in zip(own, widths)
                for step in range(width)
            ]
            pairs, at_fault = self._pairs[kind], self._at_fault[kind]
            shape = (len(pairs), len(self._prompts), len(self._seeds), len(columns))
            values = np.full(shape, np.nan, np.float32)
            for rows, matrices in parts:
                place = tuple(axis[rows] for axis in self._places[kind])
                for key, start in zip(own, np.cumsum([0, *widths])):
                    matrix = matrices.pop(key)  # so that it is freed
                    matrix = np.where(at_fault[rows, None], np.float32(np.nan), matrix)
                    values[(*place, slice(start, start + matrix.shape[1]))] = matrix
            if values.size:
                table = pd.DataFrame(columns, columns=["site", "step"])
                found.append(Similarities(where, metric, table, pairs, self._prompts, self._seeds, values))
        return found

    def family(self, space: str, site: str, metric: str) -> Similarities | None:
        """Return the values of one site and metric; None where there are none."""
        return next(iter(self.families([(space, site, metric)])), None)

    def _captured_columns(self) -> dict[Key, str]:
        """The column of ``captures/`` of each key."""
        found = {}
        for column in self.run.columns("captures"):
            if column in FIXED:
                continue
            site, separator, metric = column.rpartition(":")
            try:  # parts made elsewhere may name sites and metrics that there are not
                if not separator:
                    raise ValueError(f"expected a column <site>:<metric>, got {column!r}")
                definition(metric)
                found[space(site), site, metric] = column
            except ValueError as error:
                place = self.run.path / "captures"
                raise UserError(f"{place}: {error}: mend or delete the column") from None
        return found

    def _read_index(self) -> pd.DataFrame:
        """The triplet, seed and pair of all rows of ``captures/``; the timesteps are kept."""
        found = [self.images[[*INDEX]].iloc[:0]]
        columns = [*INDEX, "timesteps"]
        for table in self.run.part_tables("captures", columns) if self.run.parts("captures") else ():
            found.append(table.select(INDEX).to_pandas())
            times = list_matrix(table["timesteps"])
            for step in np.flatnonzero(~np.isnan(times).all(axis=0)):
                self.timesteps.setdefault(int(step), float(times[~np.isnan(times[:, step]), step][0]))
        rows = pd.concat(found, ignore_index=True)
        if rows.duplicated().any():
            triplet, seed, pair = rows[rows.duplicated()].iloc[0]
            raise UserError(
                f"{self.run.path / 'captures'}: expected every triplet, seed and pair once, got triplet {triplet}, seed"
                f" {seed}, {pair} twice: delete the part that does not belong here"
            )
        return rows

    def _read_captures(self, keys: Sequence[Key]) -> list[tuple[slice, dict[Key, NDArray[np.float32]]]]:
        """The rows of every part file, and of each key its matrix of values, a row each."""
        found, start = [], 0
        names = [self._columns[key] for key in keys]
        for table in self.run.part_tables("captures", names) if keys else ():
            matrices = {key: list_matrix(table[name]) for key, name in zip(keys, names)}
            for key, matrix in matrices.items():
                if matrix.shape[1] > 1 and not has_steps(key[1]):
                    raise UserError(
                        f"{self.run.path / 'captures'}: {self._columns[key]}: expected one value per pair, got"
                        f" {matrix.shape[1]}: mend or delete the column"
                    )
            found.append((slice(start, start + len(table)), matrices))
            start += len(table)
        return found


def list_matrix(column: pa.ChunkedArray) -> NDArray[np.float32]:
    """Return lists as the rows of a matrix; what is missing at the end of a list, or altogether, is NaN.

    >>> list_matrix(pa.chunked_array([[[0.5, 1.0], None, [0.25]]])).tolist()
    [[0.5, 1.0], [nan, nan], [0.25, nan]]
    """
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy()
    flat = pc.list_flatten(column).to_numpy().astype(np.float32)
    width = int(lengths.max(initial=0))
    matrix = np.full((len(lengths), width), np.nan, np.float32)
    matrix[np.arange(width) < lengths[:, None]] = flat
    return matrix
