"""Records what hooks read: similarities of pairs, tensors that are kept, means, latents of autoencoders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from hooks import pooling
from hooks.architectures.site import Site
from hooks.autoencoder import SparseAutoencoder
from hooks.cosine import cosine, cosine_of_gram, cosine_of_tokens, gram, group_size
from hooks.errors import HookError
from hooks.results import Kept, Similarity

PairPositions = Sequence[tuple[Sequence[int], Sequence[int]]]
METRICS_OF_TEXT = ("cosine_sequence", "cosine_eos", "cosine_words")


class Recorder:
    """Entries of one block, one a call, by kind of result and site.

    `sites` are those of each kind: "similarity", "kept", "pooled", "latents", and "shown", which is kept whole. Other
    arguments are `Probe`'s.

    Similarities stay on the device as dot products and leave it once, as the block ends; tensors at every call.
    """

    def __init__(
        self,
        sites: Mapping[str, Sequence[Site]],
        pairs: Sequence[tuple[int, int]],
        shared_positions: PairPositions | Mapping[str, PairPositions] | None,
        position_groups: pooling.RowGroups | Mapping[str, pooling.RowGroups] | None,
        keep_places: pooling.Chooser | Literal["all", "mean"],
        autoencoders: Mapping[str, SparseAutoencoder],
    ) -> None:
        self._pairs, self._shared = _pair_rows(pairs), shared_positions
        self._require_shared(shared_positions)
        self._choose, self._groups = keep_places, position_groups
        self._coders = autoencoders
        self._sites = {site.address: site for of_kind in sites.values() for site in of_kind}
        keys = [f"{site.address}:{metric}" for site in sites["similarity"] for metric in self._metrics(site)]
        self._similarities: dict[str, list[tuple[int, Tensor]]] = {key: [] for key in keys}
        self._tensors: dict[str, dict[str, list[tuple[int, Tensor]]]] = {
            kind: {site.address: [] for site in of_kind}
            for kind, of_kind in sites.items()
            if kind != "similarity"
        }
        self._places: dict[str, int] = {}  # of the sites that some places are kept of
        self._decoded: dict[
            str, list[Tensor]
        ] = {}  # of a batch that is decoded in parts, those that have come
        self.rows: int | None = None
        self._group = 1
        self.timesteps: list[Any] = []

    def _require_shared(self, shared: PairPositions | Mapping[str, PairPositions] | None) -> None:
        if shared is None:
            return
        if not len(self._pairs):
            raise HookError("shared_positions: given without pairs: pass the pairs they belong to")
        for positions in shared.values() if isinstance(shared, Mapping) else [shared]:
            if len(positions) != len(self._pairs):
                raise HookError(
                    f"shared_positions: expected one entry per pair ({len(self._pairs)}), but got {len(positions)}"
                )
            for p, (a, b) in enumerate(positions):
                if len(a) != len(b):
                    raise HookError(
                        f"shared_positions[{p}]: expected two lists of one length, but got {len(a)} and {len(b)}"
                    )
                if any(position < 0 for position in (*a, *b)):
                    raise HookError(
                        f"shared_positions[{p}]: expected positions from 0, but got {min(*a, *b)}"
                    )

    def _metrics(self, site: Site) -> Sequence[str]:
        if site.space != "prompt" or site.address == "text.pooled":
            return ("cosine",)
        return METRICS_OF_TEXT if self._shared is not None else METRICS_OF_TEXT[:2]

    def begin(self, rows: int) -> None:
        """Fix the number of rows; refuses a pair beyond them."""
        for p, pair in enumerate(self._pairs.tolist()):
            if max(pair) >= rows:
                raise HookError(
                    f"pairs[{p}]: expected rows below the {rows} of the batch, but got {tuple(pair)}"
                )
        self.rows, self._group = rows, group_size(self._pairs.tolist(), rows)

    def next_call(self, timestep: Any) -> None:
        """A call of the denoiser begins; what was decoded before it does not count."""
        self.timesteps.append(timestep)
        self._clear({address for address, site in self._sites.items() if site.decoded})
        self._decoded.clear()

    def _clear(self, addresses: set[str]) -> None:
        for entries in (self._similarities, *self._tensors.values()):
            for key in entries:
                if key.partition(":")[0] in addresses:
                    entries[key] = []

    def record(self, address: str, values: Tensor, once: bool = False) -> None:
        """Record a site of the call under way, or one that is read once; `values` has the batch's rows first."""
        call = 0 if once else len(self.timesteps) - 1
        if (key := f"{address}:cosine") in self._similarities:
            self._similarities[key].append((call, gram(values, self._group)))
        for kind in self._tensors:
            self._store(kind, address, call, values)

    def gather(self, address: str, values: Tensor) -> None:
        """Record a site of the decoder once the whole batch is there (`vae.enable_slicing`: row by row)."""
        if self.rows is None:
            return  # a decode outside the pipeline's own call
        parts = self._decoded.setdefault(address, [])
        if sum(map(len, parts)) + len(values) > self.rows:
            parts.clear()  # an earlier decode of some of the rows
        parts.append(values)
        if sum(map(len, parts)) == self.rows:
            self._clear({address})
            self.record(address, parts[0] if len(parts) == 1 else torch.cat(parts), once=True)
            del self._decoded[address]

    def record_text(
        self,
        site: Site,
        raw: Tensor,
        normed: Tensor,
        ends: Tensor | None,
        repeats: int,
        places: Mapping[str, Tensor] | None = None,
    ) -> None:
        """Record a text site: activations (rows, tokens, width) for the prompts, and what is compared of them.

        That is past the final layer norm where it belongs to the site, which it does not at `text.final` and within
        layers. `ends` are the positions of the end-of-text tokens, if the text is known, `repeats` images per row, and
        `places` of `text.final`, by encoder, which of its tokens stands at each position (-1: none).
        """
        address = site.address
        if f"{address}:cosine_sequence" in self._similarities:
            compared = normed.flatten(2)
            left, right = torch.from_numpy(self._pairs.T // repeats).to(compared.device)
            found = {"cosine_sequence": cosine(compared, left, right)}
            if ends is None:  # prompt_embeds came from elsewhere: where their text ends is not known
                found["cosine_eos"] = torch.full_like(found["cosine_sequence"], torch.nan)
            else:
                rows = torch.arange(len(compared), device=compared.device)
                found["cosine_eos"] = cosine(compared[rows, ends.to(compared.device)], left, right)
            if self._shared is not None:
                positions = self._shared_positions(address, places)
                found["cosine_words"] = cosine_of_tokens(compared, left, right, positions)
            for metric, values in found.items():
                self._similarities[f"{address}:{metric}"].append((0, values))
        self._store("kept", address, 0, raw)
        self._store("pooled", address, 0, raw.repeat_interleave(repeats, dim=0))
        self._store("latents", address, 0, raw)

    def _shared_positions(self, address: str, places: Mapping[str, Tensor] | None) -> PairPositions:
        """Shared positions among the tokens of one encoder, or in the text that the denoiser is given."""
        if not isinstance(self._shared, Mapping):
            return self._shared
        if places is None:
            name = address.partition(".")[0]
            return self._shared.get(name, [([], [])] * len(self._pairs))
        placed: list[tuple[list[int], list[int]]] = [([], []) for _ in self._pairs]
        for encoder, rows in places.items():
            at = [
                {token: position for position, token in enumerate(row) if token >= 0} for row in rows.tolist()
            ]
            for pair, positions in enumerate(self._shared.get(encoder, ())):
                i, j = self._pairs[pair]
                for left, right in zip(*positions):
                    if left in at[i] and right in at[j]:
                        placed[pair][0].append(at[i][left])
                        placed[pair][1].append(at[j][right])
        return placed

    def _store(self, kind: str, address: str, call: int, values: Tensor) -> None:
        """Add what one kind of result keeps of a site's values, moved off the device."""
        if address not in self._tensors[kind]:
            return
        site = self._sites[address]
        if kind == "pooled":
            values = pooling.pooled(site, values, self._groups)
        elif kind == "latents":
            vectors, coder = pooling.vectors(site, values.detach()), self._coders[address]
            coder.require_width(vectors.shape[-1], address)
            values = coder.encode(vectors).mean(1)
        elif kind == "kept" and self._choose == "mean":
            values = pooling.over_space(site, values)[:, None]
        elif kind == "kept" and self._choose != "all":
            values = self._chosen(site, call, pooling.vectors(site, values.detach()))
        moved = values.detach().to("cpu", torch.float32, copy=True)
        self._tensors[kind][address].append((call, moved))

    def _chosen(self, site: Site, call: int, vectors: Tensor) -> Tensor:
        """Vectors (rows, places, c) at the places that are kept of a site."""
        rows, places, channels = vectors.shape
        self._places[site.address] = places
        chosen = np.array([self._choose(site.address, call, row, places) for row in range(rows)])
        index = torch.from_numpy(chosen).to(vectors.device)[:, :, None].expand(-1, -1, channels)
        return vectors.gather(1, index)

    def results(self) -> tuple[dict[str, Similarity], dict[str, dict[str, Kept]]]:
        """Similarities, moved from each device in one transfer, and tensors by kind and address."""
        times = [torch.as_tensor(time).detach().flatten()[:1].double() for time in self.timesteps]
        timesteps = np.array([float(time) for time in _to_cpu(times)], dtype=np.float64)

        def when(key: str, entries: list[tuple[int, Tensor]]) -> tuple[np.ndarray, np.ndarray]:
            calls = np.array([call for call, _ in entries], dtype=np.int64)
            per_step = self._sites[key.partition(":")[0]].per_step
            return calls, timesteps[calls] if per_step else np.full(len(calls), np.nan)

        moved = iter(_to_cpu([values for entries in self._similarities.values() for _, values in entries]))
        similarity = {
            key: Similarity(self._cosines(key, [next(moved) for _ in entries]), *when(key, entries))
            for key, entries in self._similarities.items()
        }
        tensors = {
            kind: {
                address: Kept(
                    torch.stack([values for _, values in entries]) if entries else torch.empty(0),
                    *when(address, entries),
                    self._places.get(address) if kind == "kept" else None,
                )
                for address, entries in by_address.items()
            }
            for kind, by_address in self._tensors.items()
        }
        return similarity, tensors

    def _cosines(self, key: str, entries: list[Tensor]) -> np.ndarray:
        """Cosines (calls, pairs) of a key's entries."""
        if not entries:
            return np.empty((0, len(self._pairs)), dtype=np.float32)
        values = torch.stack(entries).numpy()
        return cosine_of_gram(values, self._group, self._pairs) if key.endswith(":cosine") else values


def _pair_rows(pairs: Sequence[tuple[int, int]]) -> np.ndarray:
    for p, pair in enumerate(pairs):
        if len(tuple(pair)) != 2 or any(int(row) != row or row < 0 for row in pair):
            raise HookError(f"pairs[{p}]: expected two rows of the batch, counted from 0, but got {pair!r}")
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)


def _to_cpu(tensors: list[Tensor]) -> list[Tensor]:
    """The same tensors, 1-d and of one format, on the CPU, in one transfer per device."""
    moved = list(tensors)
    for device in {tensor.device for tensor in tensors}:
        chosen = [i for i, tensor in enumerate(tensors) if tensor.device == device]
        joined = torch.cat([tensors[i] for i in chosen]).cpu()
        for i, part in zip(chosen, joined.split([len(tensors[i]) for i in chosen])):
            moved[i] = part
    return moved
