"""Checks of what a trace can patch in a run's model, before anything is generated; no weights are loaded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hooks import sites
from hooks.architectures.registry import architecture_of
from hooks.architectures.text_encoders import text_cores
from hooks.errors import HookError
from probes.config.measurement import Trace
from probes.config.schema import Config
from probes.errors import UserError
from probes.execution.workers import images_per_batch
from probes.models.loading import meta_pipeline
from probes.models.source import Source
from probes.models.weights import pick_device
from probes.prompts.sample import Sample, TextTowers
from probes.stages.batch_generation import batched
from probes.stages.estimate import resources_line
from probes.stages.trace.seeded_triplet import SeededTriplet
from probes.stages.trace.variants import (
    POOLED,
    PatchSites,
    Variant,
    distinct_images,
    image_count,
    in_text,
    is_attention,
    plan,
)

# Times the images that a batch of the generate stage holds: all variants of a triplet, or nearly.
_CPU_BATCH = 3.0
_SMALL = 8  # images that a batch holds at least
_ENTRANCE = "dit.in.text"


def require_no_external_images(config: Config) -> None:
    """Raise UserError for a run of images that another program generated: there is no model to patch."""
    if config.images is not None:
        raise UserError(
            "trace: expected a model that draws the images, got images of another program (`images`): trace a run"
            " that names a `model`"
        )


def trace_plan(config: Config, source: Source) -> tuple[PatchSites, list[Variant]]:
    """Return the sites that a run's trace patches and its variants; UserError if the run cannot be traced."""
    if any(prompt.system_prompt is not None for prompt in config.prompts[: config.limit]):
        raise UserError(
            "trace: expected prompts under the model's own system prompt, got others (prompts.system): trace a run"
            " without them"
        )
    if config.generate.from_images is not None:
        raise UserError(
            "trace: expected images that start from noise alone, got pictures (generate.from_images): trace a run"
            " without them"
        )
    assert config.trace is not None
    if not config.contrasts:
        raise UserError(
            f"trace: expected a contrast, whose two words are donors, got the indicators {list(config.indicators)}"
            " without one: add two words beside the reference that are no controls"
        )
    pipe = meta_pipeline(source, config.sampler.scheduler, config.sampler.steps)
    if source.layout.pooled and not source.architecture.transformer:
        raise UserError(
            f"trace: expected a model with one text encoder, got {source.name} ({type(pipe).__name__}), whose pooled"
            " text enters beside the cross-attentions: use hooks.Intervention, or a Stable Diffusion 1 or 2, or a"
            " diffusion transformer"
        )
    targets = patch_sites(pipe, config.trace, config.sampler.steps)
    controls = [
        name for name, entry in config.indicators.items() if entry.control in (True, config.reference)
    ]
    return targets, plan(targets, config.trace, config.reference, config.contrasts[0], controls)


def traced_triplets(config: Config, samples: Sequence[Sample], source: Source) -> list[SeededTriplet]:
    """Return the triplets to trace: those of the first ``trace.prompts`` prompts and ``trace.seeds`` seeds of a run."""
    assert config.trace is not None
    towers, seeds = TextTowers.from_pipeline(meta_pipeline(source)), set(config.seeds[: config.trace.seeds])
    chosen = [one for one in samples if one.triplet < config.trace.prompts and one.seed in seeds]
    triplets = batched(chosen, len(config.indicators))
    return [SeededTriplet.from_samples(samples, towers) for samples in triplets]


def require_positions(
    triplets: Sequence[SeededTriplet], targets: PatchSites, variants: Sequence[Variant]
) -> None:
    """Raise UserError if prompts of a triplet have unequal numbers of tokens in a group that a variant patches.

    If the model masks or pads a text by its length, the prompts must have equal numbers of tokens as a whole.
    """
    for triplet in triplets:
        counts = [len(triplet.tokens[one.recipient]) for one in variants if one.kind == "none"]
        if targets.masked and len(set(counts)) > 1:
            raise UserError(
                f"trace: expected prompts of as many tokens, since the {targets.denoiser} masks or pads a text by"
                f" its length, but in prompts[{triplet.number}] they have {' and '.join(map(str, counts))}:"
                " choose other words or prompts"
            )
        for one in variants:
            if one.kind == "position" and (why := triplet.mismatch_reason(one)):
                raise UserError(
                    f"trace.positions: expected words of as many tokens, but in prompts[{triplet.number}] {why}:"
                    " choose other words or prompts, or take the group out"
                )


