"""Generation of a batch of images with a probe on the pipeline, as rows of every kind of part; loading of the model."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
import torch

from hooks.architectures.registry import architecture_of
from hooks.architectures.text_encoders import TEXT_ENCODERS
from hooks.probe import Probe
from hooks.prompt.given import use_system_prompt
from hooks.recorder import PairPositions
from probes.config.schema import Config
from probes.errors import UserError
from probes.execution import workers
from probes.execution.loop import RowsByKind, RowsOfKind
from probes.execution.processes import Tick
from probes.execution.workers import BatchSize, is_out_of_memory, triplets_per_batch
from probes.models import loading, requirements
from probes.models.weights import deterministic, parameter_count
from probes.prompts.sample import Sample, TextTowers, indicator_spans
from probes.runs import record, rows, schemas
from probes.runs.images import NAN, find_faults
from probes.runs.run import Run
from probes.stages.starting_pictures import picture_arguments

# numbers beyond float16's 65504 become infinite, bfloat16 keeps 8 bits of them; the model's weights are finite
_NAN = {
    "float16": "use --dtype bfloat16 or float32",
    "bfloat16": "use --dtype float32",
    "float32": "lower --guidance-scale, choose another --scheduler, or check the model",
}


def batched(items: Sequence[Any], size: int) -> list[list[Any]]:
    """Return consecutive lists of `size` items; the last may be shorter."""
    return [list(items[start : start + size]) for start in range(0, len(items), size)]


def replace_options(config: Config, section: str, **options: Any) -> Config:
    """Return a copy of a configuration with some fields of a section replaced."""
    return config.model_copy(update={section: getattr(config, section).model_copy(update=options)})


@dataclass(frozen=True)
class GenerationWork:
    """Work of the stages that generate images (`probes.execution.processes.Work`); each process loads the model."""

    source: loading.Source
    config: Config
    loaded: loading.LoadedModel
    threads: int
    fields: Mapping[str, Any]  # of the run's parts: checksums of the model's weights and files
    batch_size: BatchSize
    split: Callable[[Any, int], Sequence[Any]]  # cuts a piece of a part into batches of a size
    generate: Callable[[Any, Config, Any, Tick], RowsByKind]  # generates a batch with a pipeline

    @property
    def device(self) -> str:
        """The torch device that images are generated on."""
        return self.loaded.device

    @contextmanager
    def opened(self) -> Iterator[Callable[[Any, Tick], RowsByKind]]:
        """Load the model if it is not loaded, and yield the function that generates a piece of a part."""
        loaded = self.loaded
        with deterministic(self.threads):
            if loaded.pipe is None:
                loaded = load_run_model(self.source, self.config, loaded.device, self.fields)
            yield partial(self._generate_piece, replace(self.batch_size), loaded.pipe)

    def _generate_piece(self, batch_size: BatchSize, pipe: Any, piece: Any, tick: Tick) -> RowsByKind:
        """Generate a piece of a part in one batch, or in smaller ones that fit the device; return its rows by kind."""

        def generate_batches(size: int) -> RowsByKind:
            """Return the rows of the piece, generated in batches of this size."""
            batches = [self.generate(pipe, self.config, batch, tick) for batch in self.split(piece, size)]
            halved = size if size < self.batch_size.size else None
            return {
                kind: RowsOfKind([row for batch in batches for row in batch[kind].rows], last.schema, halved)
                for kind, last in batches[-1].items()
            }

        return batch_size.fit(generate_batches, len(piece))


def load_run_model(
    source: loading.Source, config: Config, device: str, fields: Mapping[str, Any] | None = None
) -> loading.LoadedModel:
    """Return a run's model with all that is put into it; UserError if it is not the one that the run began with.

    `fields`: its checksums in the run's parts (None: not begun). On another machine the model is found by its name.
    """
    if not all(path.exists() for path in (source.path, *(path for path, _ in source.added.files.values()))):
        named = config.model_copy(update={"model": source.name.partition("@")[0]})
        commit = source.revision if source.kind == "hub" else None
        source = replace(loading.resolve_run(named, revision=commit), name=source.name)
    files = {
        name: value for name, value in (fields or source.file_digests).items() if name.startswith("model/")
    }
    if name := record.first_difference(files, source.file_digests):
        raise UserError(
            f"model {source.name}: expected {name.removeprefix('model/')} to be the one that the run began with, found"
            " another: put the same files on all machines"
        )
    sampler, way = config.sampler, config.generate
    loaded = loading.load(
        source,
        dtype=way.dtype,
        device=device,
        scheduler=sampler.scheduler,
        steps=sampler.steps,
        edit=config.edit,
        offload=way.offload,
        decoding=way.decoding,
    )
    if fields and loaded.record["weight_hash"] != fields["model"]:
        raise UserError(
            f"model {source.name}: expected the weights that the run began with, found others:"
            " put them back, or choose another --out"
        )
    return loaded


@dataclass
class ResolvedSettings:
    """Settings that a configuration leaves to model or machine, resolved when a run begins."""

    loaded: loading.LoadedModel
    device_name: str
    threads: int  # of torch
    batch_triplets: int = 1
    image_bytes: float | None = None  # memory of the device that an image takes, where that was measured

    def apply_to(self, config: Config) -> Config:
        """Return the configuration with guidance scale, batch size, device and dtype filled in."""
        batch, scale = config.generate.batch_triplets, config.sampler.guidance_scale
        scale = self.loaded.guidance_scale if scale is None else float(scale)
        return replace_options(
            replace_options(config, "sampler", guidance_scale=scale),
            "generate",
            batch_triplets=self.batch_triplets if batch == "auto" else batch,
            device=torch.device(self.loaded.device).type,
            dtype=self.loaded.dtype,
        )


def resolve_settings(source: loading.Source, config: Config, triplet: Sequence[Sample]) -> ResolvedSettings:
    """Load a run's model and return the settings that depend on it, the batch size by a trial `triplet`."""
    loaded = load_run_model(source, config, config.generate.device)
    on_gpu = loaded.device.startswith("cuda")
    name = torch.cuda.get_device_name(torch.device(loaded.device)) if on_gpu else "CPU"
    settings = ResolvedSettings(loaded, name, thread_count(loaded))
    if config.generate.batch_triplets == "auto":
        measured = measure_image_bytes(loaded, settings.apply_to(config), triplet) if on_gpu else None
        settings.image_bytes = measured
        settings.batch_triplets = triplets_per_batch(loaded.pipe, loaded.device, config, measured)
    return settings


