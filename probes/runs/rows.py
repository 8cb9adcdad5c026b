"""The rows that are stored of what a probe recorded of one batch: plain numbers, no tensors."""

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
    from torch import Tensor

    from hooks.probe import Probe
    from hooks.recorder import PositionSampler

_LARGEST = float(np.finfo(np.float16).max)


def capture_rows(
    samples: Sequence[Sample], pairs: Sequence[tuple[int, int]], probe: Probe
) -> list[dict[str, Any]]:
    """Return a row per pair of images of a batch: for each site its similarities, call by call of the denoiser."""
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
    """Return the columns that identify a sample's image in any table: sample_id, triplet, seed and indicator."""
    return {name: getattr(sample, name) for name in ("sample_id", "triplet", "seed", "indicator")}


def word_rows(samples: Sequence[Sample], probe: Probe) -> list[dict[str, Any]]:
    """Return a row per word of each sample: its attention map, flattened, with height, width and peak."""
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


def _word_positions(sample: Sample, index: int, probe: Probe) -> dict[str, tuple[int, ...]]:
    """Return the token positions of a sample's word number `index` by text encoder; only the last may differ."""
    positions = dict.fromkeys(probe.text_encoders, sample.word_positions[index])
    if sample.word_positions_2 is not None:
        positions[probe.text_encoders[-1]] = sample.word_positions_2[index]
    return positions


def pooled_rows(samples: Sequence[Sample], probe: Probe) -> list[dict[str, Any]]:
    """Return a row per sample and site, at sites of tokens one per group of positions: means, call by call.

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


def _means_by_group(values: Tensor) -> list[tuple[str | None, Tensor]]:
    """Return (group, means) for each group of token positions that has tokens; [(None, values)] without groups."""
    if values.ndim == 2:
        return [(None, values)]
    groups = [(name, values[:, index]) for index, name in enumerate(GROUPS)]
    return [(name, means) for name, means in groups if np.isfinite(np.asarray(means)).all()]


def position_sampler(samples: Sequence[Sample], capture: Capture) -> PositionSampler | Literal["all", "mean"]:
    """Return "all", "mean", or a function that samples positions (pixels or tokens) whose activations are kept.

    They depend on prompt id, seed, site and call alone, so they are the same for all images of a triplet and seed,
    in any batch.
    """
    count = capture.keep_places
    if isinstance(count, str):
        return count

    def sample_positions(address: str, call: int, row: int, positions: int) -> Sequence[int]:
        """Return the sampled positions, out of so many, at a call of a site for a row of the batch."""
        if positions <= count:
            return range(positions)
        sample = samples[row]
        name = digest(f"{sample.prompt_id}\n{sample.seed}\n{address}\n{call}")
        return np.random.default_rng(int(name[:16], 16)).random(positions).argsort()[:count]

    return sample_positions


def kept_rows(samples: Sequence[Sample], probe: Probe, capture: Capture) -> list[dict[str, Any]]:
    """Return a row per sample and site: the activations kept of all calls, their shape, and sampled positions.

    A site that did not run, such as the unconditional prediction without guidance, has none.
    """
    sample_positions = position_sampler(samples, capture)
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
            if callable(sample_positions):
                chosen = [sample_positions(site, int(call), index, record.places) for call in record.call]
                row["places"] = np.concatenate(chosen).astype(np.int32)
            rows.append(row)
    return rows


def _cast_values(values: NDArray[np.float32], dtype: str, site: str) -> NDArray[Any]:
    """Return activations of a site in a dtype; UserError if that is float16 and they exceed its range."""
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
