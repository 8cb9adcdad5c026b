"""A run that stops: growing prefixes of its plan are generated until the stored parts answer its question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from analysis.methods.stopping.looks import Looks, prompts_at_looks
from analysis.methods.stopping.question import OPEN, StopQuestion
from probes.config.schema import Config
from probes.execution.loop import StageCall
from probes.models.source import Source
from probes.prompts.sample import Sample
from probes.runs.directory import another_run_error
from probes.runs.record import KINDS, REGISTERED
from probes.runs.run import Run
from probes.stages.generate import generation


def registered(run: Run, config: Config) -> StopQuestion:
    """Return the question of a run that is to be generated, once it is found to be the one that was registered."""
    question = StopQuestion.of(config)
    now, before = question.record(), run.meta.get(REGISTERED)
    if before and (name := next((name for name in now if now[name] != before.get(name)), None)):
        raise another_run_error(run, f"the registered question's {name}", before.get(name), now[name])
    return question


def generate_until_answered(
    run: Run, config: Config, samples: Sequence[Sample], source: Source, command: StageCall
) -> None:
    """Generate growing prefixes of the plan until the stored parts answer its question, and record where that was.

    The decision is a function of the parts alone: who made them and how often that was interrupted alters nothing.
    """
    question = registered(Run(run.path, {}) if command.overwrite else run, config)
    looks = Looks(run, config, question)
    with generation(
        run, config, samples, source, replace(command, question=question.record())
    ) as generate_parts:
        generate_parts(1)
        looks.require_captured()
        for parts in prompts_at_looks(config, question):
            generate_parts(parts)
            if question.answer(looks.at(parts)) != OPEN:
                break
        images = min(parts * config.generate.part_triplets * len(config.indicators), len(samples))
        stopped = {"parts": parts, "images": images}
        counts = {kind: min(count, parts) for kind, count in run.planned().items()}
        run.write_meta(stopped_after=stopped, **stopped, **{KINDS: counts})