def keep_recorded_settings(config: Config, run: Run) -> Config:
    """Return the configuration with the dtype and batch size that the run began with, where it says "auto"."""
    if not run.meta:
        return config
    begun, names = run.config.generate, ("dtype", "batch_triplets")
    recorded = {name: getattr(begun, name) for name in names if getattr(config.generate, name) == "auto"}
    return replace_options(config, "generate", **recorded)


def thread_count(loaded: loading.LoadedModel) -> int:
    """Return the number of torch threads for a loaded model, by its size and device."""
    return workers.thread_count(
        parameter_count(architecture_of(loaded.pipe).denoiser(loaded.pipe)), loaded.device
    )


def measure_image_bytes(loaded: loading.LoadedModel, config: Config, trial: Sequence[Sample]) -> float | None:
    """Return the bytes of GPU memory that an image takes, by a `trial` triplet; None on a CPU or if out of memory.

    Of two trial batches the second is measured: the first loads kernels.
    """
    if not loaded.device.startswith("cuda"):
        return None
    used_bytes = 0
    try:
        with deterministic(torch.get_num_threads()):
            for _ in range(2):
                torch.cuda.reset_peak_memory_stats(loaded.device)
                before = torch.cuda.memory_allocated(loaded.device)
                generate_batch(loaded.pipe, config, [trial], lambda images: None)
                used_bytes = torch.cuda.max_memory_allocated(loaded.device) - before
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        return None
    finally:
        torch.cuda.empty_cache()
    return used_bytes / len(trial)


