"""The plan of what a command generates, or an error, before anything is written; and its text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from probes.config.schema import Config
from probes.errors import printable
from probes.prompts.sample import PromptTokens, token_counts_line, unknown_words_line
from probes.runs import directory
from probes.stages import captions
from triptych.request import Request

if TYPE_CHECKING:
    from probes.models.source import Source
    from probes.prompts.sample import Sample
    from probes.stages.external_images.stage import ExternalImages

PROMPTS, SIDES, WIDTH = 5, 8, 90  # prompts, and sides of words, that are named; characters of a prompt
CONTRASTS = 12  # that are named


@dataclass(frozen=True)
class RunPlan:
    """The images that a command generates: configuration, model and samples, or external images instead."""

    config: Config  # with the prompts that the model can read
    source: Source | None = None  # the model, where a stage asks for one
    samples: Sequence[Sample] = ()
    captions: dict[str, Any] | None = None  # what run.json keeps of captions that the prompts come from
    external_images: ExternalImages | None = None  # images of another program, stored instead

    def summary_lines(self, *, samples: bool = False) -> list[str]:
        """Return lines of text on what will be generated; with `samples` the table of all images comes first."""
        config = self.config
        if self.external_images:
            lines = (str(self.external_images), contrasts_line(config), few_prompts_warning(config))
            return [line for line in lines if line]
        assert self.source is not None
        from probes.models import additions
        from probes.models.weights import unread_weights
        from probes.stages.estimate import estimate

        generated, more = estimate(config, self.samples, self.source), []
        unread = unread_weights(self.source)
        if config.trace is not None:
            from probes.stages.trace.requirements import estimate_trace

            more.append(estimate_trace(config, self.source))
        seeds = f"seed{'s' if len(config.seeds) > 1 else ''} {_join_first(config.seeds, 8)}"
        first = f"model {config.model_name}, {config.sampler.steps} steps, {seeds}"
        lines = [
            first,
            *(f"  {line}" for line in additions.lines(self.source, config)),
            *_word_lines(config),
            *_prompt_lines(config),
            *_picture_lines(config, self.source),
            contrasts_line(config),
            *warnings(config, self.samples),
            *([f"not read: {_join_first(unread, SIDES)}"] if unread else []),
            *_stopping_lines(config),
            f"{generated}{', where all of them are generated' if config.stop else ''}",
            *more,
            *cluster_lines(config),
        ]
        return [*(_sample_table(self.samples) if samples else ()), *map(printable, lines)]


def make_plan(request: Request) -> RunPlan:
    """Return the plan of what a request generates; UserError if its model, prompts or disk do not allow it."""
    config, generates = request.config, request.dry or request.includes("generate")
    if request.includes("trace"):
        from probes.stages.trace.requirements import require_no_external_images

        require_no_external_images(config)
    if generates and config.images is not None:
        from probes.stages.external_images import stage

        images = stage.plan(config, request.yaml_source.name)
        for line in () if request.dry else images.lines:
            request.print_line(line)
        result = RunPlan(config, external_images=images)
    elif generates or request.includes("trace"):
        result = _plan_generation(request)
    else:
        result = RunPlan(captions.without_recorded_captions(config) if request.captions else config)
    if request.captions and not request.overwrite:
        captions.require_unchanged_captions(result.config, request.captions.file)
    return result


def _plan_generation(request: Request) -> RunPlan:
    """Return the plan of a request that generates or traces, after checks of model, prompts and disk."""
    from probes.models import requirements
    from probes.stages import plan

    source, file = _resolve_model(request), request.yaml_source.name
    tokenizers, limit = source.tokenizers, source.token_limit
    config, record = request.config, None
    if request.captions:
        config, record = captions.without_long_captions(
            config, request.captions, tokenizers, limit, file, request.print_line
        )
    samples = plan.plan(config, tokenizers, limit, file)
    requirements.check(config, source)
    if config.generate.from_images is not None:
        from probes.stages.starting_pictures import picture_digests

        picture_digests(config)  # raises for one that cannot be read
    if config.capture.keep and (request.dry or request.includes("generate")):
        from probes.stages.estimate import require_allowed_size

        require_allowed_size(config, source, len(samples))
    if request.includes("trace"):
        from analysis.methods.tracing.logits import CLASSIFIER, require_networks
        from analysis.methods.tracing.outcomes import chosen_outcomes
        from probes.stages.trace import requirements as tracing

        triplets = tracing.traced_triplets(config, samples, source)
        tracing.require_positions(triplets, *tracing.trace_plan(config, source))
        # an outcome that the images cannot have; a plan fetches no classifier
        if CLASSIFIER in chosen_outcomes(config.measure.outcomes, config.model) and not (
            request.dry and config.measure.logits.classifier
        ):
            require_networks([CLASSIFIER], config)
    if request.includes("generate") and not request.dry:
        for warning in warnings(config, samples):
            request.print_line(warning)
    return RunPlan(config, source, samples, record)


def _resolve_model(request: Request) -> Source:
    """Return a request's model, checked, at the revision that its run began with; fetch it from the hub if needed."""
    from probes.models import hub, loading, requirements

    config, overwrite = request.config, request.overwrite
    revision = config.revision or (None if overwrite else directory.pinned_revision(config))
    source = loading.resolve_run(config, weights=False, revision=revision)
    requirements.check_before_weights(config, source)
    if request.includes("trace"):
        from probes.stages.trace.requirements import trace_plan

        trace_plan(config, source)
    if source.kind == "hub" and request.includes("generate", "trace") and not request.dry:
        hub.fetch(source, revision)
    return source


