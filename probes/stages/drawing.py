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
from hooks.prompt.given import given_system_prompt, prompt_tokenizers
from hooks.prompt.spans import GROUPS, groups_around
from probes.config.schema import Config
from probes.errors import UserError
from probes.execution.loop import Piece, RowsOfKind
from probes.execution.processes import Tick
from probes.execution.workers import BatchSize, no_room
from probes.models import loading, requirements
from probes.models.weights import deterministic
from probes.prompts.sample import Sample, TextTowers, indicator_spans
from probes.runs import record, rows, schemas
from probes.runs.images import NAN, find_faults

# numbers beyond float16's 65504 become infinite, bfloat16 keeps 8 bits of them; the model's weights are finite
_NAN = {
    "float16": "use --dtype bfloat16 or float32",
    "bfloat16": "use --dtype float32",
    "float32": "lower --guidance-scale, choose another --scheduler, or check the model",
}


@dataclass(frozen=True)
class Drawing:
    """Draws batches (`probes.execution.processes.Work`) with the model that is loaded; a helper loads its own."""

    source: loading.Source
    config: Config
    device: str
    weights: str
    threads: int
    first: str  # sample of the run
    files: Mapping[str, str]  # of the model's description, with their checksums
    loaded: loading.LoadedModel | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "loaded": None}

    @contextmanager
    def opened(self) -> Iterator[Callable[[list[Sample], Tick], Piece]]:
        """Hold the model, ready to draw; gives the function that draws a batch."""
        generate, members = self.config.generate, len(self.config.indicators)
        smallest = f"the {members} images of one triplet and seed"
        size = BatchSize("generate", generate.batch_triplets, "triplets", 1, smallest, generate.dtype)
        with deterministic(self.threads):
            loaded = self.loaded or load_again(
                self.source, self.config, self.device, self.weights, self.files
            )
            yield partial(_fitting, size, loaded.pipe, self.config, self.first)


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


def load_again(
    source: loading.Source, config: Config, device: str, weights: str, files: Mapping[str, str] | None = None
) -> loading.LoadedModel:
    """Load the model that a run began with, known by its `weight_hash`; on another machine it is found by its name."""
    if not source.path.exists():
        named = source.name.partition("@")[0]
        found = loading.resolve(named, revision=source.revision, variant=source.variant)
        source = replace(found, name=source.name)
    name = record.differing(files or {}, source.files) if files else None
    if name is not None:
        raise UserError(
            f"model {source.name}: expected {name.removeprefix('model/')} to be the one that the run began with, found"
            " another: put the same files on all machines"
        )
    loaded = load(source, config, device)
    if loaded.record["weight_hash"] != weights:
        raise UserError(
            f"model {source.name}: expected the weights that the run began with, found others:"
            " put them back, or choose another --out"
        )
    return loaded


def _fitting(
    size: BatchSize, pipe: Any, config: Config, first: str, members: list[Sample], tick: Tick
) -> Piece:
    """Draw whole draws, at once or in as many batches as it takes for each to find room on the device."""
    images = len(config.indicators)

    def drawn(draws: int) -> Piece:
        starts = range(0, len(members), draws * images)
        made = [
            _batch(pipe, config, first, members[start : start + draws * images], tick) for start in starts
        ]
        halved = draws if draws < config.generate.batch_triplets else None
        return {
            kind: RowsOfKind([row for one in made for row in one[kind].rows], last.schema, halved)
            for kind, last in made[-1].items()
        }

    return size.fit(drawn, len(members) // images)


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
            "image": None if fault == NAN else {"bytes": rows.png(image), "path": f"{sample.sample_id}.png"},
        }
        for sample, image, fault in zip(members, images, faults)
    ]
    sites = schemas.captures_schema(list(probe.similarity))
    made = {
        "samples": RowsOfKind(pictures, schemas.SAMPLES),
        "captures": RowsOfKind(rows.capture_rows(members, compared, probe), sites),
    }
    if config.capture.words:
        made["words"] = RowsOfKind(rows.word_rows(members, probe), schemas.WORDS)
    if config.capture.keep:
        made["kept"] = RowsOfKind(
            rows.kept_rows(members, probe, config.capture), schemas.kept_schema(config.capture)
        )
    if config.capture.pool:
        made["pooled"] = RowsOfKind(rows.pooled_rows(members, probe), schemas.POOLED)
    return made


def image_bytes(loaded: loading.LoadedModel, config: Config, samples: Sequence[Sample]) -> float | None:
    """Memory that an image takes on a GPU, by the second of two batches of a triplet (the first brings kernels along).

    None on a CPU, and where even these find no room.
    """
    if not loaded.device.startswith("cuda"):
        return None
    first = [one for one in samples if (one.triplet, one.seed) == (samples[0].triplet, samples[0].seed)]
    taken = 0
    try:
        with deterministic(torch.get_num_threads()):
            for _ in range(2):
                torch.cuda.reset_peak_memory_stats(loaded.device)
                before = torch.cuda.memory_allocated(loaded.device)
                draw_batch(loaded.pipe, config, first)
                taken = torch.cuda.max_memory_allocated(loaded.device) - before
    except (RuntimeError, MemoryError) as error:
        if not no_room(error):
            raise
        return None
    finally:
        torch.cuda.empty_cache()
    return taken / len(first)


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
    (system,) = {sample.system_prompt for sample in members}
    probe = Probe(
        pipe,
        **({} if capture.sites == "default" else {"sites": tuple(capture.sites)}),
        pairs=compared,
        shared_positions=_shared(pipe, members, compared) or None,
        keep=tuple(capture.keep),
        keep_places=rows.place_chooser(members, capture),
        pool=tuple(capture.pool),
        position_groups=_position_groups(pipe, members) if capture.pool else None,
        word_maps=capture.words and (capture.definition == "default" or capture.definition),
        # where several encoders read a prompt, or a template stands around it
        prompts=[sample.prompt for sample in members] if architecture.transformer else None,
        system_prompt=system,
    )
    sampler = config.sampler
    height, width = requirements.image_size(pipe, config)
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
    return images, find_faults(images, last.get("latents"), flagged), probe


def _position_groups(pipe: Any, members: list[Sample]) -> Any:
    """Token positions around the word of each prompt, by text encoder where their tokens differ."""
    architecture = architecture_of(pipe)
    if not architecture.transformer:
        return [
            groups_around(sample.indicator_positions, len(sample.tokens), pipe.tokenizer.model_max_length)
            for sample in members
        ]
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
    if all(fault == NAN for fault in faults):
        raise UserError(
            f"{members[0].sample_id}: expected a finite image, got NaN with {dtype} in all {len(members)} images"
            f" of the first batch: {_NAN[dtype]}"
        )


def _pairs(members: list[Sample], names: list[str]) -> list[tuple[int, int]]:
    """Rows of the batch to compare, draw by draw."""
    starts = range(0, len(members), len(names))
    return [(start + i, start + j) for start in starts for i, j in combinations(range(len(names)), 2)]
