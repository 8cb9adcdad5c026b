"""The plan of what a command generates, or its refusal, before anything is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from probes.config.schema import Config
from probes.runs import directory
from probes.stages import captions
from triptych import plan_text
from triptych.request import Request

if TYPE_CHECKING:
    from probes.models.source import Source
    from probes.prompts.sample import Sample
    from probes.stages.external_images.stage import Taken


@dataclass(frozen=True)
class RunPlan:
    """Images that a command generates, as far as its stages need to know."""

    config: Config  # with the prompts that the model can read
    source: Source | None = None  # the model, where a stage asks for one
    samples: Sequence[Sample] = ()  # empty where their number is enough
    images: int = 0  # their number, where it is enough
    captions: dict[str, Any] | None = None  # what run.json keeps of captions that the prompts come from
    taken: Taken | None = None  # images of another program that are taken in instead

    def described(self, *, samples: bool = False) -> list[str]:
        """Return lines on what is to be generated; with `samples`, on every image."""
        if self.taken:
            return [str(self.taken), *plan_text.comparison(self.config)]
        assert self.source is not None
        from analysis.report.prompt_tokens import PromptTokens
        from probes.stages.estimate import estimate

        read = PromptTokens.from_texts(self.samples)
        generated, more = estimate(self.config, self.samples, self.source), []
        if self.config.trace is not None:
            from probes.stages.trace.estimate import estimated

            more.append(estimated(self.config, self.source))
        table = [plan_text.table(self.samples)] if samples else []
        return [
            *table,
            *plan_text.describe(self.config, read),
            *plan_text.stopping_lines(self.config),
            f"{generated}{', where all of them are generated' if self.config.stop else ''}",
            *more,
            *plan_text.cluster_lines(self.config),
        ]


def make_plan(request: Request) -> RunPlan:
    """Return the plan of what a command generates, or refuse it."""
    if request.includes("trace"):
        from probes.stages.trace.requirements import require_drawn_here

        require_drawn_here(request.config)
    if request.config.images is not None and (request.dry or request.drawing):
        result = _taken_in(request)
    elif request.dry or request.drawing or request.includes("trace"):
        result = _drawn(request)
    else:
        result = RunPlan(captions.as_planned(request.config) if request.captions else request.config)
    if request.captions and not request.command.overwrite:
        captions.require_unchanged(result.config, request.captions.file)
    return result


def _taken_in(request: Request) -> RunPlan:
    """Images of another program."""
    from probes.stages.external_images import stage

    taken = stage.plan(request.config, request.yaml_source.name)
    if not request.dry:
        for line in taken.lines:
            request.say(line)
    return RunPlan(request.config, images=taken.images, taken=taken)


def _drawn(request: Request) -> RunPlan:
    """Images that the model of the configuration is to generate."""
    from analysis.report.prompt_tokens import PromptTokens
    from probes.models import requirements
    from probes.stages import plan

    source = _source(request)
    tokenizers, limit = source.tokenizers, source.token_limit
    config, record = request.config, None
    if request.captions:
        config, record = captions.without_long_ones(
            config, request.captions, tokenizers, limit, request.yaml_source.name, request.say
        )
    result = RunPlan(config, source, captions=record)
    samples = plan.plan(config, tokenizers, limit, request.yaml_source.name)
    if request.dry or request.includes("generate", "trace"):
        result = replace(result, samples=samples)
    else:
        result = replace(result, images=len(samples))
    requirements.check(config, source)
    if config.capture.keep and (request.dry or request.includes("generate")):
        from probes.stages.estimate import require_room_for_kept

        require_room_for_kept(config, source, len(result.samples) or result.images)
    if request.includes("trace"):
        from probes.stages.trace import requirements as tracing

        tracing.check(config, source, result.samples)
        _check_outcomes(request, config)
    if request.drawing and not request.dry:
        for warning in plan_text.warnings(config, PromptTokens.from_texts(result.samples)):
            request.say(warning)
    return result


def _check_outcomes(request: Request, config: Config) -> None:
    """Refuse an outcome that a trace's images cannot have, before they are drawn; a plan fetches no classifier."""
    from analysis.methods.tracing.logits import CLASSIFIER, logit_settings, require_networks
    from analysis.methods.tracing.outcomes import chosen_outcomes

    names = chosen_outcomes(config.measure.outcomes, config.model)
    if CLASSIFIER in names and not (request.dry and config.measure.logits.classifier):
        require_networks([CLASSIFIER], logit_settings(config))


def _source(request: Request) -> Source:
    """The model of the configuration: the one that a run which is there began with, and one that takes its options."""
    from probes.models import hub, loading, requirements

    config, overwrite = request.config, request.command.overwrite
    revision = config.revision or (None if overwrite else directory.pinned(config))
    source = loading.resolve(config.model, weights=False, revision=revision, variant=config.variant)
    requirements.check_before_weights(config, source)
    if request.includes("trace"):
        from probes.stages.trace.requirements import trace_plan

        trace_plan(config, source)
    if source.kind == "hub" and request.includes("generate", "trace") and not request.dry:
        hub.fetch_weights(source, revision)
    if not overwrite and not request.dry:
        published = config.model if source.kind in ("bundled", "hub") else ""
        directory.require_model(config.out_path, source.files, published)
    place = request.place("sampler.negative_prompt")
    requirements.check_negative_prompt(config, source, place)
    return source
