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
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby, takewhile
from time import monotonic
from typing import Any

from probes.config.schema import Config
from probes.execution import batches, loop
from probes.execution.loop import Part, StageCall
from probes.locks import GATE, locked
from probes.models import loading
from probes.prompts.sample import Sample
from probes.runs import directory, identity
from probes.runs import parts as part_files
from probes.runs.record import KINDS
from probes.runs.run import Run, kinds_of_capture
from probes.stages.drawing import Drawing
from probes.stages.estimate import processes
from probes.stages.settings import ResolvedSettings, keep_begun_settings, resolve_settings

FIELD, USED = "generate.batch_triplets", "batch_triplets"  # of the identity of parts, of run.json
FIELDS = "part_fields"  # of run.json: a run that has them has begun
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
    began, cluster = monotonic(), command.cluster
    config = config if command.overwrite else keep_begun_settings(config, run)
    first = list(takewhile(lambda one: _draw(one) == _draw(samples[0]), samples))
    if cluster:  # this machine may have neither a GPU nor room for the model
        found, loaded = cluster.ask(_settings, source, config, first), None
    else:
        found, loaded = resolve_settings(source, config, first)
    if command.overwrite:
        directory.clear(run)

    plan = _planned(run, config, found, samples, source)
    with locked(run.path / GATE):
        begun = FIELDS in run.meta
        if not command.overwrite:
            run.read_again()
        if FIELDS in run.meta and not begun:  # by another process, meanwhile
            plan = _planned(run, config, found, samples, source)
        config, parts, todo = plan.config, plan.parts, plan.todo
        count = cluster.room() if cluster else _workers(found, config, todo)
        sizes = [int(config.generate.batch_triplets)]
        command.record(
            run,
            config,
            plan.damaged,
            model=found.model,
            scheduler=found.scheduler,
            **{FIELDS: plan.fields},
            device=found.device_record(count),
            parts=len(parts),
            images=len(samples),
            **{USED: sizes, KINDS: run.with_kinds(parts[0].paths, len(parts))},
        )
    drawing = Drawing(
        source,
        config,
        found.device,
        found.model["weight_hash"],
        found.threads,
        samples[0].sample_id,
        source.files,
        loaded,
    )

    def generate_parts(first: int | None) -> None:
        nonlocal todo
        wanted = parts[: len(parts) if first is None else first]
        due, todo = todo[: _until(todo, len(wanted))], todo[_until(todo, len(wanted)) :]
        loop.make(run, "generate", wanted, due, drawing, command, loop.useful_workers(count, due))

    yield generate_parts
    if (used := batches.used_sizes(run, "samples", sizes[0])) != sizes:
        run.write_meta(**{USED: used})
    loop.record_generated(run, began)


@dataclass(frozen=True)
class _Planned:
    """The parts of a run, all and those that are due, and what they are made from."""

    config: Config
    fields: dict[str, Any]
    parts: list[Part]
    damaged: list[part_files.DamagedPartError]
    todo: list[Part]


def _planned(
    run: Run, config: Config, found: ResolvedSettings, samples: Sequence[Sample], source: loading.Source
) -> _Planned:
    """Plan the parts of a run; refused where what is there was made from something else."""
    begun = keep_begun_settings(config, run).generate.batch_triplets if run.meta else "auto"
    batch = found.batch_triplets if begun == "auto" else begun
    config = replace(found, batch_triplets=batch).apply_to(config)
    directory.require_same(run, config.resolved())
    fields = _fields(config, found, source)
    _require_same_parts(run, fields, source)
    chunks = chunks_of(samples, config)
    parts = [part_of(run, config, fields, index, chunk) for index, chunk in enumerate(chunks)]
    todo, damaged = loop.pending(parts, partial(directory.part_of_another_run, run))
    return _Planned(config, fields, parts, damaged, todo)


def _draw(sample: Sample) -> tuple[int, int]:
    return sample.triplet, sample.seed


def _settings(source: loading.Source, config: Config, first: Sequence[Sample]) -> ResolvedSettings:
    return resolve_settings(source, config, first)[0]


def _until(todo: Sequence[Part], parts: int) -> int:
    return sum(part.identity["part"] < parts for part in todo)


def _workers(found: ResolvedSettings, config: Config, todo: Sequence[Part]) -> int:
    """Return how many processes of this machine draw the parts that are due."""
    left = sum(part.images for part in todo)
    return loop.useful_workers(processes(config, found.device, found.threads, left), todo)


def _require_same_parts(run: Run, fields: dict[str, Any], source: loading.Source) -> None:
    """Refuse a run whose parts were made from something else, before any of them is read."""
    before = run.meta.get(FIELDS)
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


def chunks_of(samples: Sequence[Sample], config: Config) -> list[list[list[Sample]]]:
    """The samples of each part: whole draws."""
    draws = [list(group) for _, group in groupby(samples, key=_draw)]
    return cut(draws, config.generate.part_triplets)


def part_of(
    run: Run,
    config: Config,
    fields: dict[str, Any],
    index: int,
    chunk: list[list[Sample]],
) -> Part:
    """A part, cut into batches."""
    size = int(config.generate.batch_triplets)
    return Part(
        paths={kind: run.part_path(kind, index) for kind in kinds_of_capture(config.capture)},
        identity=_identity({**fields, FIELD: size}, index, chunk),
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
