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
    samples: Sequence[Sample], pairs: Sequence[tuple[int, int]], probe: Any
) -> list[dict[str, Any]]:
    """Return a row for each pair of images: per site a list of similarities, one per denoiser call or only one."""
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
            "triplet": samples[i].triplet,
            "seed": samples[i].seed,
            "pair": f"{samples[i].indicator}-{samples[j].indicator}",
            "first": samples[i].indicator,
            "second": samples[j].indicator,
            "timesteps": timesteps,
            **{site: values[:, row] for site, values in arrays.items()},
        }
        for row, (i, j) in enumerate(pairs)
    ]


def image_columns(sample: Sample) -> dict[str, Any]:
    """Return the columns that identify the image of a row: sample_id, triplet, seed and indicator."""
    return {name: getattr(sample, name) for name in ("sample_id", "triplet", "seed", "indicator")}


def word_rows(samples: Sequence[Sample], probe: Any) -> list[dict[str, Any]]:
    """Return a row for each (sample, word): its attention map, flattened, with height, width and peak."""
    rows = []
    for row, sample in enumerate(samples):
        for index, word in enumerate(sample.words):
            values = np.asarray(probe.token_heat(_word_positions(sample, index, probe), row), np.float32)
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


def _word_positions(sample: Sample, index: int, probe: Any) -> dict[str, tuple[int, ...]]:
    """Return the token positions of word number `index` by text encoder; all but the last encoder have the same."""
    positions = dict.fromkeys(probe.text_encoders, sample.word_positions[index])
    if sample.word_positions_2 is not None:
        positions[probe.text_encoders[-1]] = sample.word_positions_2[index]
    return positions


def pooled_rows(samples: Sequence[Sample], probe: Any) -> list[dict[str, Any]]:
    """Return a row for each (sample, site), at sites of tokens for each group of positions: means call by call.

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
        for row, sample in enumerate(samples)
        for site, record in probe.pooled.items()
        if len(record.call)
        for group, values in _means_by_group(record.values[:, row])
    ]


def _means_by_group(values: Any) -> list[tuple[str | None, Any]]:
    """Return (group, means) for the groups of token positions that have tokens; [(None, values)] without groups."""
    if values.ndim == 2:
        return [(None, values)]
    groups = [(name, values[:, index]) for index, name in enumerate(GROUPS)]
    return [(name, means) for name, means in groups if np.isfinite(np.asarray(means)).all()]


def place_chooser(samples: Sequence[Sample], capture: Capture) -> Chooser | Literal["all", "mean"]:
    """Return "all", "mean", or a function that samples the places (pixels or tokens) whose activations are kept.

    The places depend on prompt id, seed, site and call alone: they are the same for all images of a triplet and seed,
    in any batch.
    """
    count = capture.keep_places
    if isinstance(count, str):
        return count

    def choose(address: str, call: int, row: int, places: int) -> Sequence[int]:
        if places <= count:
            return range(places)
        sample = samples[row]
        name = digest(f"{sample.prompt_id}\n{sample.seed}\n{address}\n{call}")
        return np.random.default_rng(int(name[:16], 16)).random(places).argsort()[:count]

    return choose


def kept_rows(samples: Sequence[Sample], probe: Any, capture: Capture) -> list[dict[str, Any]]:
    """Return a row for each (sample, site): kept activations over the calls, their shape, and any sampled places.

    A site that did not run, such as the unconditional prediction without guidance, has none.
    """
    choose = place_chooser(samples, capture)
    rows = []
    for index, sample in enumerate(samples):
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
                "values": _cast_values(values.ravel(), capture.keep_dtype, site),
            }
            if callable(choose):
                chosen = [choose(site, int(call), index, record.places) for call in record.call]
                row["places"] = np.concatenate(chosen).astype(np.int32)
            rows.append(row)
    return rows


def _cast_values(values: NDArray[np.float32], dtype: str, site: str) -> NDArray[Any]:
    """Return activations in a dtype; UserError if they exceed the range of float16."""
    if dtype == "float16":
        finite = np.abs(values[np.isfinite(values)])
        if finite.size and finite.max() > _LARGEST:
            raise UserError(
                f"capture.keep_dtype: expected float32 for {site}, whose activations reach {finite.max():.3g}, got"
                " float16, which ends at 65504: set it to float32"
            )
    return values.astype(dtype)


def png_bytes(image: np.ndarray) -> bytes:
    """Return a float image in [0, 1] as PNG bytes; equal images give equal bytes."""
    data = io.BytesIO()
    Image.fromarray(eight_bits(image)).save(data, "png", compress_level=6)
    return data.getvalue()
