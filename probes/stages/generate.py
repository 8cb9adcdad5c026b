"""The second stage: draw the images and keep what the probe saw, part by part.

A *draw* is a triplet with one seed: its members share every random number, because each image has a
generator of its own and all images of a draw have one seed. A batch holds whole draws, a part holds whole
batches, and how a part is cut into batches is fixed when the run begins. So a part's content depends on
nothing but its identity, and a run that was interrupted goes on at the first part that is missing and ends
with the same bytes, whichever process draws which batch (:mod:`probes.execution.loop`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import groupby
from time import monotonic
from typing import Any

from probes.config.schema import Config
from probes.execution import batches, loop, shards
from probes.execution.cluster.driver import ClusterWorkers, tasks_of
from probes.execution.cluster.job import Job
from probes.execution.command import StageCall
from probes.execution.part import Part
from probes.execution.settings import ResolvedSettings, keep_begun_settings
from probes.models import loading
from probes.prompts.plan import Sample
from probes.runs import directory, identity, kinds
from probes.runs import parts as part_files
from probes.runs.selection import KINDS
from probes.runs.store import Run
from probes.stages.drawing import Drawing, image_bytes, load
from probes.stages.estimate import processes

_REMOTE = "probes.stages.remote"  # the module that workers of a cluster call
_PLAIN = StageCall()


def generate(
    run: Run,
    config: Config,
    samples: Sequence[Sample],
    source: loading.Source,
    command: StageCall = _PLAIN,
) -> None:
    """Draw every image of the plan that the run does not hold yet."""
    with generation(run, config, samples, source, command) as generate_parts:
        generate_parts(None)


@contextmanager
def generation(
    run: Run,
    config: Config,
    samples: Sequence[Sample],
    source: loading.Source,
    command: StageCall = _PLAIN,
) -> Iterator[Callable[[int | None], None]]:
    """Load the model and record the run; gives the function that generates the first n parts, or all (None)."""
    began = monotonic()
    config = config if command.overwrite else keep_begun_settings(config, run)
    cluster = command.cluster
    loaded = None if cluster else load(source, config, config.generate.device)
    found = (
        ResolvedSettings.of(loaded, config)
        if loaded
        else _resolved(cluster, run, config, source, len(samples))
    )
    if loaded and config.generate.batch_triplets == "auto":
        measured = image_bytes(loaded, found.apply_to(config), samples)
        batch = batches.auto_batch(loaded, len(config.indicators), config, measured)
        found = replace(found, image_bytes=measured, batch_triplets=batch)
    command.cleared(run)
    with shards.startup_lock(run):
        config = found.apply_to(config)
        directory.require_same(run, config.resolved())
        fields = _fields(config, found, source)
        _require_same_parts(run, fields, source)
        sizes = batches.used_sizes(run, int(config.generate.batch_triplets))
        damaged: list[part_files.DamagedPartError] = []
        parts, todo = _plan(run, config, fields, samples, sizes, damaged)
        count = cluster.pool.expected if cluster else _workers(found, loaded, config, todo)
        command.record(
            run,
            config,
            damaged,
            model=found.model,
            scheduler=found.scheduler,
            part_fields=fields,
            device=found.device_record(count),
            parts=len(parts),
            images=len(samples),
            **{batches.USED: sizes, KINDS: kinds.with_kinds(run, parts[0].paths, len(parts))},
        )
    drawing = Drawing(
        source, config, found.device, found.model["weight_hash"], found.threads, samples[0].sample_id, loaded
    )
    with command.helpers() as team:

        def draw(wanted: Sequence[Part], due: Sequence[Part]) -> None:
            if cluster:
                summary = {
                    "weights": drawing.weights,
                    "threads": found.threads,
                    "fields": fields,
                    "sizes": sizes,
                }
                job = Job.of(run, config, source, device=config.generate.device, **summary)
                images = sum(part.images for part in wanted)
                cluster.make(run, "generate", f"{_REMOTE}:opened", job, tasks_of(due), images)
            else:
                processes = loop.useful_workers(count, due)
                mine = shards.share(run, wanted)
                loop.make(
                    "generate", mine, due, drawing, team, processes=processes, progress=command.progress
                )

        def generate_parts(first: int | None) -> None:
            nonlocal parts, todo, sizes
            most = len(parts) if first is None else first

            def attempt() -> None:
                draw(parts[:most], [part for part in todo if part.identity["part"] < most])

            while not batches.fits_on_device(attempt):
                team.dismiss(at_once=True)  # helpers hold memory of the device too
                sizes = batches.halve(run, config, sizes, todo, config.generate.part_triplets)
                parts, todo = _plan(run, config, fields, samples, sizes, damaged)
            todo = [part for part in todo if part.identity["part"] >= most]

        yield generate_parts
    loop.record_generated(run, began)


def _resolved(
    cluster: ClusterWorkers, run: Run, config: Config, source: loading.Source, images: int
) -> ResolvedSettings:
    """Return what a worker finds out for all: this machine may have neither a GPU nor room for the model."""
    found = cluster.ask(f"{_REMOTE}:resolve_settings", Job.of(run, config, source), images)
    return ResolvedSettings(**{**found, "model": {**found["model"], "path": str(source.path.absolute())}})


def _workers(found: ResolvedSettings, loaded: Any, config: Config, todo: Sequence[Part]) -> int:
    """Return how many processes of this machine draw the parts that are due."""
    left = sum(part.images for part in todo)
    return loop.useful_workers(processes(config, loaded.pipe, found.device, found.threads, left), todo)


def _plan(
    run: Run,
    config: Config,
    fields: dict[str, Any],
    samples: Sequence[Sample],
    sizes: Sequence[int],
    damaged: list[part_files.DamagedPartError],
) -> tuple[list[Part], list[Part]]:
    """All parts of the run, and pending ones; damaged ones are noted, and pending."""
    parts = _parts(run, config, fields, samples, sizes)
    return parts, loop.pending(
        shards.share(run, parts), partial(directory.part_of_another_run, run), damaged.append
    )


def _require_same_parts(run: Run, fields: dict[str, Any], source: loading.Source) -> None:
    """Refuse a run whose parts were made from something else, before any of them is read."""
    before = run.meta.get("part_fields")
    if before is None or before == fields:
        return
    name = identity.differing(before, fields)
    old, new = before.get(name), fields.get(name)
    if name == "model":
        there = run.meta["model"]["id"]
        old, new = f"{there} (weights {str(old)[:12]})", f"{source.name} (weights {new[:12]})"
    raise directory.another_run(run, name, old, new)


def _fields(config: Config, found: ResolvedSettings, source: loading.Source) -> dict[str, Any]:
    """Every field that alters the content of any part; a part adds its own prompts and seeds."""
    return {
        "model": found.model["weight_hash"],
        **source.files,
        **identity.part_fields(config.resolved()),
        "sampler.scheduler": [found.scheduler["class"], found.scheduler["set"]],
    }


def _parts(
    run: Run, config: Config, fields: dict[str, Any], samples: Sequence[Sample], sizes: Sequence[int]
) -> list[Part]:
    """The parts of the run."""
    chunks = chunks_of(samples, config)
    return [part_of(run, config, fields, sizes, index, chunk) for index, chunk in enumerate(chunks)]


def chunks_of(samples: Sequence[Sample], config: Config) -> list[list[list[Sample]]]:
    """The samples of each part: whole draws."""
    draws = [list(group) for _, group in groupby(samples, key=lambda sample: (sample.triplet, sample.seed))]
    return cut(draws, config.generate.part_triplets)


def part_of(
    run: Run,
    config: Config,
    fields: dict[str, Any],
    sizes: Sequence[int],
    index: int,
    chunk: list[list[Sample]],
) -> Part:
    """A part, cut into batches of the size in force, or of that it was drawn with."""
    paths = {kind: run.part_path(kind, index) for kind in kinds.kinds_of_capture(config.capture)}
    size = batches.size_of(paths.values(), sizes)
    return Part(
        paths=paths,
        identity=_identity(batches.fields_of(fields, size), index, chunk),
        images=sum(map(len, chunk)),
        pieces=[
            [sample for draw in batch for sample in draw]
            for _, same in groupby(chunk, key=lambda draw: draw[0].system_prompt)
            for batch in cut(list(same), size)
        ],
    )


def _identity(fields: dict[str, Any], index: int, chunk: list[list[Sample]]) -> dict[str, Any]:
    first = [draw[0] for draw in chunk]
    more = {
        "prompts": list(dict.fromkeys(sample.prompt for draw in chunk for sample in draw)),
        "seeds": [[sample.prompt_id, sample.triplet, sample.seed, sample.noise_seed] for sample in first],
        "tokens": part_files.digest(repr([_read(sample) for draw in chunk for sample in draw])),
    }
    systems = [draw[0].system_prompt for draw in chunk]
    if any(system is not None for system in systems):
        more["system_prompts"] = systems
    return part_files.identity(index, fields | more)


def _read(sample: Sample) -> tuple:
    """The words and tokens that the tokenizers make of a prompt."""
    positions = (sample.word_positions, sample.word_positions_2, sample.shared_positions)
    return (sample.tokens, sample.word_spans, *positions)


def cut(items: Sequence[Any], size: int) -> list[list[Any]]:
    """Pieces of so many items, the last of those that are left."""
    return [list(items[start : start + size]) for start in range(0, len(items), size)]
