"""Readings of a probe: numbers gathered on the device while running, handed over as arrays at the end."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hooks.cosine import cosine_of

METRICS_OF_TEXT = ("cosine_sequence", "cosine_eos", "cosine_words")


def counted(number: int, noun: str) -> str:
    """Return a number with its noun.

    Examples
    --------
    >>> counted(1, "call"), counted(20, "call"), counted(2, "patch")
    ('1 call', '20 calls', '2 patches')
    """
    return f"{number} {noun}{'' if number == 1 else 'es' if noun.endswith('ch') else 's'}"


@dataclass(frozen=True, repr=False)
class Similarity:
    """Similarities of pairs at one site.

    Attributes
    ----------
    values : ndarray, shape (n_calls, n_pairs), float32
        NaN where a similarity is undefined (a row of zeros, no shared word, an unknown end of text).
    call : ndarray, shape (n_calls,), int64
        Number of the denoiser's call, from 0; 0 for sites that are read once.
    timestep : ndarray, shape (n_calls,), float64
        Timestep of the call; NaN for sites that are read once.
    """

    values: np.ndarray
    call: np.ndarray
    timestep: np.ndarray

    def __repr__(self) -> str:
        calls, pairs = self.values.shape
        known = self.values[np.isfinite(self.values)]
        ends = f", {known.min():.4f} to {known.max():.4f}" if known.size else ""
        return f"Similarity({counted(calls, 'call')}, {counted(pairs, 'pair')}{ends})"


@dataclass(frozen=True, repr=False)
class Kept:
    """Raw tensors of one site, conditional rows only.

    Attributes
    ----------
    values : Tensor, shape (n_calls, rows, ...), float32, on the CPU
    call, timestep : ndarray, shape (n_calls,)
        As in `Similarity`.
    places : int, optional
        Pixels or tokens of the site, where some were chosen among them.
    """

    values: Tensor
    call: np.ndarray
    timestep: np.ndarray
    places: int | None = None

    def __repr__(self) -> str:
        return f"Kept({counted(len(self.call), 'call')}, each of shape {tuple(self.values.shape[1:])})"


class Records:
    """Entries of many keys, one a call, each key's entries of one shape.

    An entry is a tuple of tensors: `(values,)`, or what a cosine is made of, divided at the end: `(dots,
    norms)`, or the products of all rows within groups of so many (`hooks.similarity.gram`). All keys are given, in
    their order; one that is never added to ends with no calls. `per_step` keys carry the timestep of their call.
    """

    def __init__(self, keys: Iterable[str], per_step: set[str]) -> None:
        self._entries: dict[str, list[tuple[int, tuple[Tensor, ...], int]]] = {key: [] for key in keys}
        self._per_step = per_step

    def __contains__(self, key: str) -> bool:
        return key in self._entries

    def add(self, key: str, call: int, *values: Tensor, group: int = 0) -> None:
        """Append an entry of a call to a key that was named at the beginning."""
        self._entries[key].append((call, values, group))

    def clear(self, keys: Iterable[str]) -> None:
        """Drop the entries of some keys; those that are not there are passed over."""
        for key in keys:
            if key in self._entries:
                self._entries[key] = []

    def similarities(self, timesteps: np.ndarray, left: Tensor, right: Tensor) -> dict[str, Similarity]:
        """All entries as arrays, moved from each device in one transfer."""
        entries = [values for of_key in self._entries.values() for _, values, _ in of_key]
        flat = iter(to_cpu([tensor for values in entries for tensor in values]))
        left, right = left.numpy(), right.numpy()
        found = {}
        for key, of_key in self._entries.items():
            table = np.empty((len(of_key), len(left)), dtype=np.float32)
            for row, (_, values, group) in zip(table, of_key):
                found_here = next(flat).numpy()
                if group:
                    products = found_here.reshape(-1, group)
                    norms = np.sqrt(products[np.arange(len(products)), np.arange(len(products)) % group])
                    row[:] = cosine_of(products[left, right % group], norms[left] * norms[right])
                elif len(values) == 2:
                    norms = next(flat).numpy()
                    row[:] = cosine_of(found_here, norms[left] * norms[right])
                else:
                    row[:] = found_here
            found[key] = Similarity(table, *self._when(key, timesteps))
        return found

    def tensors(self, timesteps: np.ndarray) -> dict[str, Kept]:
        """All entries as stacked tensors: by key, shape (n_entries, ...); `timesteps` is that of `similarities`."""
        return {
            key: Kept(
                torch.stack([values for _, (values,), _ in of_key]) if of_key else torch.empty(0),
                *self._when(key, timesteps),
            )
            for key, of_key in self._entries.items()
        }

    def _when(self, key: str, timesteps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        calls = np.array([call for call, _, _ in self._entries[key]], dtype=np.int64)
        if key in self._per_step:
            return calls, timesteps[calls]
        return calls, np.full(len(calls), np.nan)


def to_cpu(tensors: list[Tensor]) -> list[Tensor]:
    """The same tensors (1-d, float32) on the CPU, in one transfer per device."""
    moved: list[Tensor | None] = [None] * len(tensors)
    for device in dict.fromkeys(t.device for t in tensors):
        chosen = [i for i, t in enumerate(tensors) if t.device == device]
        joined = torch.cat([tensors[i] for i in chosen]).cpu()
        for i, part in zip(chosen, joined.split([len(tensors[i]) for i in chosen])):
            moved[i] = part
    return moved


def timesteps_to_array(timesteps: list[Any]) -> np.ndarray:
    """Timesteps as the pipeline passed them (numbers or tensors) as float64, in one transfer."""
    tensors = [torch.as_tensor(t).detach().flatten()[:1].double() for t in timesteps]
    return np.array([float(t) for t in to_cpu(tensors)], dtype=np.float64)
