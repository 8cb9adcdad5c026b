"""Turns what hooks read into records: similarities of pairs, tensors that are kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from hooks import pooling
from hooks.architectures.site import Site
from hooks.autoencoder import SparseAutoencoder
from hooks.errors import HookError
from hooks.prompt.text import TextStates
from hooks.records import METRICS_OF_TEXT, Kept, Records, Similarity, timesteps_to_array
from hooks.similarity import SharedPositions, cosine, cosine_at, gram, group_size, products

PairPositions = Sequence[tuple[Sequence[int], Sequence[int]]]


class Recorder:
    """Records of one block: similarities, tensors kept, means, latents of autoencoders; arguments as `Probe`'s."""

    def __init__(
        self,
        compared: Sequence[Site],
        kept: Sequence[Site],
        pairs: Sequence[tuple[int, int]],
        shared_positions: PairPositions | Mapping[str, PairPositions] | None,
        text_layer_norm: bool,
        pooled: Sequence[Site] = (),
        position_groups: pooling.RowGroups | Mapping[str, pooling.RowGroups] | None = None,
        keep_places: pooling.Chooser | Literal["all", "mean"] = "all",
        autoencoders: Mapping[Site, SparseAutoencoder] | None = None,
    ) -> None:
        self._pairs = pairs
        self._left, self._right = _pair_rows(pairs)
        if shared_positions is not None and not pairs:
            raise HookError("shared_positions: given without pairs: pass the pairs they belong to")
        of_all = {"": shared_positions} if shared_positions is not None else None
        by_encoder = shared_positions if isinstance(shared_positions, Mapping) else of_all
        self._shared = by_encoder and {
            name: SharedPositions(positions, len(pairs)) for name, positions in by_encoder.items()
        }
        self._text_layer_norm = text_layer_norm
        self._coders = {site.address: (site, coder) for site, coder in (autoencoders or {}).items()}
        coded = [site for site, _ in self._coders.values()]
        per_step = {site.address for site in (*compared, *kept, *pooled, *coded) if site.per_step}
        keys = [f"{site.address}:{metric}" for site in compared for metric in self._metrics(site)]
        self._numbers = Records(keys, {key for key in keys if key.rpartition(":")[0] in per_step})
        self._tensors = Records([site.address for site in kept], per_step)
        self._kept, self._choose = {site.address: site for site in kept}, keep_places
        self._places: dict[str, int] = {}
        self._means = Records([site.address for site in pooled], per_step)
        self._latents = Records(list(self._coders), per_step)
        self._pooled, self._groups = {site.address: site for site in pooled}, position_groups
        self._decoded = [site.address for site in (*kept, *pooled, *coded) if site.decoded]
        self._decoded += [f"{site.address}:cosine" for site in compared if site.decoded]
        self._parts: dict[str, list[Tensor]] = {}
        self._pair_devices: dict[torch.device, tuple[Tensor, Tensor]] = {}
        self.sites = [*kept]
        self.rows: int | None = None
        self._group: int | None = None
        self.timesteps: list[Any] = []

    def _metrics(self, site: Site) -> Sequence[str]:
        if site.space != "prompt" or site.address == "text.pooled":
            return ("cosine",)
        return METRICS_OF_TEXT if self._shared is not None else METRICS_OF_TEXT[:2]

    def begin(self, rows: int) -> None:
        """Fix the number of rows; refuses a pair beyond them."""
        for p, pair in enumerate(self._pairs):
            if max(pair) >= rows:
                raise HookError(
                    f"pairs[{p}]: expected rows below the {rows} of the batch, but got {tuple(pair)}"
                )
        self.rows = rows
        self._group = group_size(self._pairs, rows)

    def next_call(self, timestep: Any) -> None:
        """A call of the denoiser begins; what was decoded before it does not count."""
        self.timesteps.append(timestep)
        self._numbers.clear(self._decoded)
        self._tensors.clear(self._decoded)
        self._means.clear(self._decoded)
        self._latents.clear(self._decoded)
        self._parts.clear()

    def record(self, address: str, values: Tensor) -> None:
        """Record a site of the denoiser's call under way; `values` has the batch's rows first."""
        self._add(address, len(self.timesteps) - 1, values)

    def record_once(self, address: str, values: Tensor) -> None:
        """Record a site that is read once, before the first step; `values` has the batch's rows first."""
        self._add(address, 0, values)

    def gather(self, address: str, values: Tensor) -> None:
        """Record a site of the decoder once the whole batch is there (`vae.enable_slicing`: row by row)."""
        if self.rows is None:
            return  # a decode outside the pipeline's own call
        parts = self._parts.setdefault(address, [])
        if sum(len(part) for part in parts) + len(values) > self.rows:
            parts.clear()  # an earlier decode of some of the rows
        parts.append(values)
        if sum(len(part) for part in parts) != self.rows:
            return
        whole = parts[0] if len(parts) == 1 else torch.cat(parts)
        del self._parts[address]
        self._numbers.clear([f"{address}:cosine"])
        self._tensors.clear([address])
        self._means.clear([address])
        self._latents.clear([address])
        self._add(address, 0, whole)

    def record_text(self, states: TextStates) -> None:
        """Record a text site."""
        address = states.site.address
        if f"{address}:cosine_sequence" in self._numbers:
            compared = (states.normed if self._text_layer_norm else states.raw).flatten(2)
            left, right = (rows // states.repeats for rows in self._rows_on(compared.device))
            found = {"cosine_sequence": cosine(compared, left, right)}
            if states.ends is None:  # prompt_embeds came from elsewhere: where their text ends is not known
                found["cosine_eos"] = torch.full_like(found["cosine_sequence"], torch.nan)
            else:
                found["cosine_eos"] = cosine_at(compared, left, right, states.ends.to(compared.device))
            if self._shared is not None:
                found["cosine_words"] = self._shared_of(states).cosine(compared, left, right)
            for metric, values in found.items():
                self._numbers.add(f"{address}:{metric}", 0, values)
        if address in self._tensors:
            self._keep(address, 0, states.raw)
        if address in self._pooled:
            self._pool(address, 0, states.raw.repeat_interleave(states.repeats, dim=0))
        self._encode(address, 0, states.raw)

    def _shared_of(self, states: TextStates) -> SharedPositions:
        """Shared positions among the tokens of one encoder, or in the text that the denoiser is given."""
        assert self._shared is not None
        if "" in self._shared:
            return self._shared[""]
        name = states.site.address.partition(".")[0]
        if states.site.address != "text.final":
            return self._shared.get(name, SharedPositions([([], [])] * len(self._pairs), len(self._pairs)))
        placed: list[tuple[list[int], list[int]]] = [([], []) for _ in self._pairs]
        for encoder, rows in states.places.items():
            at = [
                {token: position for position, token in enumerate(row) if token >= 0} for row in rows.tolist()
            ]
            shared = self._shared.get(encoder)
            for pair, (i, j) in enumerate(self._pairs if shared is not None else ()):
                for left, right in zip(*shared.positions[pair]):
                    if left in at[i] and right in at[j]:
                        placed[pair][0].append(at[i][left])
                        placed[pair][1].append(at[j][right])
        return SharedPositions(placed, len(self._pairs))

    def results(self) -> tuple[dict[str, Similarity], dict[str, Kept], dict[str, Kept], dict[str, Kept]]:
        """Similarities, kept tensors, pooled ones and latents, moved off the device."""
        timesteps = timesteps_to_array(self.timesteps)
        return (
            self._numbers.similarities(timesteps, self._left, self._right),
            {
                address: replace(kept, places=self._places.get(address))
                for address, kept in self._tensors.tensors(timesteps).items()
            },
            self._means.tensors(timesteps),
            self._latents.tensors(timesteps),
        )

    def _add(self, address: str, call: int, values: Tensor) -> None:
        key = f"{address}:cosine"
        if key in self._numbers:
            found = None if self._group is None else gram(values, self._group)
            if found is None:
                self._numbers.add(key, call, *products(values, *self._rows_on(values.device)))
            else:
                self._numbers.add(key, call, found, group=self._group)
        if address in self._tensors:
            self._keep(address, call, values)
        if address in self._pooled:
            self._pool(address, call, values)
        self._encode(address, call, values)

    def _encode(self, address: str, call: int, values: Tensor) -> None:
        if address in self._coders:
            site, coder = self._coders[address]
            vectors = pooling.vectors(site, values.detach())
            coder.require_width(vectors.shape[-1], address)
            self._latents.add(address, call, _moved(coder.encode(vectors).mean(1)))

    def _keep(self, address: str, call: int, values: Tensor) -> None:
        """Keep what is chosen of a site: the tensor as it is, or vectors, of shape (rows, places, c)."""
        if self._choose == "mean":
            values = pooling.over_space(self._kept[address], values)[:, None]
        elif self._choose != "all":
            values = pooling.vectors(self._kept[address], values.detach())
            rows, places, channels = values.shape
            self._places[address] = places
            chosen = np.array([self._choose(address, call, row, places) for row in range(rows)])
            index = torch.from_numpy(chosen).to(values.device)[:, :, None].expand(-1, -1, channels)
            values = values.gather(1, index)
        self._tensors.add(address, call, _moved(values))

    def _pool(self, address: str, call: int, values: Tensor) -> None:
        site = self._pooled[address]
        if pooling.of_tokens(site):
            groups = pooling.groups_of(site, self._groups)
            assert groups is not None  # `pooling.require_groups` saw to it
            means = pooling.over_positions(site, values, groups)
        else:
            means = pooling.over_space(site, values)
        self._means.add(address, call, _moved(means))

    def _rows_on(self, device: torch.device) -> tuple[Tensor, Tensor]:
        if device not in self._pair_devices:
            self._pair_devices[device] = (self._left.to(device), self._right.to(device))
        return self._pair_devices[device]


def _pair_rows(pairs: Sequence[tuple[int, int]]) -> tuple[Tensor, Tensor]:
    for p, pair in enumerate(pairs):
        if len(tuple(pair)) != 2 or any(int(row) != row or row < 0 for row in pair):
            raise HookError(f"pairs[{p}]: expected two rows of the batch, counted from 0, but got {pair!r}")
    table = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return torch.from_numpy(table[:, 0].copy()), torch.from_numpy(table[:, 1].copy())


def _moved(values: Tensor) -> Tensor:
    return values.detach().to("cpu", torch.float32, copy=True)
