"""The stage `trace`: generate images with activations patched between the words of a triplet, part by part.

Parts, batches, workers and resumption are those of the generate stage (`probes.execution.loop`): a part is a function
of its identity, so a run that was interrupted goes on at the first part that is missing and ends with the same bytes.
"""

from __future__ import annotations

import math
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
from probes.execution import batches, loop, settings, shards, workers
from probes.execution.cluster.driver import ClusterWorkers, tasks_of
from probes.execution.cluster.job import Job
from probes.execution.command import StageCall
from probes.execution.part import Part, Piece, RowsOfKind
from probes.execution.team import Tick
from probes.fields.types import shown
from probes.models import loading
from probes.models import requirements as model_requirements
from probes.prompts.plan import Sample
from probes.runs import folders, image_faults, kinds, rows, schemas
from probes.runs import parts as part_files
from probes.runs.identity import as_written, traced_fields
from probes.runs.selection import KINDS
from probes.runs.store import Run
from probes.stages import generate
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

_REMOTE = "probes.stages.trace.remote"  # the module that workers of a cluster call
_PLAIN = StageCall()


@dataclass(frozen=True)
class Tracing:
    """Draws batches of variants (`probes.execution.team.Work`) with the loaded model; a helper loads its own."""

    source: loading.Source
    config: Config
    device: str
    weights: str
    threads: int
    loaded: loading.LoadedModel | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "loaded": None}

    @contextmanager
    def opened(self) -> Iterator[Callable[[TraceBatch, Tick], Piece]]:
        """Hold the model, ready to draw; gives the function that draws a batch."""
        loaded = self.loaded or load_again(self.source, self.config, self.device, self.weights)
        with workers.deterministic(self.threads):
            yield partial(_batch, loaded.pipe, self.config)


def forget(run: Run) -> None:
    """Remove what the stage stored, so that a run is traced anew."""
    folders.remove(run, ("traced",))
    run.write_meta(**{RECORD: None, USED: None})


def trace(run: Run, source: loading.Source, samples: Sequence[Sample], command: StageCall = _PLAIN) -> None:
    """Draw every image of a run's trace that it does not hold yet."""
    began = monotonic()
    plan = requirements.trace_plan(run.config, source)
    weights, device = (run.meta.get("model") or {}).get("weight_hash"), run.config.generate.device
    cluster = command.cluster
    loaded = None if cluster else load_again(source, run.config, device, weights)
    config, device, threads = _settle(run, source, loaded, cluster)
    draws = requirements.triplets(config, samples, source)
    requirements.require_positions(draws, plan)
    # what alters the content of any part; a part adds its own prompts and seeds
    fields = {**(run.meta.get("part_fields") or {}), **traced_fields(config.resolved())}
    work = Tracing(source, config, device, weights, threads, loaded)
    counted = counted_in(plan)
    sizes, damaged = batches.used_sizes(run, _asked(config), counted), list[part_files.DamagedPartError]()
    cut_anew = partial(_plan, run, config, fields, draws, plan, counted, damaged)
    parts, todo = cut_anew(sizes)
    left = sum(part.images for part in todo)
    rows_at_once = min(sizes[-1], len(draws) * images(plan.variants))
    if loaded is not None:
        wanted = processes(config, loaded.pipe, device, threads, left, rows_at_once)
    count = loop.useful_workers(wanted, todo) if loaded else cluster.pool.expected
    spent = (run.meta.get(RECORD) or {}).get("seconds", 0.0)  # before it was gone on with
    every = math.ceil(len(draws) / config.generate.part_triplets)  # of which a shard has its share
    noted = {RECORD: {**_record(plan, draws, config, count), "seconds": spent}}
    run.write_meta(**noted, **{USED: sizes, KINDS: kinds.with_kinds(run, ("traced",), every)})
    loop.note_damaged(run, damaged)
    with command.helpers() as team:

        def make() -> None:
            if cluster:
                told = {"weights": weights, "threads": threads, "fields": fields, "sizes": sizes}
                job = Job.of(run, config, source, device=config.generate.device, **told)
                images_of_all = sum(part.images for part in parts)
                cluster.make(run, "trace", f"{_REMOTE}:opened", job, tasks_of(todo), images_of_all)
            else:
                loop.make("trace", parts, todo, work, team, processes=count, progress=command.progress)

        while not batches.fits_on_device(make):
            team.dismiss(at_once=True)  # helpers hold memory of the device too
            most = max(batch.images for part in todo for batch in part.pieces)
            sizes = batches.halve(run, config, sizes, todo, most, counted)
            parts, todo = cut_anew(sizes)
    faults = image_faults.counts(list(run.traced(["fault"])["fault"].dropna()) if parts else [])
    record = {**run.meta[RECORD], "rows": sum(part.images for part in parts), "faults": faults}
    took = monotonic() - began if left else 0.0
    run.write_meta(**{RECORD: {**record, "seconds": round(spent + took, 1)}})


