"""The similarities that a run stores: captures of the model, part file by part file, and those of its pictures.

Similarities inside the model were reduced while it ran and are taken from ``captures/`` as they are; those of stored
pictures are `analysis.tables.similarities.pictures`. No table of one row per number is made of them, but for what is
asked for by name (`tidy`).

Sites without steps are few numbers a pair and are kept in memory; those with steps are read when their family is asked
for, a part file at a time.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from analysis.metrics.registry import NO_STEP, definition
from analysis.tables.similarities.families import PROMPT_SPACE
from analysis.tables.similarities.pictures import (
    FEATURE_METRICS,
    IMAGE_METRICS,
    IMAGE_SITE,
    IMAGE_TABLE,
    OPTIONAL_METRICS,
)
from analysis.tables.similarities.rows import INDEX, SimilarityRows, faulty_images
from analysis.tables.similarities.similarities import COLUMNS, Family, Similarities, Where
from hooks.architectures.addresses import has_steps, space
from probes.errors import UserError
from probes.runs.images import fault_reason
from probes.runs.run import Run

TIMESTEP_TABLE = "timesteps"
FIXED = (*INDEX, "first", "second", "timesteps")  # columns of captures/ that are no site
NOT_CAPTURED = "not captured"
JOINED_ROWS = 4096  # of parts that are worked on at a time; no result depends on it


class Key(NamedTuple):
    """What is compared, and how: a column of captures, or a metric of pictures."""

    space: str
    site: str
    metric: str
    captured: bool = True

    @property
    def column(self) -> str:
        """Its column of ``captures/``."""
        return f"{self.site}:{self.metric}"


def captured_key(column: str) -> Key:
    """Return the key of a column of ``captures/``. A ValueError where site or metric are not known."""
    site, separator, metric = column.rpartition(":")
    if not separator:
        raise ValueError(f"captures: expected a column <site>:<metric>, got {column!r}")
    definition(metric)  # raises where there is none
    return Key(space(site), site, metric)


class FamilyPlan(NamedTuple):
    """What a family is made of: the keys of its sites, its pairs, and the prompts and seeds of all that was chosen."""

    space: str
    metric: str
    keys: list[Key]
    pairs: list[str]
    prompts: NDArray[np.int64]
    seeds: NDArray[np.int64]

    def shares(self, number: int) -> list[FamilyPlan]:
        """Cut it by sites into at most so many; a family without steps is small and stays whole."""
        if not any(has_steps(key.site) for key in self.keys):
            return [self]
        width = -(-len(self.keys) // number)
        return [self._replace(keys=self.keys[at : at + width]) for at in range(0, len(self.keys), width)]


def timesteps(run: Run) -> dict[int, float]:
    """Timestep of each step, as it was stored when the run was measured."""
    table = run.table(TIMESTEP_TABLE, ("step", "timestep"))
    return {int(step): float(time) for step, time in zip(table["step"], table["timestep"])}


class StoredSimilarities(Similarities):
    """The similarities that a run stores.

    ``captures/`` may be missing, as in a run made of the pictures of a closed model; `images` and `samples` are given
    where they were read already. ``timesteps`` are of each call number; the calls of one run share them.
    """

    def __init__(self, run: Run, images: pd.DataFrame | None = None, samples: pd.DataFrame | None = None):
        self.run = run
        self.timesteps: dict[int, float] = {}
        self._images = run.table(IMAGE_TABLE) if images is None else images
        self._ends: dict[Key, NDArray[np.float32]] = {}  # values of the sites without steps, one row per pair
        self._over_seeds = False
        self._chosen: list[Key] = []
        self._captured = SimilarityRows.of(self._images.iloc[:0], "")
        if run.parts("captures"):
            self._captured = self._read_ends()
        self._compared = SimilarityRows.of(self._images, str(run.path / "samples"))
        self._faulty = faulty_images(run, samples)  # what the model held of such an image is no value either
        members = {f"{a}-{b}": {a, b} for a in run.config.indicators for b in run.config.indicators}
        self._out = {
            captured: rows.with_any(self._faulty, members)
            for captured, rows in ((True, self._captured), (False, self._compared))
        }
        held = [
            name for name in (*IMAGE_METRICS, *OPTIONAL_METRICS, *FEATURE_METRICS) if name in self._images
        ]
        for metric in held if len(self._images) else ():
            key = Key(space(IMAGE_SITE), IMAGE_SITE, metric, captured=False)
            self._chosen.append(key)
            self._ends[key] = self._images[metric].to_numpy(np.float32)

    def _read_ends(self) -> SimilarityRows:
        """Read what tells the captures apart, the timesteps, and all values of sites without steps."""
        run, where = self.run, self.run.path / "captures"
        try:
            self._chosen = [captured_key(name) for name in run.columns("captures") if name not in FIXED]
        except ValueError as error:  # parts made elsewhere may name sites and metrics that there are not
            raise UserError(f"{where}: {error}: mend or delete the column") from None
        ends: dict[Key, list] = {key: [] for key in self._chosen if not has_steps(key.site)}
        index: list[pd.DataFrame] = []
        columns = [*INDEX, "timesteps", *(key.column for key in ends)]
        for table in joined(run.part_tables("captures", columns)):
            index.append(table.select(INDEX).to_pandas())
            self._learn(list_matrix(table["timesteps"]))
            for key, parts in ends.items():
                values = list_matrix(table[key.column])
                if values.shape[1] > 1:
                    raise UserError(
                        f"{where}: {key.column}: expected one value per pair, got {values.shape[1]}:"
                        " mend or delete the column"
                    )
                parts.append(values)
        for key, parts in ends.items():
            if any(values.shape[1] for values in parts):
                self._ends[key] = np.concatenate([_padded(values, 1)[:, 0] for values in parts])
            else:
                self._chosen.remove(key)  # it holds nothing
        return SimilarityRows.of(pd.concat(index, ignore_index=True), str(where))

    def _learn(self, timesteps: NDArray[np.float32]) -> None:
        for step in range(timesteps.shape[1]):
            known = timesteps[:, step]
            if step not in self.timesteps and not np.isnan(known).all():
                self.timesteps[step] = float(known[~np.isnan(known)][0])

    @property
    def keys(self) -> list[tuple[str, str, str]]:
        """Space, site and metric of all that there is, in order."""
        return [(key.space, key.site, key.metric) for key in self._chosen]

    @property
    def seeds(self) -> list[int]:
        """Seeds that there are, ascending."""
        return [int(seed) for seed in self._labels("seed")]

    def select(self, where: Where) -> StoredSimilarities:
        """Return some of the similarities, see `Similarities.select`."""
        other = copy.copy(self)
        other._chosen = [key for key in self._chosen if where(key.space, key.site, key.metric)]
        return other

    def families(self) -> Iterator[Family]:
        """Yield the families one after another; of one with steps the part files are read once."""
        for plan in self.plans():
            if (family := self.read(plan)) is not None:
                yield family

    def plans(self) -> list[FamilyPlan]:
        """Return what each family is made of, in order; nothing is read."""
        prompts, seeds = self._labels("triplet"), self._labels("seed")
        groups: dict[tuple[str, str], list[Key]] = {}
        for key in self._chosen:
            groups.setdefault((key.space, key.metric), []).append(key)
        pairs = {
            place: list(dict.fromkeys(name for key in keys for name in self._pairs(key)))
            for place, keys in groups.items()
        }
        return [FamilyPlan(*place, keys, pairs[place], prompts, seeds) for place, keys in groups.items()]

    def read(self, plan: FamilyPlan) -> Family | None:
        """Return the family, or the share of one, of a plan; None where it holds no value."""
        arrays = self._arrays(plan.keys, plan.pairs, plan.prompts, plan.seeds)
        there = [(key, arrays[key]) for key in plan.keys if arrays[key].size]
        if not there:
            return None
        columns = [
            (key.site, step)
            for key, array in there
            for step in (range(array.shape[3]) if has_steps(key.site) else (NO_STEP,))
        ]
        table, values = pd.DataFrame(columns, columns=["site", "step"]), [array for _, array in there]
        family = Family(plan.space, plan.metric, table, plan.pairs, plan.prompts, values)
        # no noise enters the prompt space: its seeds are copies
        return family.over_seeds() if self._over_seeds and plan.space != PROMPT_SPACE else family

    def by_unit(self) -> StoredSimilarities:
        """Return a copy whose families hold, of a run of one prompt, its seeds as prompts (`Config.unit`)."""
        other = copy.copy(self)
        other._over_seeds = self.run.config.unit == "seed"
        return other

    def apart(self) -> StoredSimilarities:
        """Return a copy to be sent to another process, without what the run has kept of its pictures."""
        other = copy.copy(self)
        other.run = Run(self.run.path, self.run.meta)
        return other

    def only_for(self, plan: FamilyPlan) -> StoredSimilarities:
        """Return a copy that holds what `read` needs for a plan and no more, see `apart`."""
        other = self.apart()
        other._images = self._images.iloc[:0]
        other._ends = {key: values for key, values in self._ends.items() if key in plan.keys}
        return other

    def tidy(self) -> pd.DataFrame:
        """Return all values that were chosen as a tidy table: choose few, in a large run it does not fit in memory.

        A value that is missing is NaN with a ``reason``.
        """
        return pd.concat([_TIDY, *map(self._tidy, self._chosen)], ignore_index=True)

    def _tidy(self, key: Key) -> pd.DataFrame:
        rows = self._rows(key)
        values, times = self._ends.get(key), None
        if values is None:
            tables = list(self.run.part_tables("captures", [key.column, "timesteps"]))
            values, times = (_stacked([t[name] for t in tables]) for name in (key.column, "timesteps"))
        values, out = values.reshape(len(rows.seed), -1), self._out[key.captured]
        values = np.where(out[:, None], np.float32(np.nan), values)
        calls, steps = values.shape[1], has_steps(key.site)
        if key.captured:
            missing = np.where(
                out, "; ".join(map(fault_reason, self._faulty["fault"].unique())), NOT_CAPTURED
            )
        else:
            missing = self._images["reason"].to_numpy(object)
        why = np.where(np.isnan(values.ravel()), np.repeat(missing, calls), "")
        names = np.array([*rows.names, None], object)
        return pd.DataFrame(
            {
                "space": key.space,
                "site": key.site,
                "step": np.tile(np.arange(calls), len(rows.seed)) if steps else NO_STEP,
                "timestep": np.nan if times is None else _padded(times, calls)[:, :calls].ravel(),
                "metric": key.metric,
                **{name: np.repeat(getattr(rows, name), calls) for name in ("triplet", "seed")},
                "pair": np.repeat(names[rows.pair], calls),
                "value": values.ravel(),
                "reason": why,
                "version": definition(key.metric).version,
            }
        ).astype(_TIDY.dtypes)

    def _rows(self, key: Key) -> SimilarityRows:
        return self._captured if key.captured else self._compared

    def _labels(self, name: str) -> NDArray[np.int64]:
        """Triplets or seeds of all rows chosen, ascending."""
        sources = {key.captured: self._rows(key) for key in self._chosen}.values()
        own = [getattr(rows, name) for rows in sources]
        return np.unique(np.concatenate([np.empty(0, np.int64), *own]))

    def _pairs(self, key: Key) -> list[str]:
        rows = self._rows(key)
        return [rows.names[place] for place in pd.unique(rows.pair)]

    def _arrays(
        self, keys: Sequence[Key], pairs: list[str], prompts: NDArray[np.int64], seeds: NDArray[np.int64]
    ) -> dict[Key, NDArray[np.float32]]:
        """Values of each key, shape (n_pairs, n_prompts, n_seeds, n_steps)."""
        shape = (len(pairs), len(prompts), len(seeds))
        arrays = {key: np.empty((*shape, 0), np.float32) for key in keys}
        places = {
            captured: self._places(captured, pairs, prompts, seeds)
            for captured in {key.captured for key in keys}
        }

        def put(key: Key, values: NDArray[np.float32], start: int) -> None:
            chosen, *place = places[key.captured]
            own = slice(*np.searchsorted(chosen, (start, start + len(values))))
            arrays[key] = _padded(arrays[key], values.shape[1])
            arrays[key][(*(axis[own] for axis in place), slice(0, values.shape[1]))] = values[
                chosen[own] - start
            ]

        streamed = [key for key in keys if key not in self._ends]
        for key in keys:
            if key in self._ends:
                put(key, self._ends[key][:, None], 0)
        start = 0
        parts = self.run.part_tables("captures", [key.column for key in streamed]) if streamed else ()
        for table in joined(parts):
            for key in streamed:
                put(key, list_matrix(table[key.column]), start)
            start += len(table)
        return arrays

    def _places(
        self, captured: bool, pairs: list[str], prompts: NDArray[np.int64], seeds: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], ...]:
        """Rows of captures, or of compared pictures, that hold a value, ascending; pair, prompt and seed of each."""
        rows = self._captured if captured else self._compared
        chosen = np.flatnonzero(~self._out[captured])
        pair = np.array([pairs.index(name) if name in pairs else -1 for name in rows.names], np.int64)
        return (
            chosen,
            pair[rows.pair[chosen]],
            np.searchsorted(prompts, rows.triplet[chosen]),
            np.searchsorted(seeds, rows.seed[chosen]),
        )


def joined(tables: Iterable[pa.Table], rows: int = JOINED_ROWS) -> Iterator[pa.Table]:
    """Join tables that follow each other, of the same columns and types, until they have so many rows."""
    held: list[pa.Table] = []
    for table in tables:
        if held and not table.schema.equals(held[0].schema):
            yield pa.concat_tables(held)
            held = []
        held.append(table)
        if sum(map(len, held)) >= rows:
            yield pa.concat_tables(held)
            held = []
    if held:
        yield pa.concat_tables(held)


def list_matrix(column: pa.ChunkedArray) -> NDArray[np.float32]:
    """Lists as the rows of a matrix; what is missing at the end of a list, or altogether, is NaN.

    >>> list_matrix(pa.chunked_array([[[0.5, 1.0], None, [0.25]]])).tolist()
    [[0.5, 1.0], [nan, nan], [0.25, nan]]
    """
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy()
    flat = pc.list_flatten(column).to_numpy().astype(np.float32)
    width = int(lengths.max(initial=0))
    if len(flat) == len(lengths) * width:
        return flat.reshape(len(lengths), width)
    matrix = np.full((len(lengths), width), np.nan, np.float32)
    matrix[np.arange(width) < lengths[:, None]] = flat
    return matrix


def _padded(values: NDArray[np.float32], width: int) -> NDArray[np.float32]:
    """An array whose last axis is at least so wide, with NaN at its end."""
    missing = width - values.shape[-1]
    if missing <= 0:
        return values
    filler = np.full((*values.shape[:-1], missing), np.nan, np.float32)
    return np.concatenate([values, filler], axis=-1) if values.shape[-1] else filler


def _stacked(columns: Sequence[pa.ChunkedArray]) -> NDArray[np.float32]:
    matrices = [list_matrix(column) for column in columns]
    width = max(matrix.shape[1] for matrix in matrices)
    return np.concatenate([_padded(matrix, width) for matrix in matrices])


_NUMBERS = {"step": "int32", "timestep": "float32", "triplet": "int32", "seed": "int64", "value": "float32"}
_TIDY = pd.DataFrame({name: pd.Series(dtype=_NUMBERS.get(name, "object")) for name in COLUMNS})
