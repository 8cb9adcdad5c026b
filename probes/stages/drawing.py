"""A batch of images drawn with the probe around the pipeline, as rows of every kind; and the model that draws it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
import torch

from hooks import Probe
from hooks.architectures.registry import architecture_of
from hooks.architectures.text_encoders import TEXT_ENCODERS
from hooks.prompt.given import use_system_prompt
from probes.config.schema import Config
from probes.errors import UserError
from probes.execution import workers
from probes.execution.loop import Piece, RowsOfKind
from probes.execution.processes import Tick
from probes.execution.workers import BatchSize, auto_batch, no_room
from probes.models import loading, requirements
from probes.models.weights import deterministic, parameters
from probes.prompts.sample import Sample, TextTowers, indicator_spans
from probes.runs import record, rows, schemas
from probes.runs.images import NAN, find_faults
from probes.runs.run import Run

# numbers beyond float16's 65504 become infinite, bfloat16 keeps 8 bits of them; the model's weights are finite
_NAN = {
    "float16": "use --dtype bfloat16 or float32",
    "bfloat16": "use --dtype float32",
    "float32": "lower --guidance-scale, choose another --scheduler, or check the model",
}


def cut(items: Sequence[Any], size: int) -> list[list[Any]]:
    """Pieces of so many items, the last of those that are left."""
    return [list(items[start : start + size]) for start in range(0, len(items), size)]


def with_options(config: Config, section: str, **options: Any) -> Config:
    """A configuration with options of a section put over it."""
    return config.model_copy(update={section: getattr(config, section).model_copy(update=options)})


@dataclass(frozen=True)
class Drawing:
    """Draws batches (`probes.execution.processes.Work`) with the model that is loaded; a helper loads its own."""

    source: loading.Source
    config: Config
    loaded: loading.LoadedModel
    threads: int
    fields: Mapping[str, Any]  # of the run's parts: checksums of the model's weights and files
    size: BatchSize
    cut: Callable[[Any, int], Sequence[Any]]  # a piece of a part into batches of that size
    draw: Callable[[Any, Config, Any, Tick], Piece]  # a batch with a pipeline

    @property
    def device(self) -> str:
        """The device of torch that it draws on."""
        return self.loaded.device

    @contextmanager
    def opened(self) -> Iterator[Callable[[Any, Tick], Piece]]:
        """Hold the model, ready to draw; gives the function that draws a piece of a part."""
        loaded = self.loaded
        with deterministic(self.threads):
            if loaded.pipe is None:
                loaded = load(self.source, self.config, loaded.device, self.fields)
            yield partial(self._fitting, replace(self.size), loaded.pipe)

    def _fitting(self, size: BatchSize, pipe: Any, piece: Any, tick: Tick) -> Piece:
        """Draw a piece, at once or in as many batches as it takes for each to find room on the device."""

        def drawn(number: int) -> Piece:
            made = [self.draw(pipe, self.config, batch, tick) for batch in self.cut(piece, number)]
            halved = number if number < self.size.size else None
            return {
                kind: RowsOfKind([row for one in made for row in one[kind].rows], last.schema, halved)
                for kind, last in made[-1].items()
            }

        return size.fit(drawn, len(piece))


def load(
    source: loading.Source, config: Config, device: str, fields: Mapping[str, Any] | None = None
) -> loading.LoadedModel:
    """Load the model of a run, ready to draw as its configuration says; the one that it began with where `fields` say.

    These are of its parts. On another machine it is found by its name.
    """
    if not source.path.exists():
        named = source.name.partition("@")[0]
        found = loading.resolve(named, revision=source.revision, variant=source.variant)
        source = replace(found, name=source.name)
    files = {name: value for name, value in (fields or source.files).items() if name.startswith("model/")}
    if name := record.differing(files, source.files):
        raise UserError(
            f"model {source.name}: expected {name.removeprefix('model/')} to be the one that the run began with, found"
            " another: put the same files on all machines"
        )
    sampler, dtype = config.sampler, config.generate.dtype
    named = {"scheduler": sampler.scheduler, "steps": sampler.steps, "edit": config.edit}
    loaded = loading.load(source, dtype=dtype, device=device, **named)
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
        """Put numbers where the configuration leaves the choice to the model or the machine."""
        batch, scale = config.generate.batch_triplets, config.sampler.guidance_scale
        scale = self.loaded.guidance_scale if scale is None else float(scale)
        return with_options(
            with_options(config, "sampler", guidance_scale=scale),
            "generate",
            batch_triplets=self.batch_triplets if batch == "auto" else batch,
            device=torch.device(self.loaded.device).type,
            dtype=self.loaded.dtype,
        )


def resolve_settings(source: loading.Source, config: Config, first: Sequence[Sample]) -> ResolvedSettings:
    """Load the model of a run, and return what follows from it; `first`: the images of one triplet."""
    loaded = load(source, config, config.generate.device)
    on_gpu = loaded.device.startswith("cuda")
    name = torch.cuda.get_device_name(torch.device(loaded.device)) if on_gpu else "CPU"
    settings = ResolvedSettings(loaded, name, threads(loaded))
    if config.generate.batch_triplets == "auto":
        measured = image_bytes(loaded, settings.apply_to(config), first)
        settings.image_bytes = measured
        settings.batch_triplets = auto_batch(loaded.pipe, loaded.device, config, measured)
    return settings


def keep_begun_settings(config: Config, run: Run) -> Config:
    """Draw in the number format and with the batches with which a run was begun, where the configuration says none."""
    begun, names = run.config.generate, ("dtype", "batch_triplets")
    left = {name: getattr(begun, name) for name in names if getattr(config.generate, name) == "auto"}
    return with_options(config, "generate", **left)


def threads(loaded: loading.LoadedModel) -> int:
    """Threads that torch is given for a model that is loaded."""
    return workers.threads(parameters(architecture_of(loaded.pipe).denoiser(loaded.pipe)), loaded.device)


def image_bytes(loaded: loading.LoadedModel, config: Config, first: Sequence[Sample]) -> float | None:
    """Memory that an image takes on a GPU, by the second of two batches of a triplet (the first brings kernels along).

    None on a CPU, and where even these find no room.
    """
    if not loaded.device.startswith("cuda"):
        return None
    taken = 0
    try:
        with deterministic(torch.get_num_threads()):
            for _ in range(2):
                torch.cuda.reset_peak_memory_stats(loaded.device)
                before = torch.cuda.memory_allocated(loaded.device)
                draw_batch(loaded.pipe, config, [first], lambda images: None)
                taken = torch.cuda.max_memory_allocated(loaded.device) - before
    except (RuntimeError, MemoryError) as error:
        if not no_room(error):
            raise
        return None
    finally:
        torch.cuda.empty_cache()
    return taken / len(first)


def draw_batch(
    pipe: Any, config: Config, draws: Sequence[Sequence[Sample]], tick: Tick, first: str = ""
) -> Piece:
    """Draw some draws at once and give the rows of each kind; `first` is the sample that a run begins with."""
    members, size = [sample for draw in draws for sample in draw], len(draws[0])
    compared = [
        (start + i, start + j)
        for start in range(0, len(members), size)
        for i, j in combinations(range(size), 2)
    ]

    def stepped(index: int, kwargs: dict[str, Any]) -> dict[str, Any]:
        tick(len(members) / config.sampler.steps)
        return {}

    capture, prompts = config.capture, [sample.prompt for sample in members]
    towers = TextTowers.of(pipe) if capture.pool else None
    groups = [towers.groups(one.prompt, indicator_spans(one)) for one in members] if towers else []
    architecture = architecture_of(pipe)
    (system,) = {sample.system_prompt for sample in members}
    probe = Probe(
        pipe,
        **({} if capture.sites == "default" else {"sites": tuple(capture.sites)}),
        pairs=compared,
        shared_positions=_shared(pipe, members, compared),
        keep=tuple(capture.keep),
        keep_places=rows.place_chooser(members, capture),
        pool=tuple(capture.pool),
        position_groups={name: [one[name] for one in groups] for name in groups[0]} if groups else None,
        word_maps=capture.words and (capture.definition == "default" or capture.definition),
        # where several encoders read a prompt, or a template stands around it
        prompts=prompts if architecture.transformer else None,
        system_prompt=system,
    )
    seeds = [sample.noise_seed for sample in members]
    with probe, use_system_prompt(pipe, architecture.layouts[0], system) as given:
        images, faults = call(pipe, prompts, seeds, stepped, **call_options(pipe, config), **given)
    if members[0].sample_id == first and all(fault == NAN for fault in faults):
        dtype = config.generate.dtype  # the others would be no images either
        raise UserError(
            f"{first}: expected a finite image, got NaN with {dtype} in all {len(members)} images of the first batch:"
            f" {_NAN[dtype]}"
        )
    pictures = [
        {
            **sample.row(),
            "fault": fault,
            # without numbers there is no picture
            "image": None if fault == NAN else {"bytes": rows.png(image), "path": f"{sample.sample_id}.png"},
        }
        for sample, image, fault in zip(members, images, faults)
    ]
    sites = schemas.captures_schema(list(probe.similarity))
    made = {
        "samples": RowsOfKind(pictures, schemas.SAMPLES),
        "captures": RowsOfKind(rows.capture_rows(members, compared, probe), sites),
    }
    if capture.words:
        made["words"] = RowsOfKind(rows.word_rows(members, probe), schemas.WORDS)
    if capture.keep:
        made["kept"] = RowsOfKind(rows.kept_rows(members, probe, capture), schemas.kept_schema(capture))
    if capture.pool:
        made["pooled"] = RowsOfKind(rows.pooled_rows(members, probe), schemas.POOLED)
    return made


def call_options(pipe: Any, config: Config) -> dict[str, Any]:
    """The arguments of `call` that a configuration, whose settings are numbers, gives."""
    names = ("steps", "guidance_scale", "true_cfg_scale", "negative_prompt")
    height, width = requirements.image_size(pipe, config)
    return {name: getattr(config.sampler, name) for name in names} | {"height": height, "width": width}


def call(
    pipe: Any,
    prompts: list[str],
    seeds: list[int],
    step: Callable[[int, dict[str, Any]], dict[str, Any]],
    *,
    steps: int,
    guidance_scale: float,
    true_cfg_scale: float | None = None,
    negative_prompt: str = "",
    **more: Any,
) -> tuple[np.ndarray, list[str | None]]:
    """Images of prompts, and what is at fault with each; `step` gives tensors that replace others after a step."""
    architecture, last = architecture_of(pipe), dict[str, Any]()

    def stepped(pipe: Any, index: int, timestep: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
        changed = step(index, kwargs)
        last.update(kwargs | changed)
        return changed

    negative = [negative_prompt] * len(prompts)
    output = pipe(
        prompt=prompts,
        **architecture.call_arguments(pipe, guidance_scale, negative, true_cfg_scale),
        # one generator an image, made on the CPU so that every device starts from the same noise
        generator=[torch.Generator("cpu").manual_seed(seed) for seed in seeds],
        num_inference_steps=steps,
        output_type="np",
        **architecture.step_callback(pipe, stepped),
        **more,
    )
    images = np.asarray(output.images)
    flagged = getattr(output, "nsfw_content_detected", None)
    return images, find_faults(images, last.get("latents"), flagged)


def _shared(pipe: Any, members: list[Sample], compared: list[tuple[int, int]]) -> Any:
    """Aligned token positions of the words that each pair shares, by text encoder where their tokens differ."""
    first = [(list(members[i].shared_positions), list(members[j].shared_positions)) for i, j in compared]
    if not architecture_of(pipe).transformer or not first:
        return first or None
    *others, name = [name for name, part in TEXT_ENCODERS.items() if getattr(pipe, part, None) is not None]
    second = [(members[i].shared_positions_2 or (), members[j].shared_positions_2 or ()) for i, j in compared]
    last = [(list(one), list(other)) for one, other in second] if others else first
    return {**dict.fromkeys(others, first), name: last}
