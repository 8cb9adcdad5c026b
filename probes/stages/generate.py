"""The second stage: generate the images and store what the probe recorded, part by part.

The images of a triplet share every random number, because each has a generator of its own and all have one
seed. A batch holds whole triplets, a part holds whole batches, and how a part is cut into batches is fixed
when the run begins. So a part's content depends on nothing but its identity, and a run that was interrupted
goes on at the first part that is missing and ends with the same bytes, whichever process generates which
batch (:mod:`probes.execution.loop`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain, groupby
from time import monotonic
from typing import Any

from probes.config.schema import Config
from probes.execution import loop
from probes.execution.loop import Part, StageCall
from probes.execution.workers import BatchSize, used_batch_sizes
from probes.locks import GATE, locked
from probes.models import loading
from probes.prompts.sample import Sample
from probes.runs import directory
from probes.runs import parts as part_files
from probes.runs.record import KINDS, part_fields
from probes.runs.run import Run
from probes.runs.schemas import kinds_of_capture
from probes.stages.batch_generation import (
    GenerationWork,
    ResolvedSettings,
    batched,
    generate_batch,
    keep_recorded_settings,
    resolve_settings,
)
from probes.stages.starting_pictures import picture_digests

FIELDS, USED = "part_fields", "batch_triplets"  # of run.json: a run that has the first has begun


def generate(
    run: Run, config: Config, samples: Sequence[Sample], source: loading.Source, command: StageCall
) -> None:
    """Load the model, generate the images that the run lacks and store them in parts; `overwrite` clears it first."""
    with generation(run, config, samples, source, command) as generate_parts:
        generate_parts(None)


@contextmanager
def generation(
    run: Run, config: Config, samples: Sequence[Sample], source: loading.Source, command: StageCall
) -> Iterator[Callable[[int | None], None]]:
    """Load the model, record the run, and yield a function that generates the first n parts, or all (None)."""
    began = monotonic()
    config = config if command.overwrite else keep_recorded_settings(config, run)
    triplets = batched(samples, len(config.indicators))
    # of a cluster this machine may have neither a GPU nor room for the model
    settings = command.run_function(resolve_settings, source, config, triplets[0])
    if command.overwrite:
        directory.clear(run)

    planned = _plan_parts(run, config, settings, triplets, source)
    with locked(run.path / GATE):
        begun = FIELDS in run.meta
        if not command.overwrite:
            run.reload_record()
        if FIELDS in run.meta and not begun:  # by another process, meanwhile
            planned = _plan_parts(run, config, settings, triplets, source)
        config, fields, parts, todo, damaged = planned
        size = int(config.generate.batch_triplets)
        smallest = f"the {len(triplets[0])} images of one triplet and seed"
        limit = BatchSize("generate", size, "triplets", 1, smallest, config.generate.dtype)
        digests = dict(fields.get("pictures", ()))
        generate_first = partial(generate_batch, first_id=samples[0].sample_id, digests=digests)
        work = GenerationWork(
            source, config, settings.loaded, settings.threads, fields, limit, batched, generate_first
        )
        count = command.count_workers(config, todo, work)
        command.write_record(
            run,
            config,
            damaged,
            model=settings.loaded.record,
            scheduler=settings.loaded.scheduler,
            **{FIELDS: fields},
            device={
                "name": settings.device_name,
                "torch": settings.loaded.device,
                "threads": settings.threads,
                "workers": count,
                **({"image_bytes": settings.image_bytes} if settings.image_bytes else {}),
            },
            parts=len(parts),
            images=len(samples),
            **{USED: [size], KINDS: run.updated_part_counts(parts[0].paths, len(parts))},
        )

    def generate_parts(number: int | None) -> None:
        """Generate those of the first `number` parts that are unfinished."""
        nonlocal todo
        wanted = parts[:number]
        due = [part for part in todo if part.identity["part"] < len(wanted)]
        todo = todo[len(due) :]
        loop.make_parts(run, "generate", wanted, due, work, command, count)

    yield generate_parts
    if (used := used_batch_sizes(run, "samples", size)) != [size]:
        run.write_meta(**{USED: used})
    loop.record_generated(run, began)


def _plan_parts(
    run: Run, config: Config, settings: ResolvedSettings, triplets: list[list[Sample]], source: loading.Source
) -> tuple[Config, dict[str, Any], list[Part], list[Part], list[part_files.DamagedPartError]]:
    """Return resolved configuration, identity fields, all parts, parts to generate, and errors of damaged parts.

    UserError if the run, or one of its parts, was made with other fields.
    """
    config = settings.apply_to(keep_recorded_settings(config, run))
    directory.require_same(run, config.resolved())
    scheduler = settings.loaded.scheduler
    # what alters the content of any part; a part adds its own prompts and seeds
    fields = {
        **source.added_digests,
        "model": settings.loaded.record["weight_hash"],
        **source.file_digests,
        **part_fields(config.resolved()),
        "sampler.scheduler": [scheduler["class"], scheduler["set"]],
    }
    if config.generate.from_images is not None:
        fields["pictures"] = [*map(list, picture_digests(config).items())]
    before = run.meta.get(FIELDS) or fields
    # what either puts into the model stands before its weights, and is named first
    names = {**source.added_digests, **before, **fields}
    if name := next((name for name in names if before.get(name) != fields.get(name)), None):
        old, new = before.get(name), fields.get(name)
        if name == "model":
            there = run.meta["model"]["id"]
            old, new = f"{there} (weights {str(old)[:12]})", f"{source.name} (weights {new[:12]})"
        raise directory.another_run_error(run, name, old, new)
    chunks = batched(triplets, config.generate.part_triplets)
    parts = [_make_part(run, config, fields, index, chunk) for index, chunk in enumerate(chunks)]
    return (
        config,
        fields,
        parts,
        *loop.unfinished_parts(parts, partial(directory.part_of_another_run_error, run)),
    )


def _make_part(
    run: Run, config: Config, fields: dict[str, Any], index: int, triplets: list[list[Sample]]
) -> Part:
    """Return part number `index` of the run, its triplets cut into batches with one system prompt each."""
    size, members = int(config.generate.batch_triplets), [*chain.from_iterable(triplets)]
    first, read = [triplet[0] for triplet in triplets], []
    for one in members:  # what the tokenizers make of the prompts
        positions = (one.word_positions, one.word_positions_2, one.shared_positions)
        read.append((one.tokens, one.word_spans, *positions))
    more = {
        "generate.batch_triplets": size,
        "prompts": list(dict.fromkeys(sample.prompt for sample in members)),
        "seeds": [[one.prompt_id, one.triplet, one.seed, one.noise_seed] for one in first],
        "tokens": part_files.digest(repr(read)),
    }
    systems = [one.system_prompt for one in first]
    if any(system is not None for system in systems):
        more["system_prompts"] = systems
    alike = groupby(triplets, key=lambda triplet: triplet[0].system_prompt)
    return Part(
        paths={kind: run.part_path(kind, index) for kind in kinds_of_capture(config.capture)},
        identity=part_files.identity(index, fields | more),
        images=len(members),
        pieces=[batch for _, same in alike for batch in batched(list(same), size)],
    )
