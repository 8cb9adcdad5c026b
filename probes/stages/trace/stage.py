"""The stage `trace`: generate images with activations patched between the words of a triplet, part by part.

Parts, batches, workers and resumption are those of the generate stage (`probes.execution.loop`): a part is a function
of its identity, so a run that was interrupted goes on at the first part that is missing and ends with the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

from hooks.errors import HookError
from probes.config.schema import Config
from probes.errors import UserError
from probes.execution import loop, workers
from probes.execution.loop import Part, Piece, RowsOfKind, StageCall
from probes.execution.processes import Tick
from probes.execution.workers import BatchSize
from probes.fields.types import shown
from probes.models import loading
from probes.models import requirements as model_requirements
from probes.models.weights import deterministic
from probes.prompts.sample import Sample
from probes.runs import directory, rows, schemas
from probes.runs import parts as part_files
from probes.runs.images import NAN, fault_counts
from probes.runs.record import KINDS, traced_fields
from probes.runs.run import Run
from probes.stages import generate, settings
from probes.stages.drawing import load_again
from probes.stages.estimate import processes
from probes.stages.trace import requirements
from probes.stages.trace.batching import TraceBatch, auto_batch, cut, smallest
from probes.stages.trace.batching import rows as rows_of_variants
from probes.stages.trace.draw import TracedImage, draw
from probes.stages.trace.triplet_draw import TripletDraw
from probes.stages.trace.variants import TracePlan, images

FORMAT = 1  # of what the stage stores
RECORD, USED = "trace", "trace_batch"  # of run.json

_PLAIN = StageCall()


@dataclass(frozen=True)
class Tracing:
    """Draws batches of variants (`probes.execution.processes.Work`) with the loaded model; a helper loads its own."""

    source: loading.Source
    config: Config
    device: str
    weights: str
    threads: int
    smallest: int  # images of a batch
    files: Mapping[str, str]  # of the model's description, with their checksums
    loaded: loading.LoadedModel | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "loaded": None}

    @contextmanager
    def opened(self) -> Iterator[Callable[[TraceBatch, Tick], Piece]]:
        """Hold the model, ready to draw; gives the function that draws a batch."""
        loaded = self.loaded or load_again(self.source, self.config, self.device, self.weights, self.files)
        smallest, dtype = f"{self.smallest} images", self.config.generate.dtype
        size = BatchSize("trace", _batch_size(self.config), "images", self.smallest, smallest, dtype)
        with deterministic(self.threads):
            yield partial(_fitting, size, loaded.pipe, self.config)


def forget(run: Run) -> None:
    """Remove what the stage stored, so that a run is traced anew."""
    directory.remove(run, ("traced",))
    run.write_meta(**{RECORD: None, USED: None})


def trace(run: Run, source: loading.Source, samples: Sequence[Sample], command: StageCall = _PLAIN) -> None:
    """Draw every image of a run's trace that it does not hold yet."""
    began = monotonic()
    plan = requirements.trace_plan(run.config, source)
    weights, device = (run.meta.get("model") or {}).get("weight_hash"), run.config.generate.device
    cluster = command.cluster
    # what alters the content of any part; a part adds its own prompts and seeds
    generated = run.meta.get("part_fields") or {}
    files = {name: value for name, value in generated.items() if name.startswith("model/")}
    loaded = None if cluster else load_again(source, run.config, device, weights, files)
    measured = (run.meta.get("device") or {}).get("image_bytes")
    if cluster:
        found = cluster.ask(_found_by, source, run.config, device, weights, measured, files)
    else:
        found = _found(loaded, run.config, measured)
    config = _settled(run, found["batch"])
    draws = requirements.triplets(config, samples, source)
    requirements.require_positions(draws, plan)
    size = _batch_size(config)
    fields = {**generated, **traced_fields(config.resolved()), "trace.batch": size}
    chunks = generate.cut(draws, config.generate.part_triplets)
    parts = [part_of(run, fields, plan, size, index, chunk) for index, chunk in enumerate(chunks)]
    todo, damaged = loop.pending(parts, _refused)
    left = sum(part.images for part in todo)
    wanted = processes(config, found["device"], found["threads"], left)
    count = cluster.room() if cluster else loop.useful_workers(wanted, todo)
    spent = (run.meta.get(RECORD) or {}).get("seconds", 0.0)  # before it was gone on with
    noted = {RECORD: {**_record(plan, draws, config, count), "seconds": spent}}
    run.write_meta(**noted, **{USED: [size], KINDS: run.with_kinds(("traced",), len(parts))})
    loop.note_damaged(run, damaged)
    work = Tracing(source, config, found["device"], weights, found["threads"], smallest(plan), files, loaded)
    loop.make(run, "trace", parts, todo, work, command, count)
    faults = fault_counts(list(run.read("traced", ["fault"])["fault"].dropna()) if parts else [])
    record = {**run.meta[RECORD], "rows": sum(part.images for part in parts), "faults": faults}
    took = monotonic() - began if left else 0.0
    used = workers.used_sizes(run, "traced", size)
    run.write_meta(**{RECORD: {**record, "seconds": round(spent + took, 1)}, USED: used})


