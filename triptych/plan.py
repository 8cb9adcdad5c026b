"""What a command is going to draw: planned, and refused where it cannot be drawn, before anything is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from probes.config.schema import Config
from probes.prompts import of_captions
from probes.runs import directory
from triptych import plan_text
from triptych.request import Request

if TYPE_CHECKING:
    from probes.models.loading import Source
    from probes.prompts.plan import Sample
    from probes.stages.external_images.stage import Taken


@dataclass(frozen=True)
class RunPlan:
    """What a command draws, as far as its stages need to know.

    Attributes
    ----------
    config : Config
        With the prompts that the model can read.
    source : Source or None
        The model; None where no stage asks for one.
    samples : sequence of Sample
        The images to draw; empty where their number is enough, or nothing is drawn.
    images : int
        Their number, where it is enough.
    captions : dict or None
        What ``run.json`` keeps of the captions that the prompts come from.
    taken : Taken or None
        Images of another program that are taken in instead.
    """

    config: Config
    source: Source | None = None
    samples: Sequence[Sample] = ()
    images: int = 0
    captions: dict[str, Any] | None = None
    taken: Taken | None = None

    def described(self) -> list[str]:
        """Lines on what is to be drawn, and what it will take."""
        if self.taken:
            return [str(self.taken), *plan_text.comparison(self.config)]
        assert self.source is not None
        from probes.models import estimate

        estimated = estimate.estimate(self.config, self.samples, self.source)
        lines = [plan_text.describe(self.config, self.samples), str(estimated)]
        if self.config.trace is not None:
            from probes.stages.trace.estimate import described

            lines.append(described(self.config, self.source))
        return [*lines, *plan_text.cluster(self.config)]


def make_plan(asked: Request) -> RunPlan:
    """Plan what a command draws.

    Raises
    ------
    UserError
        Something cannot be drawn, or its captions have changed since the run was planned.
    """
    if asked.includes("trace"):
        from probes.stages.trace.requirements import require_drawn_here

        require_drawn_here(asked.config)
    if asked.config.images is not None and (asked.dry or asked.drawing):
        result = _taken_in(asked)
    elif asked.dry or asked.drawing or asked.includes("trace"):
        result = _drawn(asked)
    else:
        result = RunPlan(of_captions.as_planned(asked.config, asked.loaded))
    if not asked.arguments.overwrite:
        of_captions.require_unchanged(result.config, asked.loaded)
    return result


def _taken_in(asked: Request) -> RunPlan:
    """Images of another program."""
    from probes.stages.external_images import stage

    taken = stage.plan(asked.config, asked.yaml_source.name)
    if not asked.dry:
        asked.say(taken.line)
    return RunPlan(asked.config, images=taken.images, taken=taken)


def _drawn(asked: Request) -> RunPlan:
    """Images that the model of the configuration is to draw."""
    from probes.models import loading, requirements
    from probes.prompts import plan

    source = _source(asked)
    tokenizers, limit = loading.tokenizers(source)
    config, captions = of_captions.fitted(
        asked.config, asked.loaded, tokenizers, limit, asked.yaml_source.name
    )
    if too_long := of_captions.length_summary(captions):
        asked.say(too_long)
    result = RunPlan(config, source, captions=captions)
    if asked.dry or asked.includes("generate", "trace"):
        samples = plan.plan(config, tokenizers, limit, asked.yaml_source.name)
        result = replace(result, samples=samples)
    else:
        images = plan.count(config, tokenizers, limit, asked.yaml_source.name)
        result = replace(result, images=images)
    requirements.check(config, source)
    if asked.includes("trace"):
        from probes.stages.trace import requirements as tracing

        tracing.check(config, source, result.samples, tokenizers)
    if asked.drawing and not asked.dry and (few := plan_text.few_prompts(config)):
        asked.say(few)
    return result


def _source(asked: Request) -> Source:
    """The model of the configuration: the one that a run which is there began with, and one that takes its options."""
    from probes.models import description, loading, requirements

    config, overwrite = asked.config, asked.arguments.overwrite
    source = loading.resolve(
        config.model,
        weights=asked.includes("generate", "trace") and not asked.dry,
        revision=config.revision or (None if overwrite else directory.pinned(config)),
        variant=config.variant,
    )
    if not overwrite and not asked.dry:
        published = config.model if source.kind in ("bundled", "hub") else ""
        directory.require_model(config.out_path, description.files(source), published)
    flag = asked.arguments.negative_prompt is not None
    requirements.check_negative_prompt(
        config, source, "--negative-prompt" if flag else asked.place("sampler.negative_prompt")
    )
    return source
