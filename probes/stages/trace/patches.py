"""From the rows of a batch to the patches that are written into it: as few as there are different ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hooks import Patch
from probes.stages.trace.patch_sites import POOLED, of_the_text
from probes.stages.trace.triplet_draw import TripletDraw
from probes.stages.trace.variants import Variant


@dataclass(frozen=True)
class BatchRow:
    """A row of the batch."""

    draw: TripletDraw
    variant: Variant
    shared: bool = True  # whether it may begin as a copy of its recipient's row when it is first written

    @property
    def prompt(self) -> str:
        """That of the recipient."""
        return self.draw.prompts[self.variant.recipient]

    @property
    def begins(self) -> int:
        """The call of the denoiser from which on it is there."""
        return self.variant.begins if self.shared else 0

    def from_the_start(self) -> BatchRow:
        """The same from the first call on."""
        return replace(self, shared=False)

    def is_unpatched(self, draw: TripletDraw, indicator: str) -> bool:
        """Return whether it is the row of an indicator in which nothing is exchanged."""
        return self.draw is draw and self.variant.kind == "none" and self.variant.recipient == indicator


def unpatched(rows: Sequence[BatchRow], row: BatchRow, indicator: str) -> int:
    """Return the number of the row of the same triplet in which nothing is exchanged."""
    return next(number for number, one in enumerate(rows) if one.is_unpatched(row.draw, indicator))


def patches(rows: Sequence[BatchRow]) -> list[Patch]:
    """Return the patches of a batch; those that differ in their rows alone are one."""
    joined: dict[Any, list[tuple[int, int]]] = {}
    for number, row in enumerate(rows):
        if row.variant.donor is not None:
            donor = unpatched(rows, row, row.variant.donor)
            for key in _keys(row):
                joined.setdefault(key, []).append((donor, number))
    return [_patch(key, *zip(*pairs, strict=True)) for key, pairs in joined.items()]


_Key = tuple[str, tuple[str, ...], str, Any, Any, Any, Any]


def _keys(row: BatchRow) -> Iterator[_Key]:
    """Yield what a patch says but for rows, site by site."""
    variant = row.variant
    steps = None if variant.in_text else (variant.first_step, variant.stop_step)
    for site in variant.sites:
        into, source = (_positions(row, site, name) for name in (variant.recipient, variant.donor))
        for address, part in _parts(site, variant):
            yield address, part, variant.source, steps, into, source, variant.heads


def _parts(site: str, variant: Variant) -> list[tuple[str, tuple[str, ...]]]:
    """Addresses that are written for a site, each with what of it."""
    if variant.in_text or site == POOLED:
        return [(site, ("output",))]
    found: dict[str, list[str]] = {}
    for part in variant.part.split("+"):
        found.setdefault(of_the_text(site, part), []).append(part)
        if part == "probabilities" and (text := of_the_text(site, "key")) != site:
            found[text] = ["key"]  # they are made of the keys of both streams
    return [(address, tuple(parts)) for address, parts in found.items()]


def _positions(row: BatchRow, site: str, indicator: str | None) -> tuple[int, ...] | None:
    if row.variant.positions is None or indicator is None:
        return None
    return row.draw.positions(site, indicator, row.variant.positions)


def _patch(key: _Key, source: tuple[int, ...], into: tuple[int, ...]) -> Patch:
    site, part, donor, steps, positions, source_positions, heads = key
    return Patch(
        site,
        part=part,
        source=source,
        into=into,
        donor=donor,
        positions=positions,
        source_positions=source_positions,
        heads=heads,
        steps=None if steps is None else range(*steps),
    )
