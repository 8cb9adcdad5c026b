"""Activations that ``capture.keep`` stored, as vectors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow.compute as pc
from numpy.typing import NDArray

from probes.errors import UserError
from probes.runs.run import Run


class Vectors(NamedTuple):
    """Activations of one site in one part of a run, as vectors.

    Attributes
    ----------
    about : DataFrame
        One row per vector: ``sample_id``, ``triplet``, ``seed``, ``indicator``, ``word``, ``call`` of the denoiser,
        ``timestep`` (NaN at sites that are read once) and ``place``, the number of the pixel (row by row) or token; -1
        of a mean.
    values : ndarray of float32, shape (n_vectors, channels)
    """

    about: pd.DataFrame
    values: NDArray[np.float32]


def kept_vectors(run: Run, site: str) -> Iterator[Vectors]:
    """Yield the stored activations of a site, one `Vectors` per part; images at fault are left out.

    Parameters
    ----------
    run : Run
    site : str
        Address of the site.

    Raises
    ------
    UserError
        The run holds no activations of this site.
    """
    faults, sites = set(run.faults()), set()
    words = {name: entry.word for name, entry in run.config.indicators.items()}
    for table in run.part_tables("kept"):
        sites |= set(table["site"].to_pylist())
        table = table.filter(pc.equal(table["site"], site))
        numbers = table["values"]
        abouts, values = [], []
        for index, row in enumerate(table.drop_columns(["values"]).to_pylist()):
            if row["sample_id"] in faults:
                continue
            where, vectors = _row_vectors(row, numbers[index].values.to_numpy(zero_copy_only=False))
            about = {name: row[name] for name in ("sample_id", "triplet", "seed", "indicator")}
            abouts.append(pd.DataFrame({**about, "word": words.get(row["indicator"], ""), **where}))
            values.append(vectors)
        if values:
            yield Vectors(pd.concat(abouts, ignore_index=True), np.concatenate(values))
    if site not in sites:
        raise UserError(
            f"{run.path / 'kept'}: expected activations of {site!s:.120}, found those of"
            f" {', '.join(sorted(sites))!s:.200}: name one of them, or put it into capture.keep and generate anew"
        )


def _row_vectors(row: dict[str, Any], flat: NDArray[Any]) -> tuple[dict[str, Any], NDArray[np.float32]]:
    """Return columns (call, timestep, place) on each vector of a row of ``kept``, and the vectors (n, channels)."""
    values = flat.astype(np.float32).reshape(row["shape"])
    if "places" not in row:  # the tensor as it is
        if values.ndim == 2:
            values = values[:, None]
        elif values.ndim == 4 and not row["site"].endswith(".heads"):
            values = np.moveaxis(values.reshape(*values.shape[:2], -1), 1, 2)
        values = values.reshape(*values.shape[:2], -1)
    calls, positions, channels = values.shape
    chosen = row.get("places", [*range(positions)] * calls)
    where = {
        "call": np.repeat(row["call"], positions),
        "timestep": np.repeat(np.asarray(row["timesteps"], float), positions),
        "place": np.full(calls, -1) if chosen is None else np.asarray(chosen),  # of a mean there is none
    }
    return where, values.reshape(-1, channels)