# Text


def warnings(config: Config, samples: Sequence[Sample]) -> list[str]:
    """Return warnings: few prompts, sides of one word, words unknown to the model or of unequal numbers of tokens."""
    read = PromptTokens.from_texts(samples)
    lines = (
        few_prompts_warning(config),
        single_words_warning(config),
        unknown_words_line(read, config.model),
        token_counts_line(read, config.reference),
    )
    return [line for line in lines if line]


def _word_lines(config: Config) -> list[str]:
    """Return lines with each indicator's word and synonyms; none for fixed prompts that are not compared."""
    if not any(prompt.template for prompt in config.prompts) and not config.compares:
        return []
    sides = {name: [entry.word] for name, entry in config.indicators.items() if not entry.control}
    for entry in config.indicators.values():
        if entry.control:
            sides[config.reference if entry.control is True else entry.control].append(entry.word)
    lines = [
        f"  {name}{' (reference)' if name == config.reference else ''}: {_join_first(words, 12)}"
        for name, words in sides.items()
    ]
    more = [f"  and {len(lines) - SIDES} more sides"] if len(lines) > SIDES else []
    return ["words", *lines[:SIDES], *more]


def _prompt_lines(config: Config) -> list[str]:
    """Return lines with the number of prompts, the first five, and how many more there are."""
    prompts = config.prompts[: config.limit]
    texts = [" ".join(prompt.main_text(config.reference).split())[:WIDTH] for prompt in prompts[:PROMPTS]]
    more = [f"  and {len(prompts) - PROMPTS:,} more"] if len(prompts) > PROMPTS else []
    return [f"{len(prompts):,} prompt{'s' * (len(prompts) > 1)}", *(f"  {text}" for text in texts), *more]


def _picture_lines(config: Config, source: Source) -> list[str]:
    """Return a line on the pictures that images start from, and the steps that are taken; none without pictures."""
    if config.generate.from_images is None:
        return []
    from probes.models.loading import meta_pipeline
    from probes.stages.starting_pictures import picture_digests

    steps, strength = config.sampler.steps, config.generate.strength
    pipe = meta_pipeline(source, config.sampler.scheduler, steps)
    calls, count = source.architecture.denoiser_calls(pipe, steps, strength), len(picture_digests(config))
    counted = f"{count} picture{'s' * (count > 1)} of {config.generate.from_images}"
    return [f"starts from {counted}, strength {strength:g}: the denoiser runs {calls} times in {steps} steps"]


def _join_first(values: Sequence[object], most: int) -> str:
    """Return text with the first `most` values, joined by commas, and the number of the others."""
    more = f" and {len(values) - most} more" if len(values) > most else ""
    return f"{', '.join(map(str, values[:most]))}{more}"


def _sample_table(samples: Sequence[Sample]) -> list[str]:
    """Return samples as lines of a text table: a header, then one row per image."""
    width = max(len(sample.sample_id) for sample in samples)
    rows = (
        f"{sample.sample_id:<{width}}  {sample.seed:>6}  {len(sample.tokens):>6}"
        f"  {printable(' '.join(sample.prompt.split()))}"
        for sample in samples
    )
    return [f"{'sample_id':<{width}}  {'seed':>6}  tokens  prompt", *rows]


def single_words_warning(config: Config) -> str:
    """Return the warning that sides of one word have no synonym control; empty if each has two, or none is compared.

    >>> single_words_warning(Config(prompts=["a {person}"]))[:59]
    'one word for neutral, feminine, masculine: no synonym contr'
    """
    controlled = {
        config.reference if one.control is True else one.control for one in config.indicators.values()
    }
    single = [name for name, one in config.indicators.items() if not one.control and name not in controlled]
    if not config.contrasts or not single:
        return ""
    word = config.indicators[single[0]].word
    return (
        f"one word for {_join_first(single, CONTRASTS)}: no synonym control, so a gap of people cannot be told from one"
        f" of words; write {single[0]}: [{word}, SYNONYM, SYNONYM]"
    )


