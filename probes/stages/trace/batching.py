"""How a trace is cut into batches: recipients and donors of a batch are rows of it, too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from probes.config.schema import Config
from probes.execution import workers
from probes.stages import generate
from probes.stages.trace.triplet_draw import TripletDraw
from probes.stages.trace.variants import TracePlan, Variant

# Times the images that a batch of the generate stage holds: all variants of a triplet, or nearly.
_CPU_BATCH = 3.0
_SMALL = 8  # images that a batch holds at least


def auto_batch(pipe: Any, device: str, config: Config, image_bytes: float | None = None) -> int:
    """Return the images that a batch holds where the configuration leaves it to the machine."""
    number = workers.auto_images(pipe, device, config, image_bytes)
    return max(_SMALL, int(number if device.startswith("cuda") else _CPU_BATCH * number))


@dataclass(frozen=True)
class TraceBatch:
    """What is drawn at once: of each of some triplets these variants."""

    draws: tuple[TripletDraw, ...]
    variants: tuple[Variant, ...]

    @property
    def images(self) -> int:
        """Rows of it."""
        return len(self.draws) * len(rows(self.variants))


_Rows = dict[tuple[Any, ...], Variant]


def rows(variants: Sequence[Variant]) -> _Rows:
    """Return what is drawn for some variants of a triplet: each different one, recipient and donor, by `drawn`."""
    return {key: one for variant in variants for key, one in _rows_of(variant).items()}


def _rows_of(variant: Variant) -> _Rows:
    names = [name for name in (variant.recipient, variant.donor) if name is not None]
    return {one.drawn: one for one in (*(Variant("", "none", name) for name in names), variant)}


def smallest(plan: TracePlan) -> int:
    """Return the images of a batch that holds one variant at a time."""
    return max(len(_rows_of(one)) for one in plan.variants)


def cut(draws: Sequence[TripletDraw], variants: Sequence[Variant], size: int) -> list[TraceBatch]:
    """Return batches of at most so many images: of several triplets where all variants of each fit, else of one."""
    several = size // len(rows(variants))
    if several:
        return [TraceBatch(tuple(some), tuple(variants)) for some in generate.cut(draws, several)]
    return [TraceBatch((one,), some) for one in draws for some in _chunks(variants, size)]


def _chunks(variants: Sequence[Variant], size: int) -> Iterator[tuple[Variant, ...]]:
    """Variants that fit a batch together with their recipients and donors; what is the same stands together."""
    alike: dict[tuple[Any, ...], list[Variant]] = {}
    for one in variants:
        alike.setdefault(one.drawn, []).append(one)
    chunk: list[Variant] = []
    needed: _Rows = {}
    for some in alike.values():
        more = needed | _rows_of(some[0])
        if len(more) > size:
            yield tuple(chunk)
            chunk, more = [], _rows_of(some[0])
        chunk, needed = [*chunk, *some], more
    yield tuple(chunk)
