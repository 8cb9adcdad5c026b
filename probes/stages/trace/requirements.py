"""What a run's trace exchanges with its model, and what cannot be: said before anything is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from probes.config.measurement import Trace
from probes.config.schema import Config
from probes.errors import UserError
from probes.models.loading import without_weights
from probes.models.source import Source
from probes.prompts.sample import Sample, TextTowers
from probes.stages.trace.site_selection import patch_sites
from probes.stages.trace.triplet_draw import TripletDraw
from probes.stages.trace.variants import TracePlan, TraceWords, plan


def require_drawn_here(config: Config) -> None:
    """Refuse a run of images that another program drew: nothing can be exchanged in them."""
    if config.images is not None:
        raise UserError(
            "trace: expected a model that draws the images, got images of another program (`images`): trace a run"
            " that names a `model`"
        )


def trace_plan(config: Config, source: Source) -> TracePlan:
    """Return the images that the trace of a run draws of each triplet and seed; no weights are loaded."""
    require_drawn_here(config)
    if any(prompt.system_prompt is not None for prompt in config.prompts[: config.limit]):
        raise UserError(
            "trace: expected prompts under the model's own system prompt, got others (prompts.system): trace a run"
            " without them"
        )
    trace = _trace(config)
    words = _words(config)
    pipe = without_weights(source, config.sampler.scheduler, config.sampler.steps)
    if source.layout.pooled and not source.architecture.transformer:
        raise UserError(
            f"trace: expected a model with one text encoder, got {source.name} ({type(pipe).__name__}), whose pooled"
            " text enters beside the cross-attentions: use hooks.Intervention, or a Stable Diffusion 1 or 2, or a"
            " diffusion transformer"
        )
    return plan(words, patch_sites(pipe, trace, config.sampler.steps), trace)


def check(config: Config, source: Source, samples: Sequence[Sample]) -> None:
    """Refuse what cannot be traced, see `trace_plan` and `require_positions`."""
    plan = trace_plan(config, source)
    require_positions(triplets(config, samples, source), plan)


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


def triplets(config: Config, samples: Sequence[Sample], source: Source) -> list[TripletDraw]:
    """Return the triplets and seeds that are traced: of the first prompts of a run, each with its first seeds."""
    trace, tokenizers = _trace(config), source.tokenizers
    transformer = source.architecture.transformer
    towers = TextTowers.of(without_weights(source), tokenizers) if transformer else None
    length, seeds = tokenizers[0].model_max_length, set(config.seeds[: trace.seeds])
    chosen = [one for one in samples if one.triplet < trace.prompts and one.seed in seeds]
    together = groupby(chosen, key=lambda one: (one.triplet, one.seed))
    return [TripletDraw.of_samples(list(members), length, towers) for _, members in together]


def require_positions(draws: Sequence[TripletDraw], plan: TracePlan) -> None:
    """Refuse groups of positions where prompts of a triplet have another number of tokens in them.

    So are prompts of a triplet that have another number of tokens, of a model that masks or pads a text by its length.
    """
    asked = [one for one in plan.variants if one.kind == "position"]
    for triplet in draws:
        counts = {name: len(triplet.tokens[name]) for name in plan.indicators}
        if plan.places.masked and len(set(counts.values())) > 1:
            raise UserError(
                f"trace: expected prompts of as many tokens, since the {plan.places.denoiser} masks or pads a text by"
                f" its length, but in prompts[{triplet.triplet}] they have {' and '.join(map(str, counts.values()))}:"
                " choose other words or prompts"
            )
        for one in asked:
            if why := triplet.why_not(one):
                raise UserError(
                    f"trace.positions: expected words of as many tokens, but in prompts[{triplet.triplet}] {why}:"
                    " choose other words or prompts, or take the group out"
                )
