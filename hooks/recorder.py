"""Records what hooks read: similarities of pairs, tensors that are kept, means, latents of autoencoders."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from torch import Tensor

from hooks.architectures.site import Site
from hooks.architectures.text_encoders import JOINED, TEXT_ENCODERS
from hooks.cosine import cosine, cosine_of_gram, cosine_of_tokens, group_size
from hooks.errors import HookError
from hooks.results import Kept, Similarity
from hooks.tensors import gram, to_cpu

if TYPE_CHECKING:
    from hooks.autoencoder import SparseAutoencoder

PairPositions = Sequence[tuple[Sequence[int], Sequence[int]]]
# of each row of the batch: token positions by the group's name
RowGroups = Sequence[Mapping[str, Sequence[int]]]
# address of a site, number of the call, row of the batch, places of the site: the numbers of those that are kept
PositionSampler = Callable[[str, int, int, int], Sequence[int]]
COMPARED_AT_ONCE = (2**20, 2**26)  # numbers of text sites: within a CPU's caches, by few launches on a GPU
METRICS_OF_TEXT = ("cosine_sequence", "cosine_eos", "cosine_words")


class Recorder:
    """Records what the hooks of one block read: entries (number of the call, tensor) by kind of result and site.

    `sites` has the sites of each kind: "similarity", "kept", "pooled", "latents", and "shown", which is kept whole. The
    other arguments are those of `Probe`.

    Similarities stay on the device as dot products and leave it once, as the block ends; tensors at every call, for
    which a GPU is not waited for before the block ends.
    """

    def __init__(
        self,
        sites: Mapping[str, Sequence[Site]],
        pairs: Sequence[tuple[int, int]],
        shared_positions: PairPositions | Mapping[str, PairPositions] | None,
        position_groups: RowGroups | Mapping[str, RowGroups] | None,
        keep_places: PositionSampler | Literal["all", "mean"],
        autoencoders: Mapping[str, SparseAutoencoder],
    ) -> None:
        for p, pair in enumerate(pairs):
            if len(tuple(pair)) != 2 or any(int(row) != row or row < 0 for row in pair):
                raise HookError(
                    f"pairs[{p}]: expected two rows of the batch, counted from 0, but got {pair!r}"
                )
        self._pairs = np.array(pairs, dtype=np.int64).reshape(-1, 2)
        self._shared = shared_positions
        self._require_shared()
        self._choose, self._groups, self._coders = keep_places, position_groups, autoencoders
        self._require_groups(sites["pooled"])
        self._sites = {site.address: site for of_kind in sites.values() for site in of_kind}
        self._entries: dict[str, dict[str, list[tuple[int, Tensor]]]] = {
            kind: {site.address: [] for site in of_kind} for kind, of_kind in sites.items()
        }
        of_text = METRICS_OF_TEXT if shared_positions is not None else METRICS_OF_TEXT[:2]
        self._entries["similarity"] = {
            f"{site.address}:{metric}": []
            for site in sites["similarity"]
            for metric in (
                of_text if site.space == "prompt" and site.address != "text.pooled" else ("cosine",)
            )
        }
        self._places: dict[str, int] = {}  # of the sites that some places are kept of
        # of a batch that is decoded in parts, those that have come
        self._decoded: dict[str, list[Tensor]] = {}
        self.rows: int | None = None
        self._timesteps: list[Any] = []
        self._devices: set[torch.device] = set()  # that tensors are on the way from
        self._last: tuple[Any, ...] = (None,)  # what was compared last: place in memory, values, products

    def _require_shared(self) -> None:
        """Raise HookError unless `shared_positions` has two equally long lists of positions from 0 for each pair."""
        shared = self._shared
        if shared is not None and not len(self._pairs):
            raise HookError("shared_positions: given without pairs: pass the pairs they belong to")
        by_encoder = shared if isinstance(shared, Mapping) else {} if shared is None else {"": shared}
        for positions in by_encoder.values():
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

    def _require_groups(self, pooled: Sequence[Site]) -> None:
        """Raise HookError if a pooled site of tokens has no position groups, or the rows name different groups."""
        for site in pooled:
            if site.is_by_token and not self._site_position_groups(site):
                raise HookError(
                    f"{site.address}: expected groups of token positions to pool over, but got none: "
                    "pass position_groups, one mapping a row (hooks.position_groups makes one)"
                )
        groups = self._groups
        for rows in groups.values() if isinstance(groups, Mapping) else (groups or (),):
            if len({tuple(row_groups) for row_groups in rows}) > 1:
                raise HookError("position_groups: expected the same names in every row")

    def _site_position_groups(self, site: Site) -> RowGroups | None:
        """Return the position groups of a site's text encoder or of the denoiser's text; None if there are none."""
        if not isinstance(self._groups, Mapping):
            return self._groups
        name = site.address.partition(".")[0]
        return self._groups.get(name if name in TEXT_ENCODERS and site.address != "text.final" else JOINED)

    # While the pipeline runs

    def next_call(self, rows: int, timestep: Any) -> None:
        """Begin a call of the denoiser and discard earlier decodes; HookError if a pair has a row beyond `rows`."""
        if self.rows is None:
            for p, pair in enumerate(self._pairs.tolist()):
                if max(pair) >= rows:
                    raise HookError(
                        f"pairs[{p}]: expected rows below the {rows} of the batch, but got {tuple(pair)}"
                    )
            self.rows, self._group = rows, group_size(self._pairs.tolist(), rows)
        self._timesteps.append(timestep)
        self._discard_entries({address for address, site in self._sites.items() if site.decoded})
        self._decoded.clear()

    def _discard_entries(self, addresses: set[str]) -> None:
        """Empty the entries of every kind at the sites with these addresses."""
        for entries in self._entries.values():
            for key in entries:
                if key.partition(":")[0] in addresses:
                    entries[key] = []

    def record(self, address: str, values: Tensor, once: bool = False) -> None:
        """Record values (rows, ...) of a site for the current call of the denoiser, or as call 0 if `once`."""
        call = 0 if once else len(self._timesteps) - 1
        if (key := f"{address}:cosine") in self._entries["similarity"]:
            products = gram(values, self._group) if once else self._dot_products(values)
            self._entries["similarity"][key].append((call, products))
        self._store(address, call, values)

    def _dot_products(self, values: Tensor) -> Tensor:
        """Return `gram` of the values, computed once for a block and its last layer, which are one tensor."""
        version = object() if values.is_inference() else values._version  # where alterations are not counted
        memory = values.untyped_storage()._cdata, values.storage_offset(), values.shape, values.stride()
        if self._last[0] != (version, *memory):  # the values are held, so that no others come to their place
            self._last = (version, *memory), values, gram(values, self._group)
        return self._last[2]

    def record_decoded(self, address: str, values: Tensor) -> None:
        """Record a site of the decoder once all rows of the batch have come (a sliced VAE decodes row by row)."""
        if self.rows is None:
            return  # a decode outside the pipeline's own call
        parts = self._decoded.setdefault(address, [])
        if sum(map(len, parts)) + len(values) > self.rows:
            parts.clear()  # an earlier decode of some of the rows
        parts.append(values)
        if sum(map(len, parts)) == self.rows:
            self._discard_entries({address})
            self.record(address, parts[0] if len(parts) == 1 else torch.cat(parts), once=True)
            del self._decoded[address]

    def record_text(
        self,
        texts: Sequence[tuple[Site, Tensor, Tensor]],
        ends: Tensor | None,
        repeats: int,
        places: Mapping[str, Tensor] | None = None,
    ) -> None:
        """Record the activations of an encoder's sites and the similarities of pairs of rows of them.

        `texts` has of each site the activations that are stored (rows, tokens, width), and those that are compared:
        they have passed the final layer norm, except at `text.final` and within layers. `ends` has the positions of
        end-of-text tokens on the CPU, None if the text is not known, `repeats` is the number of images per row, and
        `places` of `text.final`, by encoder, the number of the token at each position (-1: none).
        """
        groups: dict[torch.Size, list[tuple[str, Tensor]]] = {}
        for site, raw, compared in texts:
            if f"{site.address}:cosine_sequence" in self._entries["similarity"]:
                groups.setdefault(compared.flatten(2).shape, []).append((site.address, compared.flatten(2)))
            self._store(site.address, 0, raw, repeats)
        for shape, group in groups.items():
            at_once = max(1, COMPARED_AT_ONCE[group[0][1].is_cuda] // shape.numel())
            for first in range(0, len(group), at_once):
                addresses, states = zip(*group[first : first + at_once])
                values, sites = torch.cat(states), len(addresses)  # (rows of each site, tokens, width)
                starts = torch.arange(sites)[:, None] * shape[0]
                paired = [(starts + side).flatten() for side in torch.from_numpy(self._pairs.T // repeats)]
                left, right = torch.stack(paired).to(values.device, non_blocking=values.is_cuda)
                similarities = {"cosine_sequence": cosine(values, left, right)}
                if ends is None:  # prompt_embeds came from elsewhere: where their text ends is not known
                    similarities["cosine_eos"] = torch.full_like(similarities["cosine_sequence"], torch.nan)
                else:
                    tokens = torch.arange(len(values)) * shape[1] + ends.repeat(sites)
                    tokens = tokens.to(values.device, non_blocking=values.is_cuda)
                    similarities["cosine_eos"] = cosine(values.flatten(0, 1)[tokens], left, right)
                if self._shared is not None:
                    positions = [*self._shared_positions(addresses[0], places)] * sites
                    similarities["cosine_words"] = cosine_of_tokens(values, *paired, positions)
                for metric, by_pair in similarities.items():
                    for address, entry in zip(addresses, by_pair.split(len(self._pairs))):
                        self._entries["similarity"][f"{address}:{metric}"].append((0, entry))

    def _shared_positions(self, address: str, places: Mapping[str, Tensor] | None) -> PairPositions:
        """Return each pair's shared token positions in one encoder or, with `places`, in the denoiser's text."""
        if not isinstance(self._shared, Mapping):
            return self._shared
        if places is None:
            name = address.partition(".")[0]
            return self._shared.get(name, [([], [])] * len(self._pairs))
        placed: list[tuple[list[int], list[int]]] = [([], []) for _ in self._pairs]
        for encoder, rows in places.items():
            at = [{token: position for position, token in enumerate(row)} for row in rows.tolist()]
            for (i, j), positions, (first, second) in zip(self._pairs, self._shared.get(encoder, ()), placed):
                for left, right in zip(*positions):
                    if left in at[i] and right in at[j]:
                        first.append(at[i][left])
                        second.append(at[j][right])
        return placed

    def _store(self, address: str, call: int, values: Tensor, repeats: int = 1) -> None:
        """Add a site's values on the CPU to the entries, reduced as each kind of result but similarity asks."""
        for kind, entries in self._entries.items():
            if kind == "similarity" or address not in entries:
                continue
            site, result = self._sites[address], values.detach()
            if kind == "pooled":
                result = self._means(
                    site, result.repeat_interleave(repeats, dim=0) if repeats > 1 else result
                )
            elif kind == "latents":
                result, coder = site.vectors(result), self._coders[address]
                coder.require_width(result.shape[-1], address)
                if coder.encoder.device != result.device:
                    coder = self._coders[address] = coder.to(result.device)
                result = coder.encode(result).mean(1)
            elif kind == "kept" and self._choose == "mean":
                result = _mean_over_space(site, result)[:, None]
            elif kind == "kept" and self._choose != "all":
                result = site.vectors(result)
                rows, places, channels = result.shape
                self._places[address] = places
                chosen = np.array([self._choose(address, call, row, places) for row in range(rows)])
                index = torch.from_numpy(chosen).to(result.device, non_blocking=result.is_cuda)
                result = result.gather(1, index[:, :, None].expand(-1, -1, channels))
            if result.is_cuda:
                self._devices.add(result.device)
            host = torch.empty(result.shape, dtype=result.dtype, pin_memory=result.is_cuda)
            entries[address].append((call, host.copy_(result, non_blocking=result.is_cuda)))

    def _means(self, site: Site, values: Tensor) -> Tensor:
        """Return means (rows, c) over space or, at sites of text tokens, (rows, groups, c) over `position_groups`."""
        row_groups = self._site_position_groups(site)
        if not site.is_by_token or row_groups is None:
            return _mean_over_space(site, values)
        if len(row_groups) != len(values):
            raise HookError(
                f"position_groups: expected one a row of the batch ({len(values)}), but got {len(row_groups)}"
            )
        tokens = values.float().flatten(2)
        weights = torch.zeros(len(values), len(row_groups[0]), tokens.shape[1])
        for row, groups in enumerate(row_groups):
            for index, (name, positions) in enumerate(groups.items()):
                if any(not 0 <= position < tokens.shape[1] for position in positions):
                    raise HookError(
                        f"{site.address}: expected positions below {tokens.shape[1]}, but got {name} at {positions}"
                    )
                weights[row, index, list(positions)] = 1.0
        weights /= weights.sum(dim=2, keepdim=True)  # an empty group: 0 / 0
        return weights.to(tokens.device, non_blocking=tokens.is_cuda) @ tokens

    # When it has run

    def results(self) -> dict[str, dict[str, Any]]:
        """Return by kind of result `Similarity` by "<address>:<metric>" (of "similarity") or `Kept` by address."""
        for device in self._devices:
            torch.cuda.synchronize(device)
        times = [torch.as_tensor(time).detach().flatten()[:1].double() for time in self._timesteps]
        timesteps = np.array([float(time) for time in to_cpu(times)], dtype=np.float64)
        similarities = self._entries["similarity"].values()
        moved = iter(to_cpu([values for entries in similarities for _, values in entries]))
        results: dict[str, dict[str, Any]] = {kind: {} for kind in self._entries}
        for kind, by_key in self._entries.items():
            for key, entries in by_key.items():
                calls = np.array([call for call, _ in entries], dtype=np.int64)
                per_step = self._sites[key.partition(":")[0]].per_step
                when = calls, timesteps[calls] if per_step else np.full(len(calls), np.nan)
                if kind != "similarity":
                    kept = torch.stack([values for _, values in entries]) if entries else torch.empty(0)
                    places = self._places.get(key) if kind == "kept" else None
                    results[kind][key] = Kept(kept.float(), *when, places)
                    continue
                values = np.empty((0, len(self._pairs)), dtype=np.float32)
                if entries:
                    values = torch.stack([next(moved) for _ in entries]).numpy()
                    if key.endswith(":cosine"):
                        values = cosine_of_gram(values, self._group, self._pairs)
                results[kind][key] = Similarity(values, *when)
        return results


def _mean_over_space(site: Site, values: Tensor) -> Tensor:
    """Return the mean over all positions of an activation, shape (rows, c), float32, heads concatenated."""
    values = values.float()
    if values.ndim == 2:  # a vector, which has no places
        return values
    if values.ndim == 4 and site.heads is None:
        return values.mean(dim=(2, 3))
    return values.mean(dim=1).flatten(1)
