"""The parts of the generate stage as a worker of a cluster finds them again: from the configuration, by number."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from probes.config.schema import Config
from probes.errors import UserError
from probes.execution.cluster.job import Job
from probes.execution.cluster.worker import Making
from probes.execution.part import Part
from probes.execution.settings import ResolvedSettings
from probes.models import loading
from probes.prompts import plan as prompts
from probes.prompts.plan import Sample
from probes.runs import identity
from probes.runs.store import Run
from probes.stages import generate
from probes.stages.drawing import Drawing, load

_kept: list[
    loading.LoadedModel
] = []  # what was loaded to settle the run, for the parts that this worker then draws


def resolve_settings(job: Job) -> dict[str, Any]:
    """Return what :class:`probes.execution.settings.ResolvedSettings` holds, from the model as it is loaded here."""
    config = Config.stored(job.config)
    _kept[:] = [load(job.source(), config, config.generate.device)]
    return dataclasses.asdict(ResolvedSettings.of(_kept[0], config))


@contextmanager
def opened(job: Job) -> Iterator[Making]:
    """Hold the model, ready to draw parts."""
    config, settings = Config.stored(job.config), job.settings
    source = job.source()
    run, samples = plan_again(job, config, source)
    chunks = generate.chunks_of(samples, config)
    drawing = Drawing(
        source,
        config,
        settings["device"],
        settings["weights"],
        settings["threads"],
        samples[0].sample_id,
        _loaded_before(settings["weights"]),
    )

    def part(number: int) -> Part:
        return generate.part_of(run, config, settings["fields"], settings["sizes"], number, chunks[number])

    with drawing.opened() as do:
        del drawing
        yield Making(part, do, settings["device"])


def _loaded_before(weights: str) -> loading.LoadedModel | None:
    loaded = _kept.pop() if _kept else None
    return loaded if loaded is not None and loaded.record["weight_hash"] == weights else None


def plan_again(job: Job, config: Config, source: loading.Source) -> tuple[Run, list[Sample]]:
    """The run, and its plan made again with the tokenizers that are here."""
    theirs = {name: value for name, value in job.settings["fields"].items() if name.startswith("model/")}
    name = identity.differing(theirs, source.files)
    if name is not None:
        raise UserError(
            f"model {source.name}: expected {name.removeprefix('model/')} to be the driver's, found another: put the"
            " same files on all machines"
        )
    return Run.open(job.run), prompts.plan(config, source.tokenizers, source.token_limit, "triplets.yaml")
