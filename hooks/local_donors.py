"""Local donors: what a site would hold if its recipients had the text of their donors, all else being their own.

The denoiser runs once more on the same latents, with the texts exchanged, before it runs on what it was given.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from hooks.architectures.batch import Batch
from hooks.architectures.registry import architecture_of
from hooks.attach import attach_reader
from hooks.patch import Patch
from hooks.sites import Site, module_at


def local_donors(
    pipe: Any,
    sites: Mapping[str, Site],
    patches: Mapping[int, Patch],
    batch: Batch,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> dict[tuple[int, str], Tensor]:
    """The values of each site by number of the patch and address, where recipients have their donors' text.

    The whole batch runs once more, so that a row with its own text computes what it did, bit for bit; and again
    only where one recipient has several donors.
    """
    found: dict[tuple[int, str], Tensor] = {}
    passes: list[tuple[dict[int, int], list[int]]] = []
    for number, patch in patches.items():
        _join(passes, number, patch.donors)
    architecture = architecture_of(pipe)
    for donors, numbers in passes:
        given = architecture.with_texts(args, kwargs, _texts(batch, donors))
        with contextlib.ExitStack() as stack:
            for number in numbers:
                for address in patches[number].addresses:
                    site = sites[address]

                    def keep(values: Tensor, key: tuple[int, str] = (number, address)) -> None:
                        found[key] = values.clone()

                    stack.callback(attach_reader(module_at(pipe, site.module), site, keep).remove)
            # not the call: hooks on the denoiser itself stay out of it
            architecture.denoiser(pipe).forward(*given[0], **given[1])
    return found


def _texts(batch: Batch, donors: dict[int, int]) -> list[int]:
    """Whose text each row of the whole batch is given."""
    rows = [donors.get(row, row) for row in range(batch.rows)]
    return [place * batch.rows + row for place in range(len(batch.branches)) for row in rows]


def _join(passes: list[tuple[dict[int, int], list[int]]], number: int, donors: dict[int, int]) -> None:
    """Add a patch to the first pass in which none of its recipients has another donor, or to a new one."""
    for there, numbers in passes:
        if all(there.get(row, donor) == donor for row, donor in donors.items()):
            there.update(donors)
            numbers.append(number)
            return
    passes.append((dict(donors), [number]))
