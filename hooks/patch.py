"""Writes at a site: which rows are given which rows' activations, or other values, where and when.

Rows are images of the batch (at the text encoders' sites: prompts), so donor and recipient share one run and its noise.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import torch
from torch import Tensor

from hooks.autoencoder import SparseAutoencoder
from hooks.errors import HookError

PARTS = ("output", "query", "key", "value", "heads", "probabilities")
MODES = ("swap", "mean", "add", "project_out", "scale", "zero")
OF_DONORS = ("swap", "mean")
ALONG = ("add", "project_out")  # a direction
DONORS = ("own", "local")
BRANCHES = ("conditional", "unconditional", "both")


@dataclass(frozen=True, eq=False, repr=False)
class Patch:
    """One activation patch: which rows of a site's activations are replaced or changed, by what, and when.

    Parameters
    ----------
    site : str
        Address (see `hooks.sites`).
    part : str or sequence of str
        "output": what the site gives. Of an attention also "query", "key", "value", "heads" (each head's output, before
        the output projection) and "probabilities", which are swapped by swapping queries and keys, of which they are
        made.
    source : int or sequence of int
        Rows of the donors. Of "swap": as many as `into`, or one for all. Of "mean": their mean is written.
    into : int or sequence of int
        Rows that are written.
    mode : {"swap", "mean", "add", "project_out", "scale", "zero"}
        The donor's activation in place of the recipient's; the donors' mean; `factor` times `direction` added; the
        component along `direction` taken out; the activation times `factor`; 0.
    donor : {"own", "local"}
        The donor's activation on its own trajectory, or recomputed at the recipient's own latent with the donor's text
        (by one more pass of the denoiser at every step that is written). Keys and values of cross-attention depend on
        the text alone, so there both are the same.
    positions, source_positions : sequence of int, optional
        Token positions that are written, and those of the donor (the same, by default), at sites whose rows are
        tokens: text encoders, keys and values of cross-attention. All, by default;
        `hooks.position_groups` names them.
    heads : sequence of int, optional
        Heads that are written, of queries, keys, values, head outputs and probabilities. All, by default.
    steps : collection of int, optional
        Calls of the denoiser, from 0, at which is written. All, by default. At `latent` a step's latent is what the
        step begins with; that of step 0 is the noise, which the caller passes.
    branch : {"conditional", "unconditional", "both"}
        Half of a guided batch that is written, with donors of the same half.
    direction : Tensor or array, optional
        Of "add" and "project_out": of the width of an activation (channels; of a head where the part is "heads").
    factor : float
        Of "add" and "scale".
    autoencoder : SparseAutoencoder, optional
        Writes in its latents in the place of channels: `latents` are swapped, scaled, set to 0, or `factor` is added to
        them. What the autoencoder leaves unexplained stays, so that a patch that changes no latent changes nothing.
    latents : int or sequence of int
        Numbers of the latents that are written.

    Raises
    ------
    HookError
        If the parts do not go together; the message names the patch and the argument.

    Examples
    --------
    >>> Patch("unet.mid.attn.0.cross", part=("key", "value"), source=2, into=3, steps=range(10)).addresses
    ('unet.mid.attn.0.cross.key', 'unet.mid.attn.0.cross.value')
    """

    site: str
    part: str | Sequence[str] = "output"
    source: int | Sequence[int] = ()
    into: int | Sequence[int] = ()
    mode: str = "swap"
    donor: str = "own"
    positions: Sequence[int] | None = None
    source_positions: Sequence[int] | None = None
    heads: Sequence[int] | None = None
    steps: Collection[int] | None = None
    branch: str = "conditional"
    direction: Any = None
    factor: float = 1.0
    autoencoder: SparseAutoencoder | None = None
    latents: int | Sequence[int] = ()
    addresses: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        """Convert rows, parts and positions to tuples and check all that can be checked without a pipeline."""
        put = object.__setattr__
        put(self, "part", (self.part,) if isinstance(self.part, str) else tuple(self.part))
        base, _, last = self.site.rpartition(".")
        if self.part == ("output",) and last in PARTS:  # the site of a part, by its own address
            put(self, "site", base)
            put(self, "part", (last,))
        for name in ("source", "into", "latents"):
            rows = getattr(self, name)
            put(self, name, (rows,) if isinstance(rows, int) else tuple(rows))
        for name in ("positions", "source_positions", "heads"):
            numbers = getattr(self, name)
            put(self, name, None if numbers is None else tuple(numbers))
        put(self, "steps", None if self.steps is None else frozenset(self.steps))
        self._check()
        kinds = [("query", "key") if part == "probabilities" else (part,) for part in self.part]
        addresses = (self.site if kind == "output" else f"{self.site}.{kind}" for of in kinds for kind in of)
        put(self, "addresses", tuple(dict.fromkeys(addresses)))

    def __repr__(self) -> str:
        arguments = [repr(self.site)]
        for parameter in fields(self)[1:]:
            name, value = parameter.name, getattr(self, parameter.name)
            if name == "direction" and value is not None:
                shape = torch.as_tensor(value).shape
                arguments.append(f"direction=<{' x '.join(map(str, shape))} numbers>")
            elif name != "addresses" and value not in (None, parameter.default, (parameter.default,)):
                arguments.append(f"{name}={sorted(value) if name == 'steps' else value!r}")
        return f"Patch({', '.join(arguments)})"

    def _check(self) -> None:
        """Raise a HookError if an argument is invalid or two do not go together."""
        for name in ("positions", "source_positions", "heads", "steps"):
            numbers = getattr(self, name)
            if numbers is not None and not numbers:
                self.refuse(f"{name}: expected one or more, but got none: leave them out to write at all")
            if numbers is not None and min(numbers) < 0:
                self.refuse(f"{name}: expected numbers from 0, but got {min(numbers)}")
        for name in ("positions", "heads"):
            numbers = getattr(self, name) or ()
            if len(set(numbers)) < len(numbers):
                self.refuse(f"{name}: expected each once, but got {list(numbers)}")
        for name, allowed in (("mode", MODES), ("donor", DONORS), ("branch", BRANCHES)):
            if getattr(self, name) not in allowed:
                self.refuse(f"{name}: expected one of {', '.join(allowed)}, but got {getattr(self, name)!r}")
        if not self.part or set(self.part) - set(PARTS):
            self.refuse(f"part: expected some of {', '.join(PARTS)}, but got {self.part!r}")
        if "probabilities" in self.part and self.mode != "swap":
            self.refuse(f"part: probabilities can be swapped alone, but the mode is {self.mode!r}")
        if self.heads is not None and "output" in self.part:
            self.refuse(
                "heads: the output of a site has none: name a part (query, key, value, heads, probabilities)"
            )
        if (self.mode in ALONG and self.autoencoder is None) == (self.direction is None):
            self.refuse(
                f"direction: expected one with {' and '.join(ALONG)} alone, and the mode is {self.mode!r}"
            )
        if self.direction is not None:
            direction = torch.as_tensor(self.direction, dtype=torch.float32)
            if not bool(torch.isfinite(direction).all()) or not bool(direction.any()):
                self.refuse(
                    "direction: expected finite numbers that are not all 0: nothing lies along that one"
                )
        if self.source_positions is not None and self.positions is None:
            self.refuse("source_positions: expected positions beside them, but got none")
        written, read = len(self.positions or ()), len(self.source_positions or self.positions or ())
        if written != read:
            self.refuse(f"source_positions: expected {written}, one for each position, but got {read}")
        if not self.into or min(self.into) < 0 or len(set(self.into)) != len(self.into):
            self.refuse(f"into: expected rows from 0, each once, but got {self.into!r}")
        if (self.mode in OF_DONORS) != bool(self.source):
            self.refuse(
                f"source: expected rows with {' and '.join(OF_DONORS)} alone, and the mode is {self.mode!r}"
            )
        if self.mode == "swap" and len(self.source) not in (1, len(self.into)):
            self.refuse(
                f"source: expected 1 row or {len(self.into)}, as many as `into`, but got {len(self.source)}"
            )
        if any(row < 0 for row in self.source):
            self.refuse(f"source: expected rows from 0, but got {self.source!r}")
        if self.donor == "local" and self.mode != "swap":
            self.refuse(f"donor: a local one can be swapped in alone, but the mode is {self.mode!r}")
        if (self.autoencoder is None) != (not self.latents):
            self.refuse("latents: expected numbers of latents beside an autoencoder, and neither alone")
        if self.autoencoder is None:
            return
        if self.mode == "project_out":
            self.refuse("mode: project_out takes a direction, and latents none: use zero")
        if self.heads is not None or {"heads", "probabilities"} & set(self.part):
            self.refuse("autoencoder: expected channels, but got heads: leave them out")
        for latent in self.latents:
            if not 0 <= latent < self.autoencoder.latents:
                self.refuse(
                    f"latents: expected numbers from 0 below {self.autoencoder.latents}, but got {latent}"
                )

    def refuse(self, reason: str) -> None:
        """Raise a HookError with this patch's site and the reason."""
        raise HookError(f"Patch({self.site!r}): {reason}")

    @property
    def donors(self) -> dict[int, int]:
        """Donor row of each recipient row, for patches of the mode "swap" only."""
        sources = self.source * len(self.into) if len(self.source) == 1 else self.source
        return dict(zip(self.into, sources, strict=True))

    def sources(self, row: int) -> tuple[int, ...]:
        """Donor rows of a recipient row: one for "swap", all of `source` for other modes."""
        return (self.donors[row],) if self.mode == "swap" else self.source

    def writes_at(self, call: int) -> bool:
        """Return whether this patch writes at a call of the denoiser, numbered from 0."""
        return self.steps is None or call in self.steps


