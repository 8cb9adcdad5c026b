"""The images that a trace generates of a triplet: each a recipient's, with activations of a donor at some sites."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any

from hooks.architectures.text_encoders import TEXT_ENCODERS
from probes.config.measurement import Trace
from probes.errors import UserError

# The share of the total effect that each cut has, whatever the model: the donor's word is all that parts the prompts,
# and what stands before it cannot know of it (causal mask). A model has those cuts that it has the sites of.
CUTS = {"embeddings": 1.0, "inputs": 1.0, "complete": 1.0, "before": 0.0, "self": 0.0}
KEYS_AND_VALUES = "key+value"
POOLED = "text.pooled"


@dataclass(frozen=True)
class PatchSites:
    """The sites, attention heads and text layers of a model at which a trace patches activations."""

    # the attentions by which the image reads the text (cross- or joint ones), in the order in which they run
    cross: tuple[str, ...]
    sites: tuple[str, ...]  # those that are swept
    heads: Mapping[str, int]  # sites whose heads are swept, and how many they have
    # layers of text encoders that the denoiser may be given, where a position knows nothing of what comes after it
    layers: tuple[str, ...]
    calls: int  # of the denoiser: steps, and what a scheduler adds to them
    # where a diffusion transformer is given its text; empty in a U-Net, whose cross-attentions read it alone
    inputs: tuple[str, ...] = ()
    # those of each text encoder, where the tokens of a word are known
    embeddings: tuple[str, ...] = ("text.embeddings",)
    # sites of the sweep within the denoiser that have a row for each token
    by_token: frozenset[str] = frozenset()
    denoiser: str = "U-Net"  # what it is called
    # whether it masks or pads a text by its length (`hooks.architectures.base.Architecture`)
    masked: bool = False

    @property
    def text_paths(self) -> tuple[str, ...]:
        """Sites by which the text reaches the image: the pooled text, if the model takes it, then the attentions."""
        return (*(one for one in self.inputs if one == POOLED), *self.cross)


def in_text(site: str) -> bool:
    """Return whether the site of an address is in a text encoder, before the pooled text."""
    return site.partition(".")[0] in TEXT_ENCODERS and site != POOLED


def is_attention(site: str) -> bool:
    """Return whether an address, such as ``unet.mid.attn.0.cross``, is that of an attention."""
    return site.rpartition(".")[2] in ("cross", "self", "joint")


@dataclass(frozen=True)
class Variant:
    """One image of a trace: its recipient, the donor of the patched activations, and the patched sites and steps."""

    name: str  # unique in the trace of a run
    kind: str  # none (nothing is exchanged), site, window, head, position, complete or cut
    recipient: str  # indicator whose prompt the image is generated from
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
    def image_key(self) -> tuple[Any, ...]:
        """The values of all fields that determine the image: variants with equal keys show the same image."""
        about = (self.recipient, self.donor, self.sites, self.part, self.source, self.positions, self.heads)
        return (*about, self.first_step, self.stop_step)

    @property
    def in_text(self) -> bool:
        """Whether a text encoder is patched, before the denoiser runs."""
        return self.part == "text"

    def row(self) -> dict[str, Any]:
        """Return the columns of the table ``traced`` that describe the variant, by name."""
        row = asdict(self)
        return {"variant": row.pop("name"), **row}


def plan(
    targets: PatchSites, trace: Trace, reference: str, donors: Sequence[str], controls: Sequence[str] = ()
) -> list[Variant]:
    """Return the variants that a trace generates of each triplet, from a run's reference, donors and controls.

    First the unpatched images, then sufficiency (the reference with activations of a donor) donor by donor, the floor
    (controls, where `trace.floor` says so), necessity (a donor with activations of the reference), cuts.
    """
    controls = controls if trace.floor else ()
    variants = [Variant(f"none:{name}", "none", name) for name in (reference, *donors, *controls)]
    for donor in donors:
        variants += _patched_variants(targets, trace, reference, donor)
    for control in controls:
        patched = _patched_variants(targets, trace, reference, control)
        variants += [replace(one, floor=True) for one in patched]
    for donor in donors if trace.necessity else ():
        variants += _patched_variants(targets, trace, donor, reference)
    for donor in donors if trace.cuts else ():
        variants += _known_share_variants(targets, reference, donor)
    # each name once: a cut with the recipient as its own donor is the same for both donors
    return list({one.name: one for one in variants}.values())


def distinct_images(variants: Iterable[Variant]) -> dict[tuple[Any, ...], Variant]:
    """Return distinct images by `Variant.image_key`: unpatched recipients and donors of the variants, then these."""
    variants = list(variants)
    names = dict.fromkeys(name for one in variants for name in (one.recipient, one.donor) if name is not None)
    return {one.image_key: one for one in (*(Variant("", "none", name) for name in names), *variants)}


def image_count(variants: Iterable[Variant]) -> int:
    """Return the number of distinct images among a triplet's variants, without further recipients and donors."""
    return len({one.image_key for one in variants})