def _found(loaded: loading.LoadedModel, config: Config, measured: float | None) -> dict[str, Any]:
    """Return what follows from a loaded model: the images that a batch holds, the device, and threads of torch."""
    return {
        "batch": auto_batch(loaded.pipe, loaded.device, config, measured),
        "device": loaded.device,
        "threads": settings.threads(loaded),
    }


def _found_by(
    source: loading.Source,
    config: Config,
    device: str,
    weights: str,
    measured: float | None,
    files: Mapping[str, str],
) -> dict[str, Any]:
    return _found(load_again(source, config, device, weights, files), config, measured)


def _settled(run: Run, batch: int) -> Config:
    """The configuration with a number where the size of a batch is left to the machine.

    Where the trace was begun its first batch's size is kept.
    """
    config = run.config
    assert config.trace is not None
    if config.trace.batch != "auto":
        return config
    before = run.meta.get(USED)
    trace = config.trace.model_copy(update={"batch": int(before[0]) if before else batch})
    return config.model_copy(update={"trace": trace})


def _batch_size(config: Config) -> int:
    assert config.trace is not None and config.trace.batch != "auto"
    return config.trace.batch


def part_of(
    run: Run, fields: dict[str, Any], plan: TracePlan, size: int, index: int, chunk: Sequence[TripletDraw]
) -> Part:
    """A part of the trace, cut into batches."""
    return Part(
        paths={"traced": run.part_path("traced", index)},
        identity=_identity(fields, index, chunk),
        images=len(chunk) * images(plan.variants),
        pieces=cut(chunk, plan.variants, size),
    )


def _identity(fields: Mapping[str, Any], index: int, chunk: Sequence[TripletDraw]) -> dict[str, Any]:
    more = {
        "prompts": [one.prompts for one in chunk],
        "seeds": [[one.triplet, one.seed, one.noise_seed] for one in chunk],
        "tokens": part_files.digest(repr([one.read for one in chunk])),
    }
    return part_files.identity(index, {**fields, **more}, FORMAT)


def _refused(path: Path, field: str, old: Any, new: Any) -> UserError:
    old, new = (shown(value) for value in (old, new))
    return UserError(
        f"{path}: was drawn with {field} {old}, expected {new}: use --stage trace --overwrite to trace"
        " the run anew, or another --out"
    )


def _record(plan: TracePlan, draws: Sequence[TripletDraw], config: Config, count: int) -> dict[str, Any]:
    """Return what ``run.json`` keeps of a trace."""
    left_out = {one.name: sum(bool(each.why_not(one)) for each in draws) for one in plan.variants}
    assert config.trace is not None
    return {
        "format": FORMAT,
        "config": config.trace.model_dump(mode="json"),
        "fields": traced_fields(config.resolved()),
        "indicators": list(plan.indicators),
        "variants": [one.row() for one in plan.variants],
        "draws": len(draws),
        "images": images(plan.variants),
        "not_drawn": {name: number for name, number in left_out.items() if number},
        "workers": count,
    }


def _fitting(size: BatchSize, pipe: Any, config: Config, batch: TraceBatch, tick: Tick) -> Piece:
    """Draw a batch, at once or in as many as it takes for each to find room on the device."""

    def drawn(number: int) -> Piece:
        if number >= _batch_size(config):
            return _batch(pipe, config, batch, tick)
        made = [_batch(pipe, config, some, tick) for some in cut(batch.draws, batch.variants, number)]
        rows = [row for one in made for row in one["traced"].rows]
        return {"traced": RowsOfKind(rows, schemas.TRACED, number)}

    return size.fit(drawn, batch.images)


def _batch(pipe: Any, config: Config, batch: TraceBatch, tick: Tick) -> Piece:
    """Draw a batch and give its rows."""
    sampler, (height, width) = config.sampler, model_requirements.image_size(pipe, config)
    # recipients and donors of another batch of the triplet are drawn again, and are no images of this one
    share = images(batch.variants) / len(rows_of_variants(batch.variants))
    try:
        drawn = draw(
            pipe,
            batch.draws,
            batch.variants,
            steps=sampler.steps,
            guidance_scale=sampler.guidance_scale,
            true_cfg_scale=sampler.true_cfg_scale,
            height=height,
            width=width,
            negative_prompt=sampler.negative_prompt,
            tick=lambda drawn: tick(share * drawn),
        )
    except HookError as error:
        raise UserError(f"trace: {error}") from None
    return {"traced": RowsOfKind([_row(one) for one in drawn], schemas.TRACED)}


def _row(one: TracedImage) -> dict[str, Any]:
    name = f"t{one.draw.triplet:05d}-s{one.draw.seed}-{one.variant.name}.png"
    finite = one.fault != NAN  # without numbers there is no picture
    return {
        "triplet": one.draw.triplet,
        "seed": one.draw.seed,
        **one.variant.row(),
        "writes": one.writes,
        "largest_change": one.largest_change,
        "fault": one.fault,
        "image": {"bytes": rows.png(one.image), "path": name} if finite else None,
    }