def apply_patch(
    patch: Patch, rows: Sequence[int], values: Tensor, donor_values: Tensor, first_row: int, heads: int | None
) -> None:
    """Write a patch into recipient `rows` of `values`, a site's activations (batch, ...), in place.

    Donors are read from `donor_values`: the site's own, or those of a pass with the donors' text. `first_row` is that
    of the branch; `heads` the number of heads in the last dimension, where `patch.heads` chooses among them.
    """
    for name in ("positions", "source_positions"):
        last = max(getattr(patch, name) or (0,))
        if last >= values.shape[1]:
            patch.refuse(
                f"{name}: expected less than {values.shape[1]}, the tokens of {patch.site}, but got {last}"
            )
    for row in rows:
        view, index = _view_and_index(patch, values[first_row + row], patch.positions, heads)
        view[index] = _new_value(patch, row, view[index], donor_values, first_row, heads).to(view)


def _view_and_index(
    patch: Patch, row: Tensor, positions: Sequence[int] | None, heads: int | None
) -> tuple[Tensor, tuple[Any, ...]]:
    """A view of one row's activation, split into heads if the patch has some, and the index of the patched part."""
    if patch.heads is None:
        return row, (slice(None) if positions is None else list(positions),)
    tokens = range(len(row)) if positions is None else positions
    # tokens or pixels, heads, width of a head
    view = row if heads is None else row.unflatten(-1, (heads, -1))
    return view, (torch.tensor(list(tokens))[:, None], torch.tensor(list(patch.heads))[None, :])


