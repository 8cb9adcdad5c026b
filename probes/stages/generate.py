"""The second stage: draw the images and keep what the probe saw, part by part.

A *draw* is a triplet with one seed: its members share every random number, because each image has a
generator of its own and all images of a draw have one seed. A batch holds whole draws, a part holds whole
batches, and how a part is cut into batches is fixed when the run begins. So a part's content depends on
nothing but its identity, and a run that was interrupted goes on at the first part that is missing and ends
with the same bytes, whichever process draws which batch (:mod:`probes.execution.loop`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import groupby, takewhile
from time import monotonic
from typing import Any, Literal

import torch

from probes.config.schema import Config
from probes.execution import loop, workers
from probes.execution.loop import Part, StageCall
from probes.locks import GATE, locked
from probes.models import loading
from probes.prompts.sample import Sample
from probes.runs import directory
from probes.runs import parts as part_files
from probes.runs.record import KINDS, differing, part_fields
from probes.runs.run import Run
from probes.runs.schemas import kinds_of_capture
from probes.stages.drawing import Drawing, image_bytes, load

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
    if not command.overwrite:  # in the number format and with the batches with which the run was begun
        begun = {name: getattr(run.config.generate, name) for name in ("dtype", USED)}
        kept = {name: value for name, value in begun.items() if getattr(config.generate, name) == "auto"}
        config = _updated(config, generate=kept)
    first = list(takewhile(lambda one: _draw(one) == _draw(samples[0]), samples))
    asked = config.generate.batch_triplets
    if cluster:  # this machine may have neither a GPU nor room for the model
        (config, record), loaded = cluster.ask(_load_and_resolve, source, config, first), None
    else:
        loaded = load(source, config, config.generate.device)
        config, record = _resolve(loaded, config, first)
    if command.overwrite:
        directory.clear(run)

    device = record["device"]
    plan = _planned(run, asked, config, record, samples, source)
    with locked(run.path / GATE):
        begun = FIELDS in run.meta
        if not command.overwrite:
            run.read_again()
        if FIELDS in run.meta and not begun:  # by another process, meanwhile
            plan = _planned(run, asked, config, record, samples, source)
        config, parts, todo = plan.config, plan.parts, plan.todo
        left = sum(part.images for part in todo)
        wanted, threads = config.generate.workers, device["threads"]
        count = workers.worker_count(wanted, device=device["torch"], threads=threads, images=left)
        count = cluster.room() if cluster else loop.useful_workers(count, todo)
        sizes = [int(config.generate.batch_triplets)]
        command.record(
            run,
            config,
            plan.damaged,
            **{**record, FIELDS: plan.fields, "device": {**device, "workers": count}},
            parts=len(parts),
            images=len(samples),
            **{USED: sizes, KINDS: run.with_kinds(parts[0].paths, len(parts))},
        )
    drawing = Drawing(
        source,
        config,
        device["torch"],
        record["model"]["weight_hash"],
        device["threads"],
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
    if (used := workers.used_sizes(run, "samples", sizes[0])) != sizes:
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


def _resolve(
    loaded: loading.LoadedModel, config: Config, first: Sequence[Sample]
) -> tuple[Config, dict[str, Any]]:
    """The configuration with the settings that it leaves to model or machine, and what ``run.json`` keeps of both.

    `first`: the images of one triplet.
    """
    guidance, batch, measured = config.sampler.guidance_scale, config.generate.batch_triplets, None
    config = _updated(
        config,
        sampler={"guidance_scale": loaded.guidance_scale if guidance is None else float(guidance)},
        generate={"device": torch.device(loaded.device).type, "dtype": loaded.dtype},
    )
    if batch == "auto":
        measured = image_bytes(loaded, config, first)
        batch = workers.auto_batch(loaded.pipe, loaded.device, config, measured)
    on_gpu = loaded.device.startswith("cuda")
    device = {
        "name": torch.cuda.get_device_name(torch.device(loaded.device)) if on_gpu else "CPU",
        "torch": loaded.device,
        "threads": workers.model_threads(loaded.pipe, loaded.device),
        "workers": 1,
        **({"image_bytes": measured} if measured else {}),
    }
    record = {"model": loaded.record, "scheduler": loaded.scheduler, "device": device}
    return _updated(config, generate={"batch_triplets": int(batch)}), record


def _load_and_resolve(
    source: loading.Source, config: Config, first: Sequence[Sample]
) -> tuple[Config, dict[str, Any]]:
    return _resolve(load(source, config, config.generate.device), config, first)


def _updated(config: Config, **sections: dict[str, Any]) -> Config:
    """The configuration with other fields in some of its sections."""
    return config.model_copy(
        update={name: getattr(config, name).model_copy(update=fields) for name, fields in sections.items()}
    )


def _planned(
    run: Run,
    asked: int | Literal["auto"],
    config: Config,
    record: Mapping[str, Any],
    samples: Sequence[Sample],
    source: loading.Source,
) -> _Planned:
    """Plan the parts of a run; refused where what is there was made from something else.

    Where the size of batches was left open (`asked`: auto), that of a run which has begun is kept.
    """
    begun = run.config.generate.batch_triplets if run.meta and asked == "auto" else "auto"
    if begun != "auto":
        config = _updated(config, generate={"batch_triplets": begun})
    directory.require_same(run, config.resolved())
    # every field that alters the content of any part; a part adds its own prompts and seeds
    fields = {
        "model": record["model"]["weight_hash"],
        **source.files,
        **part_fields(config.resolved()),
        "sampler.scheduler": [record["scheduler"]["class"], record["scheduler"]["set"]],
    }
    _require_same_parts(run, fields, source)
    chunks = chunks_of(samples, config)
    parts = [part_of(run, config, fields, index, chunk) for index, chunk in enumerate(chunks)]
    todo, damaged = loop.pending(parts, partial(directory.part_of_another_run, run))
    return _Planned(config, fields, parts, damaged, todo)


def _draw(sample: Sample) -> tuple[int, int]:
    return sample.triplet, sample.seed


def _until(todo: Sequence[Part], parts: int) -> int:
    return sum(part.identity["part"] < parts for part in todo)


def _require_same_parts(run: Run, fields: dict[str, Any], source: loading.Source) -> None:
    """Refuse a run whose parts were made from something else, before any of them is read."""
    before = run.meta.get(FIELDS)
    if before is None or before == fields:
        return
    name = differing(before, fields)
    old, new = before.get(name), fields.get(name)
    if name == "model":
        there = run.meta["model"]["id"]
        old, new = f"{there} (weights {str(old)[:12]})", f"{source.name} (weights {new[:12]})"
    raise directory.another_run(run, name, old, new)


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
