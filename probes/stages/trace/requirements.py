"""What a run's trace exchanges with its model, and what cannot be: said before anything is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from hooks import sites
from hooks.architectures.registry import architecture_of
from hooks.errors import HookError
from probes.config.schema import Config
from probes.config.trace_options import Trace
from probes.errors import UserError
from probes.models import description, loading
from probes.prompts.plan import Sample
from probes.stages.trace import lazy_rows
from probes.stages.trace.triplet_draw import TripletDraw
from probes.stages.trace.variants import PatchSites, TracePlan, TraceWords, Variant, is_attention, plan

_WRITTEN = ("query", "key", "value", "heads")


def require_drawn_here(config: Config) -> None:
    """Refuse a run of images that another program drew: nothing can be exchanged in them.

    Raises
    ------
    UserError
    """
    if config.images is not None:
        raise UserError(
            "trace: expected a model that draws the images, got images of another program (`images`): trace a run"
            " that names a `model`"
        )


def trace_plan(config: Config, source: loading.Source) -> TracePlan:
    """Return the images that the trace of a run draws of each triplet and seed; no weights are loaded.

    Parameters
    ----------
    config
        With a section `trace`.
    source
        The model.

    Raises
    ------
    UserError
        There are no donors, the model is none that can be traced, a site, part or head is not there or cannot be
        written, or a step is beyond the last.
    """
    require_drawn_here(config)
    trace = _trace(config)
    words = _words(config)
    pipe = loading.without_weights(source, config.sampler.scheduler, config.sampler.steps)
    architecture, layout = description.read_kind(source)
    if architecture.transformer:
        raise UserError(
            f"trace: expected a Stable Diffusion 1 or 2, got {source.name} ({layout.pipeline}), a diffusion"
            " transformer: use hooks.Intervention, which writes there, too"
        )
    if layout.pooled:
        raise UserError(
            f"trace: expected a model with one text encoder, got {source.name} ({type(pipe).__name__}), whose pooled"
            " text enters beside the cross-attentions: use hooks.Intervention, or a Stable Diffusion 1 or 2"
        )
    return plan(words, _places(pipe, trace, config.sampler.steps), trace)


def check(
    config: Config, source: loading.Source, samples: Sequence[Sample], tokenizers: Sequence[Any]
) -> None:
    """Refuse what cannot be traced, see `trace_plan` and `require_positions`."""
    plan = trace_plan(config, source)
    require_positions(triplets(config, samples, tokenizers[0].model_max_length), plan.variants)


def _trace(config: Config) -> Trace:
    assert config.trace is not None
    return config.trace


def _words(config: Config) -> TraceWords:
    contrasts = config.contrasts or []
    if not contrasts:
        raise UserError(
            f"trace: expected a contrast, whose two words are donors, got the indicators {list(config.indicators)}"
            " without one: add two words beside the reference that are no controls"
        )
    controls = [
        name for name, entry in config.indicators.items() if entry.control in (True, config.reference)
    ]
    return TraceWords(config.reference, tuple(contrasts[0]), tuple(controls))


def _places(pipe: Any, trace: Trace, steps: int) -> PatchSites:
    architecture = architecture_of(pipe)
    available = {site.address: site for site in sites.available(pipe)}
    cross = tuple(site.address for site in sites.attention_sites(pipe, "cross"))
    chosen = _resolved(pipe, "sites", trace.sites)
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
    calls = architecture.calls(pipe, steps)
    layers = tuple(site.address for site in sites.resolve(pipe, "text.layers.*"))
    return PatchSites(cross, chosen, heads, layers, calls, lazy_rows.possible(pipe.scheduler))


def _resolved(pipe: Any, field: str, patterns: Sequence[str]) -> tuple[str, ...]:
    try:
        return tuple(site.address for site in sites.resolve(pipe, patterns))
    except HookError as error:
        raise UserError(f"trace.{field}: {str(error).removeprefix('sites: ')}") from None


def _require_writable(site: sites.Site, denoiser: str) -> None:
    address, why = site.address, site.read_only
    if address.rpartition(".")[2] in _WRITTEN and not address.startswith("text."):
        why = "it is a part of an attention: name the attention, and what is exchanged in `part`"
    elif why is None and site.space != "prompt" and not site.per_step:
        why = f"it lies behind the {denoiser}"
    if why is not None:
        raise UserError(
            f"trace.sites: expected sites of the text encoder or the {denoiser} that can be written, got {address}:"
            f" {why}"
        )


def triplets(config: Config, samples: Sequence[Sample], length: int) -> list[TripletDraw]:
    """Return the triplets and seeds that are traced: of the first prompts of a run, each with its first seeds.

    Parameters
    ----------
    samples
        Of the run, in the order of its plan.
    length
        Positions that the text encoder is given.
    """
    trace = _trace(config)
    seeds = set(config.seeds[: trace.seeds])
    chosen = [one for one in samples if one.triplet < trace.prompts and one.seed in seeds]
    together = groupby(chosen, key=lambda one: (one.triplet, one.seed))
    return [TripletDraw.of_samples(list(members), length) for _, members in together]


def require_positions(draws: Sequence[TripletDraw], variants: Sequence[Variant]) -> None:
    """Refuse groups of positions where prompts of a triplet have another number of tokens in them.

    Raises
    ------
    UserError
    """
    asked = [one for one in variants if one.kind == "position"]
    for triplet in draws:
        for one in asked:
            if why := triplet.why_not(one):
                raise UserError(
                    f"trace.positions: expected words of as many tokens, but in prompts[{triplet.triplet}] {why}:"
                    " choose other words or prompts, or take the group out"
                )