def generate_batch(
    pipe: Any,
    config: Config,
    triplets: Sequence[Sequence[Sample]],
    tick: Tick,
    first_id: str = "",
    digests: Mapping[str, str] | None = None,
) -> RowsByKind:
    """Generate the images of some triplets in one batch, with a probe, and return the rows to store by kind of part.

    UserError if all are NaN and the batch begins with `first_id`, the id of the run's first sample, and if a picture
    to start from is not that of `digests`.
    """
    members, size = [sample for triplet in triplets for sample in triplet], len(triplets[0])
    pairs = [
        (start + i, start + j)
        for start in range(0, len(members), size)
        for i, j in combinations(range(size), 2)
    ]

    def count_step(index: int, tensors: dict[str, Any]) -> dict[str, Any]:
        """Add one step to the progress; no tensor is replaced."""
        tick(len(members) / (architecture.planned_steps(pipe) or config.sampler.steps))
        return {}

    capture, prompts = config.capture, [sample.prompt for sample in members]
    towers = TextTowers.from_pipeline(pipe) if capture.pool else None
    groups = [towers.position_groups(one.prompt, indicator_spans(one)) for one in members] if towers else []
    architecture = architecture_of(pipe)
    (system,) = {sample.system_prompt for sample in members}
    probe = Probe(
        pipe,
        **({} if capture.sites == "default" else {"sites": tuple(capture.sites)}),
        pairs=pairs,
        shared_positions=_shared_positions(pipe, members, pairs),
        keep=tuple(capture.keep),
        keep_places=rows.position_sampler(members, capture),
        pool=tuple(capture.pool),
        position_groups={name: [one[name] for one in groups] for name in groups[0]} if groups else None,
        word_maps=capture.words and (capture.definition == "default" or capture.definition),
        # where several encoders read a prompt, or a template stands around it
        prompts=prompts if architecture.transformer else None,
        system_prompt=system,
    )
    seeds, pictures = [one.noise_seed for one in members], picture_arguments(pipe, config, members, digests)
    with probe, use_system_prompt(pipe, architecture.layouts[0], system) as given:
        options = {**call_options(pipe, config), **pictures, **given}
        images, faults = call_pipeline(pipe, prompts, seeds, count_step, **options)
    if members[0].sample_id == first_id and all(fault == NAN for fault in faults):
        dtype = config.generate.dtype  # the others would be no images either
        raise UserError(
            f"{first_id}: expected a finite image, got NaN with {dtype} in all {len(members)} images of the first"
            f" batch: {_NAN[dtype]}"
        )
    pictures = [
        {
            **sample.row(),
            "fault": fault,
            # without numbers there is no picture
            "image": None
            if fault == NAN
            else {"bytes": rows.png_bytes(image), "path": f"{sample.sample_id}.png"},
        }
        for sample, image, fault in zip(members, images, faults)
    ]
    sites = schemas.captures_schema(list(probe.similarity))
    stored = {
        "samples": RowsOfKind(pictures, schemas.SAMPLES),
        "captures": RowsOfKind(rows.capture_rows(members, pairs, probe), sites),
    }
    if capture.words:
        stored["words"] = RowsOfKind(rows.word_rows(members, probe), schemas.WORDS)
    if capture.keep:
        stored["kept"] = RowsOfKind(rows.kept_rows(members, probe, capture), schemas.kept_schema(capture))
    if capture.pool:
        stored["pooled"] = RowsOfKind(rows.pooled_rows(members, probe), schemas.POOLED)
    return stored


def call_options(pipe: Any, config: Config) -> dict[str, Any]:
    """Return the arguments of `call_pipeline` that a resolved configuration sets: sampler settings and image size."""
    names = ("steps", "guidance_scale", "true_cfg_scale", "negative_prompt")
    size, taken = requirements.image_size(pipe, config), inspect.signature(pipe.__call__).parameters
    # image to image of a U-Net has the size of the pictures
    sides = {name: pixels for name, pixels in zip(("height", "width"), size) if name in taken}
    return {name: getattr(config.sampler, name) for name in names} | sides


def call_pipeline(
    pipe: Any,
    prompts: list[str],
    seeds: list[int],
    after_step: Callable[[int, dict[str, Any]], dict[str, Any]],
    *,
    steps: int,
    guidance_scale: float,
    true_cfg_scale: float | None = None,
    negative_prompt: str = "",
    **arguments: Any,
) -> tuple[np.ndarray, list[str | None]]:
    """Return the images (n, height, width, 3) that a pipeline generates, one per prompt and seed, and their faults.

    `after_step` gets the index of each step and its tensors by name, and returns those to replace.
    """
    architecture, last = architecture_of(pipe), dict[str, Any]()

    def callback(pipe: Any, index: int, timestep: Any, tensors: dict[str, Any]) -> dict[str, Any]:
        """Pass a step to `after_step`, and remember its tensors."""
        changed = after_step(index, tensors)
        last.update(tensors | changed)
        return changed

    negative = [negative_prompt] * len(prompts)
    output = pipe(
        prompt=prompts,
        **architecture.call_arguments(pipe, guidance_scale, negative, true_cfg_scale, steps),
        # one generator an image, made on the CPU so that every device starts from the same noise
        generator=[torch.Generator("cpu").manual_seed(seed) for seed in seeds],
        num_inference_steps=steps,
        output_type="np",
        **architecture.step_callback(pipe, callback),
        **arguments,
    )
    images = np.asarray(output.images)
    flagged = getattr(output, "nsfw_content_detected", None)
    return images, find_faults(images, last.get("latents"), flagged)


def _shared_positions(
    pipe: Any, samples: list[Sample], pairs: list[tuple[int, int]]
) -> PairPositions | dict[str, PairPositions] | None:
    """Return the token positions of words shared by each pair of samples, of transformers by text encoder."""
    first = [(list(samples[i].shared_positions), list(samples[j].shared_positions)) for i, j in pairs]
    if not architecture_of(pipe).transformer or not first:
        return first or None
    *others, name = [name for name, part in TEXT_ENCODERS.items() if getattr(pipe, part, None) is not None]
    second = [(samples[i].shared_positions_2 or (), samples[j].shared_positions_2 or ()) for i, j in pairs]
    last = [(list(one), list(other)) for one, other in second] if others else first
    return {**dict.fromkeys(others, first), name: last}