def _new_value(
    patch: Patch, row: int, value: Tensor, donor_values: Tensor, first_row: int, heads: int | None
) -> Tensor:
    """The tensor that replaces `value`, the patched part of a recipient row, by the patch's mode and donors."""
    by_head = "heads" in patch.part or patch.heads is not None
    channels = 0 if value.ndim == 3 and not by_head else -1  # an image's come first
    positions = patch.positions if patch.source_positions is None else patch.source_positions
    # a local donor is computed in the row itself
    rows = (row,) if patch.donor == "local" else patch.sources(row)
    regions = (_view_and_index(patch, donor_values[first_row + donor], positions, heads) for donor in rows)
    donors = [view[index].movedim(channels, -1) for view, index in regions]
    vectors, coder = value.movedim(channels, -1), patch.autoencoder
    if coder is None:
        new = _apply_mode(patch, vectors, donors)
    else:
        coder.require_width(vectors.shape[-1], f"Patch({patch.site!r})")
        chosen = [coder.encode(donor)[..., list(patch.latents)] for donor in donors]
        new = coder.replace_latents(
            vectors, patch.latents, lambda latents: _apply_mode(patch, latents, chosen)
        )
    return new.movedim(-1, channels)


def _apply_mode(patch: Patch, vectors: Tensor, donors: Sequence[Tensor]) -> Tensor:
    """New activation vectors (..., width) or autoencoder latents, from old ones and donors', by the patch's mode."""
    if patch.mode == "swap":
        return donors[0]
    if patch.mode == "mean":
        return torch.stack([donor.float() for donor in donors]).mean(0)
    if patch.mode == "zero":
        return torch.zeros_like(vectors)
    values = vectors.float()
    if patch.mode == "scale":
        return values * patch.factor
    if patch.autoencoder is not None:
        return values + patch.factor
    direction = torch.as_tensor(patch.direction, dtype=torch.float32, device=values.device)
    if direction.shape[-1:] != values.shape[-1:]:
        patch.refuse(
            f"direction: expected {values.shape[-1]} numbers in the last dimension, the width of an "
            f"activation, but got shape {tuple(direction.shape)}"
        )
    if patch.mode == "add":
        return values + patch.factor * direction
    unit = direction / direction.norm(dim=-1, keepdim=True)
    return values - (values * unit).sum(-1, keepdim=True) * unit
