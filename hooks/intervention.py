"""Activation patching while a pipeline generates: sites take activations from other rows of the batch.

Donors and recipients are rows of one call, so nothing is cached and the noise is shared:

    swap = Patch("unet.mid.attn.0.cross", part=("key", "value"), source=1, into=2, steps=range(10))
    with Intervention(pipe, [swap]) as intervention, Probe(pipe, pairs=[(2, 0), (2, 1)]) as probe:
        images = pipe([person, woman, person], generator=noise).images
    intervention.written[0]   # number of writes, largest change

A patch of a row into itself leaves the images bit-identical. A patch that wrote nothing raises when the block ends.
Gradients pass through what is written as through any operation: to the donor of a swap, not to what it replaced; a
local donor is computed without them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

import hooks.sites as site_table
from hooks.architectures.registry import architecture_of
from hooks.architectures.site import Batch, Inputs, Step
from hooks.architectures.text_encoders import text_cores
from hooks.block import HookedBlock
from hooks.errors import HookError
from hooks.patch import Patch, apply_patch
from hooks.prompt.text import TextReader, select_runs
from hooks.results import counted
from hooks.sites import TEXT_ENCODERS, Site

LATENTS = ("latent", "latent.final")
_AT_EVERY_STEP = ("latent", "text.pooled")  # which the denoiser is given at each


@dataclass(frozen=True)
class Written:
    """What a patch did: the number of module runs that it wrote at, and its largest change of a value, by row.

    A patch of several parts writes at several modules at each call of the denoiser, one of both halves of a guided
    batch once for both. ``changes`` are the largest changes row by row, in the order of ``patch.into``.
    """

    patch: Patch
    writes: int
    changes: tuple[float, ...]

    @property
    def largest_change(self) -> float:
        """The largest absolute change of a value in any row that the patch wrote."""
        return max(self.changes)


class Intervention(HookedBlock):
    """Context manager that applies patches to the activations of a pipeline during one call of it.

    Enter it beside a `hooks.Probe`, in either order: the probe reads what was written. Latents are written through the
    pipeline's step callback: pass ``callback_on_step_end=intervention.on_step_end``. What a multistep scheduler
    remembers of earlier steps stays the row's own.

    Parameters
    ----------
    pipe : DiffusionPipeline
        One of `hooks.sites.SUPPORTED_PIPELINES`, or a subclass.
    patches : iterable of Patch
        At one site they are applied in this order, each on what those before it have left; donors are read before any.

    Attributes
    ----------
    written : list of Written
        By patch, when the block has ended.

    Raises
    ------
    HookError
        On entering, for a site, part, position or head that is not there; while running, for rows that the batch does
        not have; on leaving, where a patch wrote nothing.
    """

    _first = True  # its donors are computed, and its values written, before anyone reads

    def __init__(self, pipe: Any, patches: Iterable[Patch]) -> None:
        self._pipe, self._patches = pipe, list(patches)

    def __repr__(self) -> str:
        about = f"{type(self._pipe).__name__}, {counted(len(self._patches), 'patch')}"
        if self._phase != "done":
            return f"Intervention({about}; {self._phase_text('writing')})"
        lines = [
            f"  {result.patch}: {counted(result.writes, 'write')}, largest change {result.largest_change:.4g}"
            for result in self.written
        ]
        return "\n".join([f"Intervention({about}; done)", *lines])

    # Entering and leaving

    def _forget(self) -> None:
        """Drop the batch of the current denoiser call and the activations of local donors."""
        self._batch: Batch | None = None
        self._local: dict[tuple[int, str], Tensor] = {}

    @property
    def written(self) -> list[Written]:
        """A `Written` for each patch, in the order passed; HookError before the block ended without an exception."""
        if self._phase != "done":
            raise HookError("Intervention.written: read before the block has ended without an exception")
        counts = zip(self._patches, self._writes, self._changes, strict=True)
        return [Written(patch, writes, tuple(changes.tolist())) for patch, writes, changes in counts]

    def _prepare(self) -> None:
        """Check each patch against the pipeline and set up what the hooks need, when the block is entered."""
        self._forget()
        self._architecture = architecture_of(self._pipe)
        self._sites = {site.address: site for site in site_table.available(self._pipe)}
        self._patches_at: dict[str, list[int]] = {}
        for number, patch in enumerate(self._patches):
            for address in patch.addresses:
                self._check_address(patch, address)
                self._patches_at.setdefault(address, []).append(number)
        self._paths = {self._sites[address].module for address in self._patches_at}
        self._writes = [0] * len(self._patches)
        self._changes = [torch.zeros(len(patch.into)) for patch in self._patches]
        watched = self._architecture.transformer  # texts may tell which rows are the prompts'
        self._readers = [
            TextReader(self._pipe, name, TEXT_ENCODERS[name])
            for name in text_cores(self._pipe)
            if watched or any(address.startswith(f"{name}.") for address in self._patches_at)
        ]

    def _check_address(self, patch: Patch, address: str) -> None:
        """Raise a HookError if the pipeline has no site at `address`, or the patch cannot write there as asked."""
        if address not in self._sites:
            (base,) = site_table.resolve(self._pipe, patch.site)[:1]  # names the nearest where there is none
            if base.address != patch.site:
                patch.refuse("site: expected one address, but got a pattern")
            patch.refuse(
                f"part: expected a site {address}, but this pipeline has none: query, key, value and heads are "
                "parts of attentions"
            )
        site = self._sites[address]
        if address not in LATENTS:
            site.require_writable()
        text = site.space == "prompt"
        if patch.positions is not None and not site.is_by_token:
            patch.refuse(f"positions: {address} is not by token")
        if patch.steps is not None and not (site.per_step or address in _AT_EVERY_STEP):
            patch.refuse(f"steps: {address} does not run at every step: leave them out")
        if patch.donor == "local" and (text or site.decoded or address in LATENTS):
            patch.refuse(f"donor: {address} lies outside the denoiser, where there is no local one")
        if address == "latent" and patch.steps is not None and 0 in patch.steps:
            patch.refuse("steps: the latent of step 0 is the noise: pass it to the pipeline")
        heads = self._attention_heads(address)
        if patch.heads and heads is None:
            patch.refuse(
                f"heads: expected an attention whose heads are known, but got {address}: leave them out"
            )
        if patch.heads and max(patch.heads) >= heads:
            patch.refuse(f"heads: expected numbers from 0 below {heads}, but got {max(patch.heads)}")

    def _attention_heads(self, address: str) -> int | None:
        """Number of heads of the attention that a site is a part of; None if it is no part of an attention."""
        site = self._sites.get(f"{address.rpartition('.')[0].removesuffix('.text')}.heads")
        return None if site is None else site.heads

    def _attach_sites(self, stack: contextlib.ExitStack) -> None:
        """Attach a writer at each patched site but the latents, until `stack` closes."""
        for address in self._patches_at:
            if address not in LATENTS:
                site = self._sites[address]
                stack.callback(site.attach_writer(self._pipe, partial(self._patched_values, site)).remove)

    # What the hooks do

    def _before_denoiser(self, inputs: Inputs, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Pre-hook of the denoiser: compute local donors for this call; at the first call, check the texts."""
        if self._calls == 0:
            self._check_text_runs(inputs.text, inputs.pooled)
        self._local = self._local_donors(inputs.batch, args, kwargs)
        self._batch = self._last = inputs.batch

    def _after_denoiser(self, module: Any, args: Any, output: Any) -> None:
        """Forward hook of the denoiser: drop what belongs to this call."""
        self._forget()

    def _on_step(self, step: Step) -> None:
        """Raise a HookError if the scheduler's step has another number of images than the denoiser's batch."""
        self._last.require_images(self._pipe, len(step.output))

    def _patched_values(self, site: Site, values: Tensor) -> Tensor | None:
        """A site's activations with its patches applied; None if no patch writes in this denoiser call."""
        call = None if self._batch is None else self._calls - 1
        return self._apply_patches(site.address, values, self._branch_starts(site, values), call)

    def _branch_starts(self, site: Site, values: Tensor) -> dict[str, int]:
        """First row, by branch of guidance, of a site's activations; empty if they are not to be patched now."""
        runs = {reader.name: len(reader.runs) for reader in self._readers}
        encoder = site.address.partition(".")[0]
        if encoder in runs and site.address != "text.pooled":  # which is written on its way into the denoiser
            return dict.fromkeys(("conditional", "unconditional")[runs[encoder] :][:1], 0)
        if site.decoded:
            return {"conditional": 0}
        if self._batch is None:
            return {}  # the pass that computes local donors
        rows = self._batch.rows * len(self._batch.branches)
        if values.shape[0] != rows:
            raise HookError(f"{site.address}: expected {rows} rows, but got {values.shape[0]}")
        return {name: self._batch.rows * index for index, name in enumerate(self._batch.branches)}

    def _apply_patches(
        self, address: str, values: Tensor, starts: dict[str, int], call: int | None
    ) -> Tensor | None:
        """A copy of `values` with the patches of an address applied; None if none writes at this denoiser call.

        `starts` is the first row of each branch ("" is written by every patch); a `call` of None fits any patch.
        """
        new = None
        for number in self._patches_at.get(address, ()):
            patch = self._patches[number]
            if call is not None and not patch.writes_at(call):
                continue
            chosen = [start for name, start in starts.items() if not name or patch.branch in ("both", name)]
            for start in chosen:
                self._require_rows(patch, values.shape[0] // len(starts), address)
                base, donors = values if new is None else new, self._local.get((number, address), values)
                new = self._apply_one_patch(number, address, base, donors, start)
            self._writes[number] += bool(chosen)
        return new

    def _require_rows(self, patch: Patch, available: int, where: str) -> None:
        """Raise a HookError if a donor or recipient row of a patch is not below the number `available`."""
        rows = max((*patch.into, *patch.source))
        if rows >= available:  # a batch may grow while it is drawn
            patch.refuse(f"rows: expected less than {available}, the rows of {where}, but got {rows}")

    def _apply_one_patch(self, number: int, address: str, base: Tensor, donors: Tensor, start: int) -> Tensor:
        """A copy of `base` with patch `number` applied to the branch from row `start`; notes its largest changes."""
        patch, site, new = self._patches[number], self._sites[address], base.clone()
        heads = None if site.heads else self._attention_heads(address)
        changes = self._changes[number] = self._changes[number].to(new.device)
        for span, chosen in self._rows_by_span(site, patch, start).items():
            rows, where = [patch.into[index] for index in chosen], slice(*span)
            apply_patch(patch, rows, new[:, where], donors[:, where], start, heads)
            target = [start + row for row in rows]
            changed = (new[target, where] - base[target, where]).detach().abs().flatten(1).amax(1).float()
            changes[chosen] = torch.maximum(changed, changes[chosen])
        return new

    def _rows_by_span(self, site: Site, patch: Patch, start: int) -> dict[tuple[int | None, ...], list[int]]:
        """Indices into `patch.into` by the token span of the site's stream in their rows; (None,): all tokens."""
        if site.stream is None or self._batch is None:
            return {(None,): [*range(len(patch.into))]}
        recipients: dict[tuple[int | None, ...], list[int]] = {}
        for index, row in enumerate(patch.into):
            rows = [start + number for number in (row, *patch.sources(row))]
            recipients.setdefault(self._batch.span(site.stream, site.sequence, rows), []).append(index)
        return recipients

    # Rows, texts, donors

    def _check_text_runs(self, states: Tensor, pooled: Tensor | None) -> None:
        """Raise a HookError unless each patched text encoder ran first on the prompts, with one row per image."""
        patched = {address.partition(".")[0] for address in self._patches_at if address != "text.pooled"}
        runs = select_runs(self._readers, states, pooled) if patched else {}
        for reader, run in (runs[name] for name in runs if name in patched):
            if run is None or run is not reader.runs[0] or len(reader.runs) > 2:
                raise HookError(
                    f"{reader.name}: expected the prompts to be encoded first, and negative prompts after them: pass "
                    "prompts, not prompt_embeds, or leave patches of the text encoder out"
                )
            prompts = run.states[0].shape[0]
            if prompts != states.shape[0]:
                raise HookError(
                    f"{reader.name}: expected one image a prompt, but got {states.shape[0]} of {prompts}: repeat the "
                    "prompts instead of num_images_per_prompt, or leave patches of the text encoder out"
                )

    def _local_donors(
        self, batch: Batch, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> dict[tuple[int, str], Tensor]:
        """Activations as if recipients had their donors' texts in this denoiser call, by (patch number, address).

        The denoiser runs once more on the same latents, with the texts exchanged, before it runs on what it was given:
        the whole batch, so that a row with its own text computes what it did, bit for bit, and again only where one
        recipient has several donors.
        """
        passes: list[tuple[dict[int, int], list[int]]] = []  # donors by recipient, and the patches
        for number, patch in enumerate(self._patches):
            if patch.donor != "local" or not patch.writes_at(self._calls):
                continue
            self._require_rows(patch, batch.rows, "the batch")
            for donors, numbers in passes:
                if all(donors.get(row, donor) == donor for row, donor in patch.donors.items()):
                    donors.update(patch.donors)
                    numbers.append(number)
                    break
            else:
                passes.append((patch.donors, [number]))
        values_of: dict[tuple[int, str], Tensor] = {}
        for donors, numbers in passes:
            rows = [donors.get(row, row) for row in range(batch.rows)]
            texts = [branch * batch.rows + row for branch in range(len(batch.branches)) for row in rows]
            new_args, new_kwargs = self._architecture.exchange_texts(args, kwargs, texts)
            with contextlib.ExitStack() as stack:
                for key in ((number, one) for number in numbers for one in self._patches[number].addresses):
                    keep = partial(lambda key, values: values_of.update({key: values.clone()}), key)
                    stack.callback(self._sites[key[1]].attach_reader(self._pipe, keep).remove)
                # not the call: hooks on the denoiser itself stay out of it
                self._architecture.denoiser(self._pipe).forward(*new_args, **new_kwargs)
        return values_of

    # Latents

    def on_step_end(self, pipe: Any, step: int, timestep: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
        """Step callback that applies patches of latents; pass it to the pipeline as ``callback_on_step_end``."""
        latents = kwargs["latents"]
        planned = self._architecture.planned_steps(self._pipe)
        final = planned is not None and self._calls >= planned
        address = "latent.final" if final else "latent"
        new = self._apply_patches(address, latents, {"": 0}, None if final else step + 1)
        return kwargs if new is None else {**kwargs, "latents": new}

    # Results

    def _finish(self) -> None:
        """Raise a HookError with the likely reason if a patch wrote nothing."""
        for patch in (patch for patch, writes in zip(self._patches, self._writes, strict=True) if not writes):
            why = "its module did not run in this call, or the batch has no such branch"
            if not self._calls:
                why = "the pipeline was not called inside the block"
            elif set(patch.addresses) & set(LATENTS):
                why = "pass callback_on_step_end=intervention.on_step_end to the pipeline, and steps that it reaches"
            elif patch.steps is not None and min(patch.steps) >= self._calls:
                why = f"expected a step below {self._calls}, the number of the denoiser's calls"
            patch.refuse(f"wrote nothing: {why}")