def traced_images_per_batch(pipe: Any, device: str, config: Config, image_bytes: float | None = None) -> int:
    """Return the number of images in a batch of the trace that the device has memory for (``trace.batch: auto``)."""
    number = images_per_batch(pipe, device, config, image_bytes)
    return max(_SMALL, int(number if device.startswith("cuda") else _CPU_BATCH * number))


def estimate_trace(config: Config, source: Source) -> str:
    """Return a line with the triplets, variants, images, disk space and workers of a run's trace."""
    (_, variants), pipe = trace_plan(config, source), meta_pipeline(source)
    assert config.trace is not None
    prompts = min(config.trace.prompts, len(config.prompts[: config.limit]))
    triplets = prompts * min(config.trace.seeds, len(config.seeds))
    size = config.trace.batch
    if size == "auto":
        size = traced_images_per_batch(pipe, pick_device(config.generate.device).type, config)
    batch = min(size, triplets * len(distinct_images(variants)))
    takes = resources_line(config, pipe, triplets * image_count(variants), triplets * len(variants), batch)
    number = sum(one.kind != "none" for one in variants)
    return f"trace: {triplets} triplets and seeds x {number} variants: {takes}"


# Sites


def patch_sites(pipe: Any, trace: Trace, steps: int) -> PatchSites:
    """Return the sites, heads and layers of a pipeline that a trace patches; UserError if `trace` names others."""
    architecture = architecture_of(pipe)
    available = {site.address: site for site in sites.available(pipe)}
    cross = tuple(site.address for site in sites.attention_sites(pipe, "cross"))
    inputs = tuple(one for one in (POOLED, _ENTRANCE) if one in available and architecture.transformer)
    known = not any(layout.template for layout in architecture.layouts)  # which token of a template a word is
    towers = tuple(f"{name}.embeddings" for name in text_cores(pipe))
    if trace.positions and not known:
        raise UserError(
            f"trace.positions: expected a model that gives its text encoder a prompt as it stands, got one that alters"
            f" it or puts more around it ({type(pipe).__name__}): take the groups out"
        )
    if trace.sites != "default":
        chosen = _resolve_addresses(pipe, "sites", trace.sites)
    elif architecture.transformer:
        pooled = [one for one in inputs if one == POOLED]
        chosen = [*pooled, *(towers if len(towers) > 1 else ()), *cross]
    else:
        chosen = _resolve_addresses(pipe, "sites", ["unet.*.cross"])
    for address in chosen:
        _require_writable(available[address], architecture.denoiser_name)
    heads = {}
    for address in _resolve_addresses(pipe, "heads", trace.heads) if trace.heads else ():
        site = available.get(f"{address}.heads")
        if site is None or not is_attention(address):
            raise UserError(
                f"trace.heads: expected attentions such as {cross[0]}, got {address}: take it out"
            )
        heads[address] = int(site.heads or 0)
    return PatchSites(
        cross,
        tuple(sorted(chosen, key=lambda address: address != POOLED)),
        heads,
        _causal_layers(pipe) if known else (),
        architecture.denoiser_calls(pipe, steps),
        inputs,
        towers if known else (),
        frozenset(one for one in chosen if not in_text(one) and available[one].is_by_token),
        architecture.denoiser_name,
        architecture.masked,
    )


def _causal_layers(pipe: Any) -> tuple[str, ...]:
    """Return the addresses of each causal text encoder's last layer, or last two for a diffusion transformer."""
    addresses = []
    last = 2 if architecture_of(pipe).transformer else 1  # the last, or the last but one
    for name, core in text_cores(pipe).items():
        number = len(sites.module_at(pipe, core.layers)) if core.causal else 0
        addresses += [f"{name}.layers.{layer}" for layer in range(max(0, number - last), number)]
    return tuple(addresses)


def _resolve_addresses(pipe: Any, field: str, patterns: Sequence[str]) -> list[str]:
    """Return the addresses of the sites that patterns match; UserError, which names `field` of ``trace``, if none."""
    try:
        return [site.address for site in sites.resolve(pipe, patterns)]
    except HookError as error:
        raise UserError(f"trace.{field}: {str(error).removeprefix('sites: ')}") from None


def _require_writable(site: sites.Site, denoiser: str) -> None:
    """Raise UserError if a trace cannot patch a site: read-only, a part of an attention, or after the denoiser."""
    address, why = site.address, site.read_only
    if address.rpartition(".")[2] in ("query", "key", "value", "heads") and not in_text(address):
        why = "it is a part of an attention: name the attention, and what is exchanged in `part`"
    elif why is None and site.space != "prompt" and not site.per_step:
        why = f"it lies behind the {denoiser}"
    if why is not None:
        raise UserError(
            f"trace.sites: expected sites of the text encoder or the {denoiser} that can be written, got {address}:"
            f" {why}"
        )
