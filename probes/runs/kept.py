"""Activations that ``capture.keep`` stores: which places of a site, as rows of parts, and as vectors again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from probes.config.sections import Capture
from probes.errors import UserError
from probes.prompts.sample import Sample
from probes.runs import schemas
from probes.runs.parts import digest
from probes.runs.rows import image_columns

if TYPE_CHECKING:
    from hooks.recorder import Chooser
    from probes.runs.run import Run

_LARGEST = float(np.finfo(np.float16).max)


class Vectors(NamedTuple):
    """Activations of a site in one part of a run.

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


def kept_schema(capture: Capture) -> pa.Schema:
    """The columns of ``kept/``: of tensors that are stored whole, or of some of their places."""
    fields = [*schemas.KEPT]
    if capture.keep_dtype == "float16":
        fields[-1] = pa.field("values", pa.list_(pa.float16()))
    if capture.keep_places != "all":
        fields.append(pa.field("places", pa.list_(pa.int32())))
    return pa.schema(fields)


def place_chooser(members: Sequence[Sample], capture: Capture) -> Chooser | Literal["all", "mean"]:
    """Return what chooses the places of a batch, row by row, for `hooks.Probe`.

    They hang on prompt, seed, site and call alone: those of a triplet's words are the same, and those of an image the
    same in any batch.
    """
    count = capture.keep_places
    if isinstance(count, str):
        return count

    def choose(address: str, call: int, row: int, places: int) -> Sequence[int]:
        if places <= count:
            return range(places)
        sample = members[row]
        name = digest(f"{sample.prompt_id}\n{sample.seed}\n{address}\n{call}")
        return np.random.default_rng(int(name[:16], 16)).random(places).argsort()[:count]

    return choose


def kept_rows(members: Sequence[Sample], probe: Any, capture: Capture) -> list[dict[str, Any]]:
    """One row per (sample, site): tensor or vectors over the calls, their shape, and the places that they are of.

    A site that did not run, such as the unconditional prediction without guidance, has none.
    """
    choose = place_chooser(members, capture)
    rows = []
    for index, sample in enumerate(members):
        for site, record in probe.kept.items():
            if not len(record.call):
                continue
            values = np.asarray(record.values[:, index], np.float32)
            row = {
                **image_columns(sample),
                "site": site,
                "shape": list(values.shape),
                "call": [int(call) for call in record.call],
                "timesteps": [float(value) for value in record.timestep],
                "values": _as(values.ravel(), capture.keep_dtype, site),
            }
            if callable(choose):
                chosen = [choose(site, int(call), index, record.places) for call in record.call]
                row["places"] = np.concatenate(chosen).astype(np.int32)
            rows.append(row)
    return rows


def _as(values: NDArray[np.float32], dtype: str, site: str) -> NDArray[Any]:
    if dtype == "float16":
        finite = np.abs(values[np.isfinite(values)])
        if finite.size and finite.max() > _LARGEST:
            raise UserError(
                f"capture.keep_dtype: expected float32 for {site}, whose activations reach {finite.max():.3g}, got"
                " float16, which ends at 65504: set it to float32"
            )
    return values.astype(dtype)


def kept_vectors(run: Run, site: str) -> Iterator[Vectors]:
    """Yield the activations of a site that a run holds, part by part, as vectors; images at fault are left out.

    Parameters
    ----------
    run : Run
    site : str
        An address.

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
            where, vectors = _vectors(row, numbers[index].values.to_numpy(zero_copy_only=False))
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


def _vectors(row: dict[str, Any], flat: NDArray[Any]) -> tuple[dict[str, Any], NDArray[np.float32]]:
    """Call, timestep and place of each vector of a row, and the vectors."""
    values = flat.astype(np.float32).reshape(row["shape"])
    if "places" not in row:  # the tensor as it is
        if values.ndim == 2:
            values = values[:, None]
        elif values.ndim == 4 and not row["site"].endswith(".heads"):
            values = np.moveaxis(values.reshape(*values.shape[:2], -1), 1, 2)
        values = values.reshape(*values.shape[:2], -1)
    calls, places, channels = values.shape
    chosen = row.get("places", [*range(places)] * calls)
    where = {
        "call": np.repeat(row["call"], places),
        "timestep": np.repeat(np.asarray(row["timesteps"], float), places),
        "place": np.full(calls, -1) if chosen is None else np.asarray(chosen),  # of a mean there is none
    }
    return where, values.reshape(-1, channels)
