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
from probes.execution.loop import Part, RowsByKind, RowsOfKind, StageCall
from probes.execution.processes import Tick
from probes.execution.workers import BatchSize, used_batch_sizes
from probes.fields.types import shown
from probes.models import loading
from probes.prompts.sample import Sample
from probes.runs import directory, schemas
from probes.runs import parts as part_files
from probes.runs.images import NAN, fault_counts
from probes.runs.record import KINDS, traced_fields
from probes.runs.rows import png_bytes
from probes.runs.run import Run
from probes.stages.batch_generation import (
    GenerationWork,
    batched,
    call_options,
    load_run_model,
    replace_options,
    thread_count,
)
from probes.stages.trace import requirements
from probes.stages.trace.patched_generation import generate_variants
from probes.stages.trace.seeded_triplet import SeededTriplet
from probes.stages.trace.variants import Variant, distinct_images, image_count

FORMAT = 1  # of what the stage stores
RECORD, USED = "trace", "trace_batch"  # of run.json


def remove_trace(run: Run) -> None:
    """Remove a run's traced parts and their record, so that it can be traced again."""
    directory.remove_parts(run, ("traced",))
    run.write_meta(**{RECORD: None, USED: None})


def trace(run: Run, source: loading.Source, samples: Sequence[Sample], command: StageCall) -> None:
    """Generate all images of a run's trace that it does not hold yet, part by part, and record the trace."""
    began, config = monotonic(), run.config
    _, variants = requirements.trace_plan(config, source)
    # what alters the content of any part; a part adds its own prompts and seeds
    generated, device = run.meta["part_fields"], run.meta.get("device") or {}
    loaded, batch, threads = command.run_function(
        _load_model, source, config, generated, device.get("image_bytes")
    )
    assert config.trace is not None
    if config.trace.batch == "auto":  # where the trace was begun its first batch's size is kept
        config = replace_options(config, "trace", batch=(run.meta.get(USED) or [batch])[0])
    size = config.trace.batch
    triplets = requirements.traced_triplets(config, samples, source)
    fields = {**generated, **traced_fields(config.resolved()), "trace.batch": size}
    parts = [
        Part(
            paths={"traced": run.part_path("traced", index)},
            identity=part_files.identity(index, {**fields, **_triplet_fields(chunk)}, FORMAT),
            images=len(chunk) * image_count(variants),
            pieces=split_batch(TraceBatch(chunk, variants), size),
        )
        for index, chunk in enumerate(batched(triplets, config.generate.part_triplets))
    ]
    todo, damaged = loop.unfinished_parts(parts, _another_trace_error)
    smallest = max(len(distinct_images([one])) for one in variants)
    limit = BatchSize("trace", size, "images", smallest, f"{smallest} images", config.generate.dtype)
    work = GenerationWork(
        source, config, loaded, threads, generated, limit, split_batch, generate_trace_batch
    )
    count = command.count_workers(config, todo, work)
    mismatches = {one.name: sum(bool(each.mismatch_reason(one)) for each in triplets) for one in variants}
    record: dict[str, Any] = {
        "format": FORMAT,
        "config": config.trace.model_dump(mode="json"),
        "fields": traced_fields(config.resolved()),
        "indicators": [one.recipient for one in variants if one.kind == "none"],
        "variants": [one.row() for one in variants],
        "draws": len(triplets),
        "images": image_count(variants),
        "not_drawn": {name: number for name, number in mismatches.items() if number},
        "workers": count,
        "seconds": (run.meta.get(RECORD) or {}).get("seconds", 0.0),  # before it was gone on with
    }
    run.write_meta(**{RECORD: record, USED: [size], KINDS: run.updated_part_counts(("traced",), len(parts))})
    loop.report_damaged(run, damaged)
    loop.make_parts(run, "trace", parts, todo, work, command, count)
    faults = fault_counts(list(run.read("traced", ["fault"])["fault"].dropna()) if parts else [])
    seconds = round(record["seconds"] + (monotonic() - began if todo else 0.0), 1)
    record |= {"rows": sum(part.images for part in parts), "faults": faults, "seconds": seconds}
    run.write_meta(**{RECORD: record, USED: used_batch_sizes(run, "traced", size)})


