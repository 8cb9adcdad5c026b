"""Which images a trace draws of one triplet and seed: each a recipient with activations of a donor somewhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any

from probes.config.measurement import Trace
from probes.errors import UserError
from probes.stages.trace.patch_sites import PatchSites, in_text, is_attention

KINDS = ("none", "site", "window", "head", "position", "complete", "cut")
# The share of the total effect that each cut has, whatever the model: the donor's word is all that parts the prompts,
# and what stands before it cannot know of it (causal mask). A model has those cuts that it has the sites of.
CUTS = {"embeddings": 1.0, "inputs": 1.0, "complete": 1.0, "before": 0.0, "self": 0.0}
KEYS_AND_VALUES = "key+value"
_BEFORE = "start+before"


@dataclass(frozen=True)
class TraceWords:
    """Indicators of a run that a trace is about: the reference, two donors, and controls of the reference."""

    reference: str
    donors: tuple[str, ...]
    controls: tuple[str, ...] = ()

    @property
    def all(self) -> tuple[str, ...]:
        """Each once, the reference first."""
        return (self.reference, *self.donors, *self.controls)


@dataclass(frozen=True)
class Variant:
    """One image: which recipient is given whose activations, where and when."""

    name: str  # unique in the trace of a run
    kind: str  # one of `KINDS`; of "none" nothing is exchanged
    recipient: str  # indicator whose prompt the image is drawn from
    donor: str | None = None  # indicator whose activations it is given
    floor: bool = False  # whether the donor is a control, a word of the recipient's own meaning
    sites: tuple[str, ...] = ()
    # of attentions, parts of `hooks.Patch` joined by `+`; "output"; "text" of the text encoder's sites
    part: str = "output"
    source: str = "own"
    # groups of token positions (`hooks.position_groups`) joined by `+`, or "rest", all but the word; None: all
    positions: str | None = None
    heads: tuple[int, ...] | None = None  # None: all
    first_step: int = 0  # calls of the denoiser, from 0, half open
    stop_step: int = 0

    @property
    def drawn(self) -> tuple[Any, ...]:
        """What alters the image: variants that have it in common are one image."""
        about = (self.recipient, self.donor, self.sites, self.part, self.source, self.positions, self.heads)
        return (*about, self.first_step, self.stop_step)

    @property
    def in_text(self) -> bool:
        """Whether it is written before the denoiser runs."""
        return self.part == "text"

    @property
    def begins(self) -> int:
        """The first call of the denoiser at which its image can differ from the recipient's."""
        return 0 if self.in_text else self.first_step

    def row(self) -> dict[str, Any]:
        """The columns of ``traced/`` that say what was exchanged."""
        row = asdict(self)
        return {"variant": row.pop("name"), **row}


@dataclass(frozen=True)
class TracePlan:
    """The images of one triplet and seed."""

    variants: tuple[Variant, ...]
    indicators: tuple[str, ...]  # that take part
    places: PatchSites  # of the model

    @property
    def patched(self) -> tuple[Variant, ...]:
        """The images in which something is exchanged."""
        return tuple(one for one in self.variants if one.kind != "none")


def plan(words: TraceWords, places: PatchSites, trace: Trace) -> TracePlan:
    """Return the images that a trace draws of one triplet and seed.

    First the unpatched images, then sufficiency (the reference with activations of a donor) donor by donor, the floor
    (controls, where `trace.floor` says so), necessity (a donor with activations of the reference), cuts.
    """
    _check_steps(places, trace)
    reference, controls = words.reference, words.controls if trace.floor else ()
    patched: list[Variant] = []
    for donor in words.donors:
        patched += _sweep(places, trace, reference, donor)
    for control in controls:
        patched += [replace(one, floor=True) for one in _sweep(places, trace, reference, control)]
    for donor in words.donors if trace.necessity else ():
        patched += _sweep(places, trace, donor, reference)
    for donor in words.donors if trace.cuts else ():
        patched += _cuts(places, reference, donor)
    drawn = (reference, *words.donors, *controls)
    unpatched = [Variant(f"none:{name}", "none", name) for name in drawn]
    return TracePlan((*unpatched, *_unique(patched)), drawn, places)


