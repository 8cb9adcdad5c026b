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
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
import torch

from hooks import Probe
from hooks.architectures.registry import architecture_of
from hooks.architectures.text_encoders import TEXT_ENCODERS
from hooks.prompt.given import given_system_prompt, prompt_tokenizers
from hooks.prompt.positions import GROUPS
from probes.config.schema import Config
from probes.errors import UserError
from probes.execution import batches, loop, shards, workers
from probes.execution.cluster.driver import ClusterWorkers, tasks_of
from probes.execution.cluster.job import Job
from probes.execution.command import StageCall
from probes.execution.part import Part, Piece, RowsOfKind
from probes.execution.settings import ResolvedSettings, keep_begun_settings
from probes.execution.team import Tick
from probes.models import description, estimate, loading, requirements
from probes.prompts.plan import Sample, pairs
from probes.prompts.towers import TextTowers, indicator_spans
from probes.runs import directory, identity, image_faults, kinds, rows, schemas
from probes.runs import parts as part_files
from probes.runs.selection import KINDS
from probes.runs.store import Run

_REMOTE = "probes.stages.remote"  # the module that workers of a cluster call
_PLAIN = StageCall()
# numbers beyond float16's 65504 become infinite, bfloat16 keeps 8 bits of them; the model's weights are finite
_NAN = {
    "float16": "use --dtype bfloat16 or float32",
    "bfloat16": "use --dtype float32",
    "float32": "lower --guidance-scale, choose another --scheduler, or check the model",
}


@dataclass(frozen=True)
class Drawing:
    """Draws batches (:class:`probes.execution.team.Work`) with the model that is loaded; a helper loads its own."""

    source: loading.Source
    config: Config
    device: str
    weights: str
    threads: int
    first: str  # sample of the run
    loaded: loading.LoadedModel | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "loaded": None}

    @contextmanager
    def opened(self) -> Iterator[Callable[[list[Sample], Tick], Piece]]:
        """Hold the model, ready to draw; gives the function that draws a batch."""
        with workers.deterministic(self.threads):
            loaded = self.loaded or load_again(self.source, self.config, self.device, self.weights)
            yield partial(_batch, loaded.pipe, self.config, self.first)


def generate(
    run: Run,
    config: Config,
    samples: Sequence[Sample],
    source: loading.Source,
    command: StageCall = _PLAIN,
) -> None:
    """Draw every image of the plan that the run does not hold yet.

    Parameters
    ----------
    run
        The run directory, held by :func:`probes.storage.claim.claim`.
    config, samples, source
        The configuration, its plan (`probes.prompts.plan.plan`) and its model (`probes.models.loading.resolve`).
    command
        What else the stage is called with.

    Raises
    ------
    UserError
        The directory holds another run, the disk is full, the device has no room for one triplet, or the first
        batch gives no finite image.
    """
    began = monotonic()
    config = config if command.overwrite else keep_begun_settings(config, run)
    cluster = command.cluster
    loaded = None if cluster else load(source, config, config.generate.device)
    found = (
        ResolvedSettings.of(loaded, config)
        if loaded
        else _resolved(cluster, run, config, source, len(samples))
    )
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

        def draw() -> None:
            if cluster:
                summary = {
                    "weights": drawing.weights,
                    "threads": found.threads,
                    "fields": fields,
                    "sizes": sizes,
                }
                job = Job.of(run, config, source, device=config.generate.device, **summary)
                cluster.make(run, "generate", f"{_REMOTE}:opened", job, tasks_of(todo), len(samples))
            else:
                loop.make(
                    "generate",
                    shards.share(run, parts),
                    todo,
                    drawing,
                    team,
                    processes=count,
                    progress=command.progress,
                )

        while not batches.fits_on_device(draw):
            team.dismiss(at_once=True)  # helpers hold memory of the device too
            sizes = batches.halve(run, config, sizes, todo, config.generate.part_triplets)
            parts, todo = _plan(run, config, fields, samples, sizes, damaged)
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
    return loop.useful_workers(
        estimate.processes(config, loaded.pipe, found.device, found.threads, left), todo
    )


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
    return parts, loop.pending(shards.share(run, parts), partial(_refused, run), damaged.append)


def load(source: loading.Source, config: Config, device: str) -> loading.LoadedModel:
    """Load the model of a run, ready to draw as its configuration says."""
    sampler = config.sampler
    return loading.load(
        source,
        dtype=config.generate.dtype,
        device=device,
        scheduler=sampler.scheduler,
        steps=sampler.steps,
        edit=config.edit,
    )


def load_again(source: loading.Source, config: Config, device: str, weights: str) -> loading.LoadedModel:
    """Load the model that a run began with, known by its `weight_hash`.

    Raises
    ------
    UserError
        Its weights are others now.
    """
    loaded = load(source, config, device)
    if loaded.record["weight_hash"] != weights:
        raise UserError(
            f"model {source.name}: expected the weights that the run began with, found others:"
            " put them back, or choose another --out"
        )
    return loaded


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


def _refused(run: Run, path: Path, field: str, old: Any, new: Any) -> UserError:
    return UserError(f"{path.name} of {directory.another_run(run, field, old, new)}")


