"""How a trace is cut into batches: recipients and donors of a batch are rows of it, too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from probes import generate
from probes.trace.draw import TripletDraw
from probes.trace.variants import Plan, Variant, images


@dataclass(frozen=True)
class Batch:
    """What is drawn at once: of each of some triplets these variants."""

    draws: tuple[TripletDraw, ...]
    variants: tuple[Variant, ...]

    @property
    def images(self) -> int:
        """Rows of it."""
        return len(self.draws) * len(rows(self.variants))


def rows(variants: Sequence[Variant]) -> set[tuple[Any, ...]]:
    """Return what is drawn for some variants of a triplet: each different one, its recipient and its donor."""
    return set().union(*map(_rows_of, variants))


def _rows_of(variant: Variant) -> set[tuple[Any, ...]]:
    names = [name for name in (variant.recipient, variant.donor) if name is not None]
    return {variant.drawn, *(Variant("", "none", name).drawn for name in names)}


def smallest(plan: Plan) -> int:
    """Return the images of a batch that holds one variant at a time."""
    return max(len(_rows_of(one)) for one in plan.variants)


def cut(draws: Sequence[TripletDraw], plan: Plan, size: int) -> list[Batch]:
    """Return the batches of some triplets.

    Parameters
    ----------
    draws, plan
        What is drawn.
    size
        Images that a batch holds at most; at least `smallest`.

    Returns
    -------
    list of Batch
        Of several triplets where all variants of each fit, else of some variants of one.
    """
    several = size // len(rows(plan.variants))
    if several:
        return [Batch(tuple(some), plan.variants) for some in generate.cut(draws, several)]
    return [Batch((one,), some) for one in draws for some in _chunks(plan.variants, size)]


def _chunks(variants: Sequence[Variant], size: int) -> Iterator[tuple[Variant, ...]]:
    """Variants that fit a batch together with their recipients and donors; what is the same stands together."""
    alike: dict[tuple[Any, ...], list[Variant]] = {}
    for one in variants:
        alike.setdefault(one.drawn, []).append(one)
    chunk: list[Variant] = []
    needed: set[tuple[Any, ...]] = set()
    for some in alike.values():
        more = needed | _rows_of(some[0])
        if len(more) > size:
            yield tuple(chunk)
            chunk, more = [], _rows_of(some[0])
        chunk, needed = [*chunk, *some], more
    yield tuple(chunk)


def computed(plan: Plan, size: int) -> int:
    """Return how many images are computed for one triplet and seed with batches of a size."""
    if size >= len(rows(plan.variants)):
        return images(plan.variants)
    return sum(len(rows(some)) for some in _chunks(plan.variants, size))