def _batch_of_worker(
    cluster: ClusterWorkers, run: Run, config: Config, source: loading.Source
) -> dict[str, Any]:
    """Return what a worker of a cluster finds out: ``batch``, ``device`` and ``threads``."""
    weights = (run.meta.get("model") or {}).get("weight_hash")
    return cluster.ask(f"{_REMOTE}:resolve_settings", Job.of(run, config, source, weights=weights))


def _settle(
    run: Run, source: loading.Source, loaded: loading.LoadedModel | None, cluster: ClusterWorkers | None
) -> tuple[Config, str, int]:
    """The configuration with a number where the size of a batch is left to the machine, a device and threads.

    Where the trace was begun its first batch's size is kept.
    """
    config = run.config
    assert config.trace is not None
    if loaded is not None:
        device, threads, number = loaded.device, settings.threads(loaded), None
    else:
        found = _batch_of_worker(cluster, run, config, source)
        device, threads, number = found["device"], found["threads"], found["batch"]
    if config.trace.batch == "auto":
        before = run.meta.get(USED)
        measured = (run.meta.get("device") or {}).get("image_bytes")
        number = int(before[0]) if before else number or auto_batch(loaded.pipe, device, config, measured)
        config = config.model_copy(update={"trace": config.trace.model_copy(update={"batch": number})})
    return config, device, threads


def _asked(config: Config) -> int:
    assert config.trace is not None and config.trace.batch != "auto"
    return config.trace.batch


def _plan(
    run: Run,
    config: Config,
    fields: Mapping[str, Any],
    draws: Sequence[TripletDraw],
    plan: TracePlan,
    counted: batches.Counted,
    damaged: list[part_files.DamagedPartError],
    sizes: Sequence[int],
) -> tuple[list[Part], list[Part]]:
    """All parts of the trace, and those that are due; those that are damaged are noted, and due."""
    chunks = generate.cut(draws, config.generate.part_triplets)
    parts = [
        part_of(run, config, fields, plan, sizes, index, chunk, counted) for index, chunk in enumerate(chunks)
    ]
    parts = shards.share(run, parts)
    return parts, loop.pending(parts, _refused, damaged.append)


def part_of(
    run: Run,
    config: Config,
    fields: Mapping[str, Any],
    plan: TracePlan,
    sizes: Sequence[int],
    index: int,
    chunk: Sequence[TripletDraw],
    counted: batches.Counted,
) -> Part:
    """A part of the trace, cut into batches of the size in force, or of that it was drawn with."""
    paths = {"traced": run.part_path("traced", index)}
    size = batches.size_of(paths.values(), sizes, counted)
    return Part(
        paths=paths,
        identity=_identity(batches.fields_of(dict(fields), size, counted), index, chunk),
        images=len(chunk) * images(plan.variants),
        pieces=cut(chunk, plan, size),
    )


def counted_in(plan: TracePlan) -> batches.Counted:
    """Return what the batches of a trace are counted in."""
    return batches.Counted("trace", "images", "trace.batch", USED, smallest(plan))


def _identity(fields: Mapping[str, Any], index: int, chunk: Sequence[TripletDraw]) -> dict[str, Any]:
    more = {
        "prompts": [one.prompts for one in chunk],
        "seeds": [[one.triplet, one.seed, one.noise_seed] for one in chunk],
        "tokens": part_files.digest(repr([one.read for one in chunk])),
    }
    return part_files.identity(index, {**fields, **more}, FORMAT)


def _refused(path: Path, field: str, old: Any, new: Any) -> UserError:
    old, new = (shown(as_written(field, value)) for value in (old, new))
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
    finite = one.fault != image_faults.NAN  # without numbers there is no picture
    return {
        "triplet": one.draw.triplet,
        "seed": one.draw.seed,
        **one.variant.row(),
        "writes": one.writes,
        "largest_change": one.largest_change,
        "fault": one.fault,
        "image": {"bytes": rows.png(one.image), "path": name} if finite else None,
    }
