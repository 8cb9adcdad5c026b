"""What a run's trace exchanges with its model, and what cannot be: said before anything is drawn; loads no weights."""

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
from probes.execution.workers import auto_images
from probes.models.loading import without_weights
from probes.models.source import Source
from probes.models.weights import pick_device
from probes.prompts.sample import Sample, TextTowers
from probes.stages.drawing import cut
from probes.stages.estimate import in_words
from probes.stages.trace.triplet_draw import TripletDraw
from probes.stages.trace.variants import (
    POOLED,
    PatchSites,
    Variant,
    images,
    in_text,
    is_attention,
    plan,
    rows,
)

# Times the images that a batch of the generate stage holds: all variants of a triplet, or nearly.
_CPU_BATCH = 3.0
_SMALL = 8  # images that a batch holds at least
_ENTRANCE = "dit.in.text"


def require_drawn_here(config: Config) -> None:
    """Refuse a run of images that another program drew: nothing can be exchanged in them."""
    if config.images is not None:
        raise UserError(
            "trace: expected a model that draws the images, got images of another program (`images`): trace a run"
            " that names a `model`"
        )


def trace_plan(config: Config, source: Source) -> tuple[PatchSites, list[Variant]]:
    """Return the sites of a run's trace, and the images that it draws of each triplet and seed."""
    if any(prompt.system_prompt is not None for prompt in config.prompts[: config.limit]):
        raise UserError(
            "trace: expected prompts under the model's own system prompt, got others (prompts.system): trace a run"
            " without them"
        )
    assert config.trace is not None
    if not config.contrasts:
        raise UserError(
            f"trace: expected a contrast, whose two words are donors, got the indicators {list(config.indicators)}"
            " without one: add two words beside the reference that are no controls"
        )
    pipe = without_weights(source, config.sampler.scheduler, config.sampler.steps)
    if source.layout.pooled and not source.architecture.transformer:
        raise UserError(
            f"trace: expected a model with one text encoder, got {source.name} ({type(pipe).__name__}), whose pooled"
            " text enters beside the cross-attentions: use hooks.Intervention, or a Stable Diffusion 1 or 2, or a"
            " diffusion transformer"
        )
    places = patch_sites(pipe, config.trace, config.sampler.steps)
    controls = [
        name for name, entry in config.indicators.items() if entry.control in (True, config.reference)
    ]
    return places, plan(places, config.trace, config.reference, config.contrasts[0], controls)


def check(config: Config, source: Source, samples: Sequence[Sample]) -> None:
    """Refuse what cannot be traced, see `trace_plan` and `require_positions`."""
    require_positions(triplets(config, samples, source), *trace_plan(config, source))


def triplets(config: Config, samples: Sequence[Sample], source: Source) -> list[TripletDraw]:
    """Return the triplets and seeds that are traced: of the first prompts of a run, each with its first seeds."""
    assert config.trace is not None
    towers, seeds = TextTowers.of(without_weights(source)), set(config.seeds[: config.trace.seeds])
    chosen = [one for one in samples if one.triplet < config.trace.prompts and one.seed in seeds]
    return [TripletDraw.of_samples(members, towers) for members in cut(chosen, len(config.indicators))]


def require_positions(draws: Sequence[TripletDraw], places: PatchSites, variants: Sequence[Variant]) -> None:
    """Refuse groups of positions where prompts of a triplet have another number of tokens in them.

    So are prompts of a triplet that have another number of tokens, of a model that masks or pads a text by its length.
    """
    for triplet in draws:
        counts = [len(triplet.tokens[one.recipient]) for one in variants if one.kind == "none"]
        if places.masked and len(set(counts)) > 1:
            raise UserError(
                f"trace: expected prompts of as many tokens, since the {places.denoiser} masks or pads a text by"
                f" its length, but in prompts[{triplet.triplet}] they have {' and '.join(map(str, counts))}:"
                " choose other words or prompts"
            )
        for one in variants:
            if one.kind == "position" and (why := triplet.why_not(one)):
                raise UserError(
                    f"trace.positions: expected words of as many tokens, but in prompts[{triplet.triplet}] {why}:"
                    " choose other words or prompts, or take the group out"
                )


def auto_batch(pipe: Any, device: str, config: Config, image_bytes: float | None = None) -> int:
    """Return the images that a batch holds where the configuration leaves it to the machine."""
    number = auto_images(pipe, device, config, image_bytes)
    return max(_SMALL, int(number if device.startswith("cuda") else _CPU_BATCH * number))


def estimated(config: Config, source: Source) -> str:
    """How much the trace of a run will draw, and what that takes, in words."""
    (_, variants), pipe = trace_plan(config, source), without_weights(source)
    assert config.trace is not None
    prompts = min(config.trace.prompts, len(config.prompts[: config.limit]))
    draws = prompts * min(config.trace.seeds, len(config.seeds))
    size = config.trace.batch
    if size == "auto":
        size = auto_batch(pipe, pick_device(config.generate.device).type, config)
    at_once = min(size, draws * len(rows(variants)))
    takes = in_words(config, pipe, draws * images(variants), draws * len(variants), at_once)
    patched = sum(one.kind != "none" for one in variants)
    return f"trace: {draws} triplets and seeds x {patched} variants: {takes}"


# Sites


def patch_sites(pipe: Any, trace: Trace, steps: int) -> PatchSites:
    """Return what a trace of a pipeline, which needs no weights, exchanges."""
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
        chosen = _resolved(pipe, "sites", trace.sites)
    elif architecture.transformer:
        pooled = [one for one in inputs if one == POOLED]
        chosen = [*pooled, *(towers if len(towers) > 1 else ()), *cross]
    else:
        chosen = _resolved(pipe, "sites", ["unet.*.cross"])
    for address in chosen:
        _require_writable(available[address], architecture.denoiser_name)
    heads = {}
    for address in _resolved(pipe, "heads", trace.heads) if trace.heads else ():
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
    """The layers that a denoiser may be given of each text encoder whose positions read none after them."""
    found = []
    last = 2 if architecture_of(pipe).transformer else 1  # the last, or the last but one
    for name, core in text_cores(pipe).items():
        number = len(sites.module_at(pipe, core.layers)) if core.causal else 0
        found += [f"{name}.layers.{layer}" for layer in range(max(0, number - last), number)]
    return tuple(found)


def _resolved(pipe: Any, field: str, patterns: Sequence[str]) -> list[str]:
    try:
        return [site.address for site in sites.resolve(pipe, patterns)]
    except HookError as error:
        raise UserError(f"trace.{field}: {str(error).removeprefix('sites: ')}") from None


def _require_writable(site: sites.Site, denoiser: str) -> None:
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