def images(variants: Iterable[Variant]) -> int:
    """Return how many images show these variants: what is the same is drawn once."""
    return len({one.drawn for one in variants})


def _unique(variants: Iterable[Variant]) -> Iterator[Variant]:
    """Each name once: a cut with the recipient as its own donor is the same for both donors."""
    yield from {one.name: one for one in variants}.values()


def _check_steps(places: PatchSites, trace: Trace) -> None:
    windows = trace.windows if isinstance(trace.windows, list) else []
    last = max((stop - 1 for _, stop in windows), default=0)
    if last >= places.calls:
        raise UserError(
            f"trace.windows: expected steps below {places.calls}, the calls of the {places.denoiser}, got {last}:"
            " lower it"
        )


def _sweep(places: PatchSites, trace: Trace, recipient: str, donor: str) -> Iterator[Variant]:
    """Yield what is drawn of every pair of recipient and donor."""
    pair = f"{donor}>{recipient}"
    base = Variant("", "", recipient, donor, stop_step=places.calls)
    whole = replace(base, sites=places.ways, part=KEYS_AND_VALUES)
    at = [replace(base, sites=(site,), **_part(site, places, trace)) for site in places.sites]
    for one in at:
        yield replace(one, name=f"site:{one.sites[0]}:{pair}", kind="site")
    yield replace(whole, name=f"complete:{pair}", kind="complete")
    for first, stop in _windows(places, trace):
        for one in at:
            if not one.in_text:
                name = f"window:{one.sites[0]}:{first}-{stop}:{pair}"
                yield replace(one, name=name, kind="window", first_step=first, stop_step=stop)
    for site, number in places.heads.items():
        part = _part(site, places, trace)
        of_heads = part | {"part": "heads" if part["part"] == "output" else part["part"]}
        for head in range(number):
            name = f"head:{site}:{head}:{pair}"
            yield replace(base, name=name, kind="head", sites=(site,), heads=(head,), **of_heads)
    for group in trace.positions:
        read = replace(whole, sites=places.cross, positions=group)
        yield replace(read, name=f"position:cross:{group}:{pair}", kind="position")
        for one in at:
            if one.in_text or one.sites[0] in places.by_token:
                name = f"position:{one.sites[0]}:{group}:{pair}"
                yield replace(one, name=name, kind="position", positions=group)


def _part(site: str, places: PatchSites, trace: Trace) -> dict[str, Any]:
    """Part and source at a site: those of the configuration at an attention."""
    if in_text(site):
        return {"part": "text"}
    if not is_attention(site):
        return {"part": "output", "source": "own" if site in places.inputs else trace.source}
    # keys and values of cross-attention depend on the text alone
    both = site.endswith(".cross") and set(trace.part.split("+")) <= {"key", "value"}
    return {"part": trace.part, "source": "own" if both else trace.source}


def _windows(places: PatchSites, trace: Trace) -> list[tuple[int, int]]:
    """The windows that are listed, or as equal ones as whole steps allow, at most one a step."""
    if isinstance(trace.windows, list):
        return [(first, stop) for first, stop in trace.windows]
    number = min(trace.windows, places.calls)
    return (
        list(pairwise(round(places.calls * place / number) for place in range(number + 1))) if number else []
    )


def _cuts(places: PatchSites, recipient: str, donor: str) -> Iterator[Variant]:
    """Exchanges whose share is known, see `CUTS`."""
    pair = f"{donor}>{recipient}"
    base = Variant("", "cut", recipient, donor, stop_step=places.calls)
    for name, sites, positions in (
        ("embeddings", places.embeddings, "word"),
        ("inputs", places.inputs, None),
        ("complete", places.ways, None),
        ("before", places.layers, _BEFORE),
    ):
        part = KEYS_AND_VALUES if name == "complete" else "output" if name == "inputs" else "text"
        if sites:
            yield replace(base, name=f"cut:{name}:{pair}", sites=sites, part=part, positions=positions)
    yield replace(
        base,
        name=f"cut:self:{recipient}>{recipient}",
        donor=recipient,
        sites=places.ways,
        part=KEYS_AND_VALUES,
    )