def _load_model(
    source: loading.Source, config: Config, fields: Mapping[str, Any], image_bytes: float | None
) -> tuple[loading.LoadedModel, int, int]:
    """Load a run's model; return it, the images per batch that this machine has room for, and the torch threads."""
    loaded = load_run_model(source, config, config.generate.device, fields)
    size = requirements.traced_images_per_batch(loaded.pipe, loaded.device, config, image_bytes)
    return loaded, size, thread_count(loaded)


def _triplet_fields(triplets: Sequence[SeededTriplet]) -> dict[str, Any]:
    """Return the identity fields of a part that differ from other parts': prompts, seeds and tokens of its triplets."""
    return {
        "prompts": [one.prompts for one in triplets],
        "seeds": [[one.number, one.seed, one.noise_seed] for one in triplets],
        "tokens": part_files.digest(repr([one.tokenization for one in triplets])),
    }


def _another_trace_error(path: Path, field: str, old: Any, new: Any) -> UserError:
    """Return the error for a traced part at `path` that was generated with an `old` value of a field, not the `new`."""
    return UserError(
        f"{path}: was drawn with {field} {shown(old)}, expected {shown(new)}: use --stage trace --overwrite to trace"
        " the run anew, or another --out"
    )


# Batches


@dataclass(frozen=True)
class TraceBatch:
    """A batch of variants of some triplets; their unpatched recipients and donors are generated with them."""

    triplets: Sequence[SeededTriplet]
    variants: Sequence[Variant]

    def __len__(self) -> int:
        """Return the number of images in the batch, with recipients and donors."""
        return len(self.triplets) * len(distinct_images(self.variants))


def split_batch(batch: TraceBatch, size: int) -> list[TraceBatch]:
    """Return batches of at most `size` images: of several triplets if all variants of one fit, else of one triplet."""
    if several := size // len(distinct_images(batch.variants)):
        return [TraceBatch(some, batch.variants) for some in batched(batch.triplets, several)]
    alike: dict[Any, list[Variant]] = {}
    for one in batch.variants:
        alike.setdefault(one.image_key, []).append(one)
    chunks: list[list[Variant]] = [[]]
    for some in alike.values():  # what is the same stands together
        if len(distinct_images([*chunks[-1], *some])) > size:
            chunks.append([])
        chunks[-1] += some
    return [TraceBatch([triplet], chunk) for triplet in batch.triplets for chunk in chunks]


def generate_trace_batch(pipe: Any, config: Config, batch: TraceBatch, tick: Tick) -> RowsByKind:
    """Generate a batch of traced images and return its rows of ``traced/``."""
    # recipients and donors of another batch of the triplet are generated again, and are no images of this one
    share = image_count(batch.variants) / len(distinct_images(batch.variants))
    options = {"tick": lambda images: tick(share * images), **call_options(pipe, config)}
    try:
        images = generate_variants(pipe, batch.triplets, batch.variants, **options)
    except HookError as error:
        raise UserError(f"trace: {error}") from None
    traced = []
    for one in images:
        name = f"t{one.triplet.number:05d}-s{one.triplet.seed}-{one.variant.name}.png"
        finite = one.fault != NAN  # without numbers there is no picture
        traced.append(
            {
                "triplet": one.triplet.number,
                "seed": one.triplet.seed,
                **one.variant.row(),
                "writes": one.writes,
                "largest_change": one.largest_change,
                "fault": one.fault,
                "image": {"bytes": png_bytes(one.image), "path": name} if finite else None,
            }
        )
    return {"traced": RowsOfKind(traced, schemas.TRACED)}
