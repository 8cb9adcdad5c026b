"""The stage `trace`: generate images with activations patched between the words of a triplet, part by part.

Parts, batches, workers and resumption are those of the generate stage (`probes.execution.loop`): a part is a function
of its identity, so a run that was interrupted goes on at the first part that is missing and ends with the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

from hooks.errors import HookError
from probes.config.schema import Config
from probes.errors import UserError
from probes.execution import loop
from probes.execution.loop import Part, Piece, RowsOfKind, StageCall
from probes.execution.processes import Tick
from probes.execution.workers import BatchSize, used_batch_sizes
from probes.fields.types import shown
from probes.models import loading
from probes.prompts.sample import Sample
from probes.runs import directory, schemas
from probes.runs import parts as part_files
from probes.runs.images import NAN, fault_counts
from probes.runs.record import KINDS, traced_fields
from probes.runs.rows import png
from probes.runs.run import Run
from probes.stages.drawing import Drawing, call_options, cut, load, threads, with_options
from probes.stages.trace import requirements
from probes.stages.trace.draw import draw
from probes.stages.trace.triplet_draw import TripletDraw
from probes.stages.trace.variants import Variant, images, rows

FORMAT = 1  # of what the stage stores
RECORD, USED = "trace", "trace_batch"  # of run.json


def forget(run: Run) -> None:
    """Remove what the stage stored, so that a run is traced anew."""
    directory.remove(run, ("traced",))
    run.write_meta(**{RECORD: None, USED: None})


def trace(run: Run, source: loading.Source, samples: Sequence[Sample], command: StageCall) -> None:
    """Draw every image of a run's trace that it does not hold yet."""
    began, config = monotonic(), run.config
    _, variants = requirements.trace_plan(config, source)
    # what alters the content of any part; a part adds its own prompts and seeds
    generated, device = run.meta["part_fields"], run.meta.get("device") or {}
    loaded, batch, each = command.run_function(_loaded, source, config, generated, device.get("image_bytes"))
    assert config.trace is not None
    if config.trace.batch == "auto":  # where the trace was begun its first batch's size is kept
        config = with_options(config, "trace", batch=(run.meta.get(USED) or [batch])[0])
    size = config.trace.batch
    draws = requirements.triplets(config, samples, source)
    fields = {**generated, **traced_fields(config.resolved()), "trace.batch": size}
    parts = [
        Part(
            paths={"traced": run.part_path("traced", index)},
            identity=part_files.identity(index, {**fields, **_own_fields(chunk)}, FORMAT),
            images=len(chunk) * images(variants),
            pieces=cut_trace(TraceBatch(chunk, variants), size),
        )
        for index, chunk in enumerate(cut(draws, config.generate.part_triplets))
    ]
    todo, damaged = loop.unfinished_parts(parts, _refused)
    smallest = max(len(rows([one])) for one in variants)
    limit = BatchSize("trace", size, "images", smallest, f"{smallest} images", config.generate.dtype)
    work = Drawing(source, config, loaded, each, generated, limit, cut_trace, draw_batch)
    count = command.count_workers(config, todo, work)
    not_drawn = {one.name: sum(bool(draw.why_not(one)) for draw in draws) for one in variants}
    record: dict[str, Any] = {
        "format": FORMAT,
        "config": config.trace.model_dump(mode="json"),
        "fields": traced_fields(config.resolved()),
        "indicators": [one.recipient for one in variants if one.kind == "none"],
        "variants": [one.row() for one in variants],
        "draws": len(draws),
        "images": images(variants),
        "not_drawn": {name: number for name, number in not_drawn.items() if number},
        "workers": count,
        "seconds": (run.meta.get(RECORD) or {}).get("seconds", 0.0),  # before it was gone on with
    }
    run.write_meta(**{RECORD: record, USED: [size], KINDS: run.with_kinds(("traced",), len(parts))})
    loop.report_damaged(run, damaged)
    loop.make_parts(run, "trace", parts, todo, work, command, count)
    faults = fault_counts(list(run.read("traced", ["fault"])["fault"].dropna()) if parts else [])
    seconds = round(record["seconds"] + (monotonic() - began if todo else 0.0), 1)
    record |= {"rows": sum(part.images for part in parts), "faults": faults, "seconds": seconds}
    run.write_meta(**{RECORD: record, USED: used_batch_sizes(run, "traced", size)})


def _loaded(
    source: loading.Source, config: Config, fields: Mapping[str, Any], measured: float | None
) -> tuple[loading.LoadedModel, int, int]:
    """The model of a run, the images that a batch of its trace holds on this machine, and threads of torch."""
    loaded = load(source, config, config.generate.device, fields)
    size = requirements.auto_batch(loaded.pipe, loaded.device, config, measured)
    return loaded, size, threads(loaded)


def _own_fields(chunk: Sequence[TripletDraw]) -> dict[str, Any]:
    return {
        "prompts": [one.prompts for one in chunk],
        "seeds": [[one.triplet, one.seed, one.noise_seed] for one in chunk],
        "tokens": part_files.digest(repr([one.read for one in chunk])),
    }


def _refused(path: Path, field: str, old: Any, new: Any) -> UserError:
    return UserError(
        f"{path}: was drawn with {field} {shown(old)}, expected {shown(new)}: use --stage trace --overwrite to trace"
        " the run anew, or another --out"
    )


# Batches


@dataclass(frozen=True)
class TraceBatch:
    """Variants of some triplets, whose recipients and donors are drawn with them."""

    draws: Sequence[TripletDraw]
    variants: Sequence[Variant]

    def __len__(self) -> int:
        """Rows of it."""
        return len(self.draws) * len(rows(self.variants))


def cut_trace(batch: TraceBatch, size: int) -> list[TraceBatch]:
    """Return batches of at most so many images: of several triplets where all variants of each fit, else of one."""
    if several := size // len(rows(batch.variants)):
        return [TraceBatch(some, batch.variants) for some in cut(batch.draws, several)]
    alike: dict[Any, list[Variant]] = {}
    for one in batch.variants:
        alike.setdefault(one.drawn, []).append(one)
    chunks: list[list[Variant]] = [[]]
    for some in alike.values():  # what is the same stands together
        if len(rows([*chunks[-1], *some])) > size:
            chunks.append([])
        chunks[-1] += some
    return [TraceBatch([draw], chunk) for draw in batch.draws for chunk in chunks]


def draw_batch(pipe: Any, config: Config, batch: TraceBatch, tick: Tick) -> Piece:
    """Draw a batch and give its rows."""
    # recipients and donors of another batch of the triplet are drawn again, and are no images of this one
    share = images(batch.variants) / len(rows(batch.variants))
    options = {"tick": lambda drawn: tick(share * drawn), **call_options(pipe, config)}
    try:
        drawn = draw(pipe, batch.draws, batch.variants, **options)
    except HookError as error:
        raise UserError(f"trace: {error}") from None
    traced = []
    for one in drawn:
        name = f"t{one.draw.triplet:05d}-s{one.draw.seed}-{one.variant.name}.png"
        finite = one.fault != NAN  # without numbers there is no picture
        traced.append(
            {
                "triplet": one.draw.triplet,
                "seed": one.draw.seed,
                **one.variant.row(),
                "writes": one.writes,
                "largest_change": one.largest_change,
                "fault": one.fault,
                "image": {"bytes": png(one.image), "path": name} if finite else None,
            }
        )
    return {"traced": RowsOfKind(traced, schemas.TRACED)}
