"""From what a probe saw of one batch to the rows that are stored: plain numbers, no tensors."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from hooks.prompt.spans import GROUPS
from probes.config.generation import Capture
from probes.errors import UserError
from probes.prompts.sample import Sample
from probes.runs.images import eight_bits
from probes.runs.parts import digest

if TYPE_CHECKING:
    from hooks.recorder import Chooser

_LARGEST = float(np.finfo(np.float16).max)


def capture_rows(
    members: Sequence[Sample], compared: Sequence[tuple[int, int]], probe: Any
) -> list[dict[str, Any]]:
    """One row per (triplet, seed, pair): one list of similarities per site, over the UNet's calls or of length 1."""
    arrays = {
        site: np.asarray(similarity.values, np.float32) for site, similarity in probe.similarity.items()
    }
    # the longest record is that of the UNet's calls; text, VAE and image have no timestep
    timesteps = max(
        (np.asarray(s.timestep, np.float32) for s in probe.similarity.values()), key=len, default=[]
    )
    timesteps = [float(value) for value in timesteps if np.isfinite(value)]
    return [
        {
            "triplet": members[i].triplet,
            "seed": members[i].seed,
            "pair": f"{members[i].indicator}-{members[j].indicator}",
            "first": members[i].indicator,
            "second": members[j].indicator,
            "timesteps": timesteps,
            **{site: values[:, row] for site, values in arrays.items()},
        }
        for row, (i, j) in enumerate(compared)
    ]


def image_columns(sample: Sample) -> dict[str, Any]:
    """The columns by which a row says of which image it is."""
    return {name: getattr(sample, name) for name in ("sample_id", "triplet", "seed", "indicator")}


def word_rows(members: Sequence[Sample], probe: Any) -> list[dict[str, Any]]:
    """One row per (sample, word): its heat map as summed, and the peak of it."""
    rows = []
    for row, sample in enumerate(members):
        for index, word in enumerate(sample.words):
            values = np.asarray(probe.token_heat(_tokens(sample, index, probe), row), np.float32)
            rows.append(
                {
                    **image_columns(sample),
                    "word": word,
                    "word_index": index,
                    "heat": values.ravel(),
                    "height": values.shape[0],
                    "width": values.shape[1],
                    "peak": float(values.max()),
                    "definition": probe.maps.definition,
                    "version": str(probe.maps.version),
                }
            )
    return rows


def _tokens(sample: Sample, index: int, probe: Any) -> dict[str, tuple[int, ...]]:
    """The token positions of a word by text encoder; all but the last of several read alike."""
    positions = dict.fromkeys(probe.text_encoders, sample.word_positions[index])
    if sample.word_positions_2 is not None:
        positions[probe.text_encoders[-1]] = sample.word_positions_2[index]
    return positions


def pooled_rows(members: Sequence[Sample], probe: Any) -> list[dict[str, Any]]:
    """One row per (sample, site) or, at sites of tokens, a (sample, site, group of positions): means over the calls.

    A group without a token has no row.
    """
    return [
        {
            **image_columns(sample),
            "site": site,
            "group": group,
            "call": [int(call) for call in record.call],
            "timesteps": [float(value) for value in record.timestep],
            "values": np.asarray(values, np.float32).ravel(),
        }
        for row, sample in enumerate(members)
        for site, record in probe.pooled.items()
        if len(record.call)
        for group, values in _by_group(record.values[:, row])
    ]


def _by_group(values: Any) -> list[tuple[str | None, Any]]:
    """The groups of token positions that have any, with their means; without groups the whole under None."""
    if values.ndim == 2:
        return [(None, values)]
    groups = [(name, values[:, index]) for index, name in enumerate(GROUPS)]
    return [(name, means) for name, means in groups if np.isfinite(np.asarray(means)).all()]


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


def png(image: np.ndarray) -> bytes:
    """A float image in [0, 1] as PNG (`probes.runs.images.eight_bits`); the same bytes every time."""
    data = io.BytesIO()
    Image.fromarray(eight_bits(image)).save(data, "png", compress_level=6)
    return data.getvalue()
