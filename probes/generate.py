"""The second stage: draw the images and keep what the probe saw, part by part.

A *draw* is a triplet with one seed: its members share every random number, because each image has a
generator of its own and all of a draw are seeded alike. A batch holds whole draws, a part holds whole
batches, and how a part is cut into batches is fixed when the run begins. So a part's content depends on
nothing but its identity, and a run that was interrupted goes on at the first part that is missing and ends
with the same bytes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from time import monotonic
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

from hooks import Probe
from probes import feasible, identity, model_files, models, parts, rows, rundir
from probes.config import Config
from probes.errors import UserError
from probes.prompts.plan import Sample, pairs
from probes.store import Run

# Images of 64x64 latents that one batch may hold. On a CPU core, with the bundled model, batches of 30 images of
# 16x16 latents are some 5 % faster than batches of 15 and take twice the memory. The bytes an image takes on a GPU
# (float32, activations and what the probe compares) are assumed, on the safe side; they were not measured.
_CPU_IMAGES = 1.0
_GPU_BYTES_PER_IMAGE = 2.5e9
_REFERENCE_AREA = 64 * 64
_SMALL = 50_000_000  # parameters of a U-Net that one thread serves best

# numbers beyond float16's 65504 become infinite, bfloat16 keeps 8 bits of them; the model's weights are finite
_NAN = {
    "float16": "use --dtype bfloat16 or float32",
    "bfloat16": "use --dtype float32",
    "float32": "lower --guidance-scale, choose another --scheduler, or check the model",
}


@dataclass(frozen=True)
class Job:
    """What every part of a run has in common."""

    loaded: models.Loaded
    config: Config
    names: list[str]
    fields: dict[str, Any]


def generate(
    run: Run,
    config: Config,
    samples: Sequence[Sample],
    source: models.Source,
    *,
    passed: dict[str, Any] | None = None,
    text: str | None = None,
    overwrite: bool = False,
    progress: bool = True,
) -> None:
    """Draw every image of the plan that the run does not hold yet.

    Parameters
    ----------
    run
        The run directory, held by :func:`probes.rundir.claim`.
    config, samples, source
        The configuration, its plan (:func:`probes.prompts.plan.plan`) and its model
        (:func:`probes.models.resolve`).
    passed, text
        The configuration as it was passed, for ``run.json`` and the copy of ``triplets.yaml``.
    overwrite
        Remove what the directory holds, once the model is loaded and the work can begin.
    progress
        Show a progress bar with the time left.

    Raises
    ------
    UserError
        The directory holds another run, a part is damaged, the disk is full, or the model gives no finite
        image.
    """
    began = monotonic()
    sampler = config.sampler
    loaded = models.load(
        source,
        dtype=config.generate.dtype,
        device=config.generate.device,
        scheduler=sampler.scheduler,
        steps=sampler.steps,
    )
    feasible.check_pipeline(loaded.pipe, config, loaded.guidance_scale)
    if overwrite:
        rundir.clear(run)
    names = list(config.indicators)
    config = _settle(config, loaded, run)
    rundir.require_same(run, config.resolved())
    job = Job(loaded, config, names, _fields(config, loaded, source))
    before = run.meta.get("part_fields")
    if before is not None and before != job.fields:
        name = identity.differing(before, job.fields)
        old, new = before.get(name), job.fields.get(name)
        if name == "model":
            there = run.meta["model"]["id"]
            old, new = f"{there} (weights {str(old)[:12]})", f"{source.name} (weights {new[:12]})"
        raise rundir.another_run(run, name, old, new)
    draws = [list(group) for _, group in groupby(samples, key=lambda sample: (sample.triplet, sample.seed))]
    chunks = _cut(draws, config.generate.part_triplets)
    todo = [index for index, chunk in enumerate(chunks) if not _finished(run, job, index, chunk)]
    rundir.record(
        run,
        config,
        passed or {},
        text,
        "planned",
        model=loaded.record,
        scheduler=loaded.scheduler,
        part_fields=job.fields,
        device=_device(loaded),
        parts=len(chunks),
        images=len(samples),
    )
    left = sum(len(draw) for index in todo for draw in chunks[index])
    with _steady(loaded.pipe), _bar(len(samples), len(samples) - left, progress and bool(todo)) as bar:
        for index in todo:
            _part(run, job, index, chunks[index], bar)
    rundir.reached(run, "generated", monotonic() - began)


def _settle(config: Config, loaded: models.Loaded, run: Run) -> Config:
    """Put numbers where the configuration leaves the choice to the model or the machine."""
    there = run.config if run.meta else {}
    batch = config.generate.batch_triplets
    if batch == "auto":
        batch = there.get("generate", {}).get("batch_triplets", "auto")
    if batch == "auto":
        batch = auto_batch(loaded, len(config.indicators), config)
    guidance = config.sampler.guidance_scale
    return config.model_copy(
        update={
            "sampler": config.sampler.model_copy(
                update={"guidance_scale": loaded.guidance_scale if guidance is None else float(guidance)}
            ),
            "generate": config.generate.model_copy(
                update={"batch_triplets": batch, "device": torch.device(loaded.device).type}
            ),
        }
    )


def auto_batch(loaded: models.Loaded, members: int, config: Config) -> int:
    """Draws per batch that the device holds comfortably, at least one and at most a part.

    On a CPU the batch is about as large as one image of 64x64 latents; on a GPU half of the free memory is
    used.
    """
    height, width = image_size(loaded.pipe, config)
    scale = loaded.pipe.vae_scale_factor
    share = (height // scale) * (width // scale) / _REFERENCE_AREA
    images = _CPU_IMAGES / share
    if loaded.device.startswith("cuda"):
        free, _ = torch.cuda.mem_get_info(torch.device(loaded.device))
        images = 0.5 * free / (_GPU_BYTES_PER_IMAGE * share)
    return max(1, min(math.floor(images / members), config.generate.part_triplets))


def image_size(pipe: Any, config: Config) -> tuple[int, int]:
    """Height and width of the images in pixels."""
    size = pipe.unet.config.sample_size
    height, width = (size, size) if isinstance(size, int) else size
    scale = pipe.vae_scale_factor
    return config.sampler.height or height * scale, config.sampler.width or width * scale


def _fields(config: Config, loaded: models.Loaded, source: models.Source) -> dict[str, Any]:
    """Every field that alters the content of any part; a part adds its own prompts and seeds."""
    return {
        "model": loaded.record["weight_hash"],
        **(model_files.files(source) or model_files.of_pipeline(loaded.pipe)),
        **identity.part_fields(config.resolved()),
        "sampler.scheduler": [loaded.scheduler["class"], loaded.scheduler["set"]],
    }


def _identity(job: Job, index: int, chunk: list[list[Sample]]) -> dict[str, Any]:
    first = [draw[0] for draw in chunk]
    own = {
        "prompts": list(dict.fromkeys(sample.prompt for draw in chunk for sample in draw)),
        "seeds": [[sample.prompt_id, sample.triplet, sample.seed, sample.noise_seed] for sample in first],
        "tokens": parts.digest(
            repr([(s.tokens, s.word_positions, s.shared_positions) for d in chunk for s in d])
        ),
    }
    return parts.identity(index, job.fields | own)


def _kinds(config: Config) -> list[str]:
    """The kinds of part in the order they are written: a part is finished when its samples are there."""
    return [
        *(["words"] if config.capture.words else []),
        *(["kept"] if config.capture.keep else []),
        "captures",
        "samples",
    ]


def _finished(run: Run, job: Job, index: int, chunk: list[list[Sample]]) -> bool:
    paths = [run.part_path(kind, index) for kind in _kinds(job.config)]
    wanted = _identity(job, index, chunk)
    for path in paths:
        if path.exists():
            found = parts.read_identity(path)
            if found.get("hash") != wanted["hash"]:
                old, new = found.get("fields", {}), wanted["fields"]
                name = identity.differing(old, new) or "format"
                error = rundir.another_run(run, name, old.get(name), new.get(name))
                raise UserError(f"{path.name} of {error}")
            parts.read_part(path)
    return all(path.exists() for path in paths)


def _part(run: Run, job: Job, index: int, chunk: list[list[Sample]], bar: tqdm) -> None:
    """Draw one part and write its files, the samples last."""
    found: dict[str, list[dict[str, Any]]] = {"samples": [], "captures": [], "words": [], "kept": []}
    sites: list[str] = []
    for batch in _cut(chunk, job.config.generate.batch_triplets):
        members = [sample for draw in batch for sample in draw]
        images, probe = _draw(job, members, bar)
        sites = list(probe.similarity)
        found["samples"] += [
            {**sample.row(), "image": {"bytes": rows.png(image), "path": f"{sample.sample_id}.png"}}
            for sample, image in zip(members, images)
        ]
        found["captures"] += rows.captures(members, _pairs(job, members), probe)
        if job.config.capture.words:
            found["words"] += rows.words(members, probe)
        if job.config.capture.keep:
            found["kept"] += rows.kept(members, probe)
    schemas = {"samples": parts.SAMPLES, "words": parts.WORDS, "kept": parts.KEPT}
    schemas["captures"] = parts.captures_schema(sites)
    ident = _identity(job, index, chunk)
    for kind in _kinds(job.config):
        parts.write_part(run.part_path(kind, index), found[kind], schemas[kind], ident)


def _draw(job: Job, members: list[Sample], bar: tqdm) -> tuple[np.ndarray, Probe]:
    """One batch through the pipeline with the probe around it."""
    config, pipe = job.config, job.loaded.pipe
    step = len(members) / config.sampler.steps

    def tick(pipe: Any, index: int, timestep: Any, kwargs: dict) -> dict:
        bar.update(step)
        return {}

    compared = _pairs(job, members)
    capture = config.capture
    probe = Probe(
        pipe,
        **({} if capture.sites == "default" else {"sites": tuple(capture.sites)}),
        pairs=compared,
        shared_positions=[
            (list(members[i].shared_positions), list(members[j].shared_positions)) for i, j in compared
        ],
        keep=tuple(capture.keep),
        word_maps=capture.definition if capture.words else False,
    )
    negative = config.sampler.negative_prompt
    with probe, _fits(members):
        output = pipe(
            prompt=[sample.prompt for sample in members],
            # SDXL tells an empty negative prompt from none
            negative_prompt=[negative] * len(members) if negative else None,
            # one generator an image, made on the CPU so that every device starts from the same noise
            generator=[torch.Generator("cpu").manual_seed(sample.noise_seed) for sample in members],
            num_inference_steps=config.sampler.steps,
            guidance_scale=config.sampler.guidance_scale,
            height=config.sampler.height,
            width=config.sampler.width,
            output_type="np",
            callback_on_step_end=tick,
        )
    images = np.asarray(output.images)
    if not np.isfinite(images).all():
        raise UserError(
            f"{members[0].sample_id}: expected a finite image, got NaN with {config.generate.dtype}:"
            f" {_NAN[config.generate.dtype]}"
        )
    return images, probe


def _cut(items: Sequence[Any], size: int) -> list[list[Any]]:
    return [list(items[start : start + size]) for start in range(0, len(items), size)]


def _pairs(job: Job, members: list[Sample]) -> list[tuple[int, int]]:
    """Rows of the batch to compare, draw by draw."""
    starts = range(0, len(members), len(job.names))
    return [(start + i, start + j) for start in starts for i, j in pairs(job.names)]


def _bar(total: int, done: int, show: bool) -> tqdm:
    layout = "{desc}: {percentage:3.0f}%|{bar}| {n:.0f}/{total:.0f} images [{elapsed}, {remaining} left]"
    return tqdm(
        total=total, initial=done, desc="generate", disable=not show, bar_format=layout, mininterval=0.5
    )


@contextmanager
def _fits(members: list[Sample]) -> Iterator[None]:
    try:
        yield
    except torch.OutOfMemoryError:
        raise UserError(
            f"{members[0].sample_id}: expected room on the device for a batch of {len(members)} images,"
            " found too little: use a smaller --batch-triplets (another --out) or --dtype float16"
        ) from None


@contextmanager
def _steady(pipe: Any) -> Iterator[None]:
    """The same input gives the same bits: deterministic kernels, no search for the fastest.

    On a CPU a small U-Net is given one thread: on a busy machine several wait for one another for minutes.
    """
    cudnn = torch.backends.cudnn
    before = cudnn.deterministic, cudnn.benchmark, torch.get_num_threads()
    cudnn.deterministic, cudnn.benchmark = True, False
    torch.set_num_threads(_threads(pipe))
    try:
        yield
    finally:
        cudnn.deterministic, cudnn.benchmark = before[:2]
        torch.set_num_threads(before[2])


def _threads(pipe: Any) -> int:
    small = sum(parameter.numel() for parameter in pipe.unet.parameters()) < _SMALL
    return 1 if small and pipe.device.type == "cpu" else torch.get_num_threads()


def _device(loaded: models.Loaded) -> dict[str, Any]:
    cuda = loaded.device.startswith("cuda")
    name = torch.cuda.get_device_name(torch.device(loaded.device)) if cuda else "CPU"
    return {"name": name, "torch": loaded.device, "threads": _threads(loaded.pipe)}