def contrasts_line(config: Config) -> str:
    """Return a line that names contrasts and reference or, with one indicator, what is not measured.

    >>> contrasts_line(Config(prompts=["a {person}"]))
    'contrasts, nearness to neutral (person): masculine (man) - feminine (woman)'
    >>> contrasts_line(Config(prompts=["a nurse"]))[:59]
    'one indicator, so nothing is compared. Left out: similarity'
    """
    if not config.compares:
        from analysis.tables.not_measured import left_out

        return f"one indicator, so nothing is compared. Left out: {'; '.join(left_out(config))}"
    words = {name: f"{name} ({indicator.word})" for name, indicator in config.indicators.items()}
    pairs = [f"{words[first]} - {words[second]}" for first, second in config.contrasts or []]
    if len(pairs) > CONTRASTS:
        pairs = [*pairs[:CONTRASTS], f"and {len(pairs) - CONTRASTS} more"]
    listed = "; ".join(pairs) or "none, so no gap is measured (there is no second word beside the reference)"
    if not pairs and len(config.indicators) > 2:
        listed = "none, so no gap is measured"
    return printable(f"contrasts, nearness to {words[config.reference]}: {listed}")


def _stopping_lines(config: Config) -> list[str]:
    """Return lines on the question whose answer stops the run, and the images it may take; none without one."""
    if config.stop is None:
        return []
    from analysis.methods.stopping.expected import EFFECTS, expected_prompts
    from analysis.methods.stopping.question import INTERVAL, StopQuestion

    question = StopQuestion.of(config)
    each = len(config.seeds) * len(config.indicators)
    lines = [
        f"    {effect:g} standard deviations: some {n:,} prompts, {n * each:,} images"
        for effect in EFFECTS
        if (n := expected_prompts(effect, level=question.level)) <= 2 * question.most
    ]
    off = "`within` is" if question.question == INTERVAL else "the gap is off 0, or off `within`, by"
    return [
        f"stops when this is answered: {question.text(config.reference)}",
        f"  asked from {question.fewest} prompts on, after each part; at most {question.most:,} prompts",
        f"  answered, in standard deviations between prompts, where {off}",
        *lines,
    ]


def cluster_lines(config: Config) -> list[str]:
    """Return a line on the workers of the configured cluster, in a list; empty without a cluster.

    >>> options = {"address": "head:6379", "workers": 8, "gpus_per_worker": 1}
    >>> cluster_lines(Config(prompts=["a {person}"], cluster=options))
    ['cluster: up to 8 workers of Ray (head:6379), each with 1 GPU and 1 CPU']
    """
    if not config.clustered or (options := config.cluster) is None:
        return []
    gpus = options.gpus_per_worker
    count = "as many workers" if options.workers == "auto" else f"up to {options.workers} workers"
    each = "a GPU, where there are any," if gpus == "auto" else f"{gpus:g} GPU{'s' if gpus > 1 else ''}"
    cpus = f"{options.cpus_per_worker} CPU{'s' if options.cpus_per_worker > 1 else ''}"
    room = " as there is room for" if options.workers == "auto" else ""
    return [f"cluster: {count} of Ray ({options.address}){room}, each with {each} and {cpus}"]


def few_prompts_warning(config: Config) -> str:
    """Return the warning that so few prompts cannot give a p of a gap below the level; empty if they can.

    Prompts are exchangeable under the null hypothesis up to the sign of their gap: of 2^n equally likely signs two
    are as extreme as the most extreme, so that the smallest p is 2^-(n - 1).

    >>> few_prompts_warning(Config(prompts=["a {person}", "the {person}"]))
    'with 2 prompts no p of a gap can fall below 0.5: 6 or more are needed for one below 0.05'
    """
    count = len(config.seeds if config.unit == "seed" else config.prompts[: config.limit])
    alpha = config.measure.alpha
    needed = math.floor(1 - math.log2(alpha)) + 1
    if not config.contrasts or needed <= count:
        return ""
    prompts = f"1 prompt and {count} seeds" if config.unit == "seed" else f"{count} prompt{'s' * (count > 1)}"
    more = f"{needed} or more are needed for one below {alpha:.3g}"
    return f"with {prompts} no p of a gap can fall below {2.0 ** -(count - 1):g}: {more}"