def _patched_variants(targets: PatchSites, trace: Trace, recipient: str, donor: str) -> Iterator[Variant]:
    """Yield the variants of a recipient and donor: by site, all text paths at once, window, head, position."""
    pair = f"{donor}>{recipient}"
    base = Variant("", "", recipient, donor, stop_step=targets.calls)
    all_paths = replace(base, sites=targets.text_paths, part=KEYS_AND_VALUES)
    by_site = [replace(base, sites=(one,), **_part_and_source(one, targets, trace)) for one in targets.sites]
    for one in by_site:
        yield replace(one, name=f"site:{one.sites[0]}:{pair}", kind="site")
    yield replace(all_paths, name=f"complete:{pair}", kind="complete")
    for first, stop in _step_windows(targets, trace):
        for one in by_site:
            if not one.in_text:
                name = f"window:{one.sites[0]}:{first}-{stop}:{pair}"
                yield replace(one, name=name, kind="window", first_step=first, stop_step=stop)
    for site, number in targets.heads.items():
        fields = _part_and_source(site, targets, trace)
        fields["part"] = "heads" if fields["part"] == "output" else fields["part"]
        for head in range(number):
            name = f"head:{site}:{head}:{pair}"
            yield replace(base, name=name, kind="head", sites=(site,), heads=(head,), **fields)
    for group in trace.positions:
        read = replace(all_paths, sites=targets.cross, positions=group)
        yield replace(read, name=f"position:cross:{group}:{pair}", kind="position")
        for one in by_site:
            if one.in_text or one.sites[0] in targets.by_token:
                name = f"position:{one.sites[0]}:{group}:{pair}"
                yield replace(one, name=name, kind="position", positions=group)


def _part_and_source(site: str, targets: PatchSites, trace: Trace) -> dict[str, Any]:
    """Return the fields `part` and `source` of a Variant that patches a site; an absent field keeps its default.

    Part: "text" in text encoders, ``trace.part`` at attentions, else "output". Source: "own" (the default) in text
    encoders, at the denoiser's text inputs, and for keys and values of cross-attention, else ``trace.source``.
    """
    if in_text(site):
        return {"part": "text"}
    if not is_attention(site):
        return {"part": "output", "source": "own" if site in targets.inputs else trace.source}
    # keys and values of cross-attention depend on the text alone
    both = site.endswith(".cross") and set(trace.part.split("+")) <= {"key", "value"}
    return {"part": trace.part, "source": "own" if both else trace.source}


def _step_windows(targets: PatchSites, trace: Trace) -> Iterable[tuple[int, int]]:
    """Return the (first, stop) denoiser calls of each window of steps; UserError if one ends after the last call."""
    if isinstance(trace.windows, int):
        number = min(trace.windows, targets.calls)
        return pairwise(
            [round(targets.calls * window / number) for window in range(number + 1)] if number else ()
        )
    last = max((stop - 1 for _, stop in trace.windows), default=0)
    if last >= targets.calls:
        raise UserError(
            f"trace.windows: expected steps below {targets.calls}, the calls of the {targets.denoiser}, got {last}:"
            " lower it"
        )
    return trace.windows


def _known_share_variants(targets: PatchSites, recipient: str, donor: str) -> Iterator[Variant]:
    """Yield the variants of a recipient and donor whose share of the total effect is known beforehand (`CUTS`)."""
    for name, giver, sites, part, positions in (
        ("embeddings", donor, targets.embeddings, "text", "word"),
        ("inputs", donor, targets.inputs, "output", None),
        ("complete", donor, targets.text_paths, KEYS_AND_VALUES, None),
        ("before", donor, targets.layers, "text", "start+before"),
        ("self", recipient, targets.text_paths, KEYS_AND_VALUES, None),
    ):
        if sites:
            cut = Variant(f"cut:{name}:{giver}>{recipient}", "cut", recipient, giver, stop_step=targets.calls)
            yield replace(cut, sites=sites, part=part, positions=positions)