def _fields(config: Config, found: ResolvedSettings, source: loading.Source) -> dict[str, Any]:
    """Every field that alters the content of any part; a part adds its own prompts and seeds."""
    return {
        "model": found.model["weight_hash"],
        **description.files(source),
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


def _batch(pipe: Any, config: Config, first: str, members: list[Sample], tick: Tick) -> Piece:
    """Draw a batch and give the rows of each kind."""
    compared = _pairs(members, list(config.indicators))
    images, faults, probe = _draw(pipe, config, members, compared, tick)
    if first in {sample.sample_id for sample in members}:
        _require_an_image(members, faults, config.generate.dtype)
    pictures = [
        {
            **sample.row(),
            "fault": fault,
            # without numbers there is no picture
            "image": None
            if fault == image_faults.NAN
            else {"bytes": rows.png(image), "path": f"{sample.sample_id}.png"},
        }
        for sample, image, fault in zip(members, images, faults)
    ]
    sites = schemas.captures_schema(list(probe.similarity))
    made = {
        "samples": RowsOfKind(pictures, schemas.SAMPLES),
        "captures": RowsOfKind(rows.captures(members, compared, probe), sites),
    }
    if config.capture.words:
        made["words"] = RowsOfKind(rows.words(members, probe), schemas.WORDS)
    if config.capture.keep:
        made["kept"] = RowsOfKind(rows.kept(members, probe), schemas.KEPT)
    if config.capture.pool:
        made["pooled"] = RowsOfKind(rows.pooled_rows(members, probe), schemas.POOLED)
    return made


def draw_batch(pipe: Any, config: Config, members: list[Sample]) -> Piece:
    """Draw a batch of a configuration whose settings are numbers, with the probe around it, and store nothing."""
    return _batch(pipe, config, "", members, lambda done: None)


def _draw(
    pipe: Any,
    config: Config,
    members: list[Sample],
    compared: list[tuple[int, int]],
    tick: Tick,
) -> tuple[np.ndarray, list[str | None], Probe]:
    """One batch through the pipeline with the probe around it: images, what is at fault with each, and the probe."""
    step, last = len(members) / config.sampler.steps, {}

    def stepped(pipe: Any, index: int, timestep: Any, kwargs: dict) -> dict:
        tick(step)
        last.update(kwargs)
        return {}

    capture = config.capture
    architecture = architecture_of(pipe)
    probe = Probe(
        pipe,
        **({} if capture.sites == "default" else {"sites": tuple(capture.sites)}),
        pairs=compared,
        shared_positions=_shared(pipe, members, compared) or None,
        keep=tuple(capture.keep),
        pool=tuple(capture.pool),
        position_groups=_position_groups(pipe, members) if capture.pool else None,
        word_maps=capture.words and (capture.definition == "default" or capture.definition),
        # where several encoders read a prompt, or a template stands around it
        prompts=[sample.prompt for sample in members] if architecture.transformer else None,
    )
    sampler = config.sampler
    height, width = requirements.image_size(pipe, config)
    (system,) = {sample.system_prompt for sample in members}
    with probe, given_system_prompt(pipe, architecture.layouts[0], system) as given:
        output = pipe(
            **given,
            prompt=[sample.prompt for sample in members],
            **architecture.call_arguments(
                pipe, sampler.guidance_scale, [sampler.negative_prompt] * len(members), sampler.true_cfg_scale
            ),
            # one generator an image, made on the CPU so that every device starts from the same noise
            generator=[torch.Generator("cpu").manual_seed(sample.noise_seed) for sample in members],
            num_inference_steps=config.sampler.steps,
            height=height,
            width=width,
            output_type="np",
            **architecture.step_callback(pipe, stepped),
        )
    images = np.asarray(output.images)
    flagged = getattr(output, "nsfw_content_detected", None)
    return images, image_faults.faults(images, last.get("latents"), flagged), probe


def _position_groups(pipe: Any, members: list[Sample]) -> Any:
    """Token positions around the word of each prompt, by text encoder where their tokens differ."""
    architecture = architecture_of(pipe)
    if not architecture.transformer:
        return [rows.position_groups(sample, pipe.tokenizer.model_max_length) for sample in members]
    layout = architecture.layouts[0]
    own = [getattr(pipe, one.name) for one in layout.tokenizers]
    towers = TextTowers.of(pipe, prompt_tokenizers(layout, own))
    if towers is None:
        return None
    found = [towers.groups(sample.prompt, indicator_spans(sample)) for sample in members]
    nowhere = dict.fromkeys(GROUPS, ())  # where the word has no one place
    return {name: [groups[name] or nowhere for groups in found] for name in found[0]}


def _shared(pipe: Any, members: list[Sample], compared: list[tuple[int, int]]) -> Any:
    """Aligned token positions of the words that each pair shares, by text encoder where their tokens differ."""
    first = [(list(members[i].shared_positions), list(members[j].shared_positions)) for i, j in compared]
    encoders = [name for name, part in TEXT_ENCODERS.items() if getattr(pipe, part, None) is not None]
    if not architecture_of(pipe).transformer or not first:
        return first
    last = first
    if len(encoders) > 1:
        last = [
            (list(members[i].shared_positions_2 or ()), list(members[j].shared_positions_2 or ()))
            for i, j in compared
        ]
    return {**dict.fromkeys(encoders[:-1], first), encoders[-1]: last}


def _require_an_image(members: list[Sample], faults: list[str | None], dtype: str) -> None:
    """Stop where a run begins with nothing but overflows: the others would be none either."""
    if all(fault == image_faults.NAN for fault in faults):
        raise UserError(
            f"{members[0].sample_id}: expected a finite image, got NaN with {dtype} in all {len(members)} images"
            f" of the first batch: {_NAN[dtype]}"
        )


def cut(items: Sequence[Any], size: int) -> list[list[Any]]:
    """Pieces of so many items, the last of those that are left."""
    return [list(items[start : start + size]) for start in range(0, len(items), size)]


def _pairs(members: list[Sample], names: list[str]) -> list[tuple[int, int]]:
    """Rows of the batch to compare, draw by draw."""
    starts = range(0, len(members), len(names))
    return [(start + i, start + j) for start in starts for i, j in pairs(names)]
