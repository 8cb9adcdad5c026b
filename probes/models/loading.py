"""Loading a diffusion pipeline: bundled toyworld, hub id, local folder or a single .safetensors or .ckpt file.

Weights come from safetensors, or from pickle only through ``torch.load(weights_only=True)``, which is what
diffusers and transformers do; no code of a model's author is run. The safety checker is left off, since it
blackens images after the fact, and that is recorded.
"""

from __future__ import annotations

import difflib
import inspect
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from typing import TYPE_CHECKING, Any

from hooks.architectures.base import set_steps
from probes.config.generation import Edit
from probes.config.schema import Config
from probes.errors import UserError, first_line
from probes.models import additions, hub, single_file
from probes.models.pretrained import quiet
from probes.models.source import INDEX, SCHEDULER, Source
from probes.models.weights import (
    assemble_pipeline,
    parameter_count,
    pick_device,
    read_network,
    require_finite,
    stored_weights,
    weight_hash,
    weighted_networks,
)
from probes.paths import expand_model
from probes.toyworld import BENCHMARK_MODELS, MODELS, REGISTRY, bundled_folder

if TYPE_CHECKING:
    import torch
    from diffusers import DiffusionPipeline, SchedulerMixin

_LORA = ("pytorch_lora_weights.*", "adapter_config.json")  # as diffusers and PEFT save it
# text encoders trained in bfloat16
_OVERFLOWING = ("T5", "UMT5", "Gemma2", "Qwen2_5_VL", "Qwen3")
SCHEDULERS = {
    "ddim": "DDIMScheduler",
    "ddpm": "DDPMScheduler",
    "dpm": "DPMSolverMultistepScheduler",
    "euler": "EulerDiscreteScheduler",
    "euler_ancestral": "EulerAncestralDiscreteScheduler",
    "heun": "HeunDiscreteScheduler",
    "lms": "LMSDiscreteScheduler",
    "pndm": "PNDMScheduler",
    "unipc": "UniPCMultistepScheduler",
}

_FIELD = "sampler.scheduler"
# interchangeable to diffusers, and not here: one draws noise that no seed fixes, one has noise levels of its own
_EXCEPTIONS = ("DPMSolverSDEScheduler", "EDMEulerScheduler")
# how the model was trained, whatever draws with it
_TRAINED = (
    "num_train_timesteps",
    "beta_start",
    "beta_end",
    "beta_schedule",
    "trained_betas",
    "prediction_type",
)


@dataclass
class LoadedModel:
    """A pipeline ready to generate, its record for ``run.json``, and its scheduler, guidance, device and dtype."""

    pipe: Any
    record: dict[str, Any]
    scheduler: dict[str, Any]
    guidance_scale: float
    device: str
    dtype: str

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields without the pipeline, for pickling: another process loads its own."""
        return {**self.__dict__, "pipe": None}


def resolve(
    name: str, weights: bool = True, *, revision: str | None = None, variant: str | None = None
) -> Source:
    """Return the `Source` (files, settings) of a model by its name: a bundled model, hub id, folder or weights file.

    Without `weights` those of a hub model are not fetched, which is enough to plan. `variant`: the weights of a folder
    or a hub model that are called so, such as ``fp16``; None: full precision, or the one variant that is there.
    """
    source = _find_source(name, revision, variant)
    for place, value, kinds in (("revision", revision, ("hub",)), ("variant", variant, ("hub", "folder"))):
        if value and source.kind not in kinds:
            raise UserError(f"{place}: {name} has none, it is no model of the hub: take {value!r:.60} out")
    if weights and source.kind == "hub":
        hub.fetch(source, revision)
    return source


def resolve_run(config: Config, weights: bool = True, revision: str | None = None) -> Source:
    """Return the `Source` of a configuration's model, with all that it puts into it; weights as `resolve` does."""
    revision = revision or config.revision
    source = resolve(config.model, False, revision=revision, variant=config.variant)
    source = replace(
        additions.put_into(source, config), from_pictures=config.generate.from_images is not None
    )
    if weights and source.kind == "hub":
        hub.fetch(source, revision)
    return source


def _find_source(name: str, revision: str | None, variant: str | None) -> Source:
    """Return the `Source` of a model by its name, as `resolve` does; fetches no weights."""
    if name in MODELS:
        path, bases = bundled_folder(name), tuple(map(bundled_folder, REGISTRY[name].bases))
        return Source(name, "bundled", path, path, metadata.version("triptych"), bases=bases)
    path = expand_model(name, "model")
    if path.is_dir():
        if not (path / INDEX).exists():
            if any(any(path.glob(pattern)) for pattern in _LORA):
                raise single_file.lora_error(name)
            single = "a single component (config.json)" if (path / "config.json").exists() else "nothing else"
            raise UserError(
                f"model {name}: expected a diffusers folder, found no {INDEX} but {single}: check the path"
            )
        source = Source(name, "folder", path, path, variant=variant)
        _ = source.index  # refused here, whatever else is asked of it
        return source
    if path.is_file():
        if path.suffix not in single_file.ENDINGS:
            endings, got = " or ".join(single_file.ENDINGS), path.suffix or "no ending"
            remedy = "give the whole checkpoint as one of these, or the folder of the pipeline"
            if path.suffix.lower() == ".gguf":
                got = f"{got}, a quantized denoiser alone"
                remedy = "name its pipeline as `model`, and this file as quantization.file with quant_backend: gguf"
            raise UserError(f"model {name}: expected {endings}, got {got}: {remedy}")
        return single_file.find_source(name, path)
    if additions.HUB.fullmatch(name):
        return hub.find_source(name, revision, variant)
    close = difflib.get_close_matches(name, MODELS, 1)
    remedy = f"did you mean {close[0]}?" if close else "check the spelling or the path"
    raise UserError(
        f"model {name}: unknown; expected {BENCHMARK_MODELS[0]} or another that `triptych models` lists, a hub id"
        f" (owner/name), folder or .safetensors file, found none of that name: {remedy}"
    )


def meta_pipeline(
    source: Source, scheduler: str | None = None, steps: int | None = None
) -> DiffusionPipeline:
    """Return a model's pipeline on torch's meta device, checked as in `load`; `scheduler` replaces the model's own."""
    return assemble_pipeline(source, source.networks, usable_scheduler(source, scheduler, steps))


def load(
    source: Source,
    *,
    dtype: str = "auto",
    device: str = "auto",
    scheduler: str | None = None,
    steps: int | None = None,
    edit: Edit | None = None,
    offload: str | None = None,
    decoding: Sequence[str] = (),
) -> LoadedModel:
    """Return a model's pipeline with weights and all that is put into it, ready to generate, and its record.

    `scheduler` is a name such as ``ddim`` or a class of diffusers; None: the model's own. Where there is an `edit`, the
    record has it with the hash of the weights as they were, and its ``weight_hash`` is that of the edited model.
    `offload` and `decoding` save memory, as the keys of ``generate:`` say.
    """
    import torch

    place = pick_device(device)
    additions.require_packages(source, device)
    if offload is not None and place.type == "cpu":
        raise offload_error(offload)
    dtype = pick_model_dtype(source, dtype, place)
    architecture, layout, card = source.architecture, source.layout, source.card
    networks, chosen = source.networks, usable_scheduler(source, scheduler, steps)
    variant = None
    if source.kind == "file":
        pipe = single_file.load_pipeline(source)
    elif source.kind == "bundled" and (maker := REGISTRY[source.name].maker):
        from probes.toyworld import pipelines

        with quiet():
            pipe = getattr(pipelines, maker)(source.name, source.path)
    else:
        # of what was stored in half precision a copy in float32 would take twice the memory, and give the same numbers
        stored = dtype if architecture.transformer or source.quantized else None
        networks = {
            name: read_network(source, name, stored, **additions.reading_options(source, name, dtype))
            for name in networks
        }
        pipe = assemble_pipeline(source, networks, chosen)
        _, _, variant = stored_weights(source, layout.denoiser.name)
    if source.added.vae and source.kind in ("file", "bundled"):
        pipe.register_modules(vae=read_network(source, "vae"))
    if source.from_pictures and not isinstance(pipe, layout.pipeline_class(True)):
        pipe = assemble_pipeline(source, {name: getattr(pipe, name) for name in networks}, chosen)
    pipe.scheduler = chosen
    additions.apply(pipe, source)
    require_finite(source, pipe, "float32", "download it again")
    try:
        with quiet():
            # quantized weights have their format; all others were read in theirs, except of what was put in
            numbers = None if source.quantized else getattr(torch, dtype)
            pipe = pipe.to("cpu" if offload else place, numbers)
    except torch.OutOfMemoryError:
        raise UserError(
            f"--device {place}: expected room for the model, found too little: use float16 or another device"
        ) from None
    if dtype != "float32":
        require_finite(source, pipe, dtype, "use --dtype bfloat16 or float32")
    pipe.set_progress_bar_config(disable=True)
    path = os.path.abspath(source.path)
    record = {
        "id": os.path.basename(path) if source.kind in ("folder", "file") else source.name,
        "kind": source.kind,
        "path": path,
        "revision": source.revision,
        "weight_hash": weight_hash(pipe),
        "pipeline": type(pipe).__name__,
        "parameters": parameter_count(*(networks if source.quantized else weighted_networks(pipe)).values()),
        "variant": variant,
        "safety_checker": "off" if getattr(pipe, "safety_checker", None) is None else "on",
        "ships_safety_checker": (source.index.get("safety_checker") or [None])[0] is not None,
        "prediction_type": architecture.prediction_type(pipe.scheduler),
        "decoder_dtype": architecture.decoding_dtype(pipe, dtype),
        "card": {key: value for key, value in card.items() if key != "guidance_scale"},
        **additions.record(source),
    }
    if edit is not None:
        from probes.models import edits

        edited = edits.apply(pipe, edit)
        record["edit"] = {"original_weight_hash": record["weight_hash"], **edited.record}
        record["weight_hash"] = edited.model_hash(weight_hash(pipe))
    additions.save_memory(pipe, place, offload, decoding)
    return LoadedModel(
        pipe, record, scheduler_record(pipe.scheduler), default_guidance(source), str(place), dtype
    )


def offload_error(offload: str) -> UserError:
    """Return the error for weights that are to be kept off a device where there is no GPU."""
    return UserError(
        f"generate.offload: expected a GPU, off which weights are kept, got the CPU: take {offload} out"
    )


def default_guidance(source: Source) -> float:
    """Return the guidance scale in a model's ``triptych.json``, else its pipeline's default; 0 if it takes none."""
    architecture = source.architecture
    if not architecture.takes_guidance(source.denoiser_config):
        return 0.0
    if "guidance_scale" in source.card:
        return float(source.card["guidance_scale"])
    return architecture.default_guidance(source.layout.pipeline_class())


def pick_model_dtype(source: Source, dtype: str, device: torch.device | str) -> str:
    """Return the dtype to generate in, such as ``float32``: `dtype`, or the model's best on a device for ``auto``.

    On a CUDA device it is float16, which takes half the memory and a fraction of the time, or bfloat16 where a text
    encoder overflows in float16; for bundled models float32, in which they were measured.
    """
    kinds = (kind for encoder in source.layout.text_encoders for kind in encoder.classes)
    large = next((kind for kind in kinds if kind.startswith(_OVERFLOWING)), None)
    if large is not None and dtype == "float16":
        raise UserError(
            f"generate.dtype (--dtype): expected bfloat16 or float32 for a model with a {large}, whose activations"
            " exceed float16's 65504, got float16: use bfloat16"
        )
    if dtype != "auto":
        return dtype
    if not str(device).startswith("cuda") or source.kind == "bundled":
        return "float32"
    return "float16" if large is None else "bfloat16"


def scheduler_record(scheduler: SchedulerMixin) -> dict[str, Any]:
    """Return a scheduler's class and settings as ``{"class": ..., "set": {...}, "default": {...}}``.

    Only class and ``set`` identify a run: a new version of diffusers may add settings without altering what an old one
    did.
    """
    config = {key: value for key, value in dict(scheduler.config).items() if not key.startswith("_")}
    plain = json.loads(json.dumps(config, default=str, sort_keys=True))
    default = set(scheduler.config.get("_use_default_values", []))
    return {
        "class": type(scheduler).__name__,
        "set": {key: value for key, value in plain.items() if key not in default},
        "default": {key: value for key, value in plain.items() if key in default},
    }


def usable_scheduler(source: Source, name: str | None = None, steps: int | None = None) -> SchedulerMixin:
    """Return a scheduler, the model's own or by name (`SCHEDULERS`); a `UserError` if unfit for model or `steps`."""
    import diffusers

    architecture, kind = source.architecture, source.index["scheduler"][1]
    config = source.read_json(SCHEDULER)
    with source.readable(SCHEDULER, f"the settings of a scheduler, {kind!s:.60}", "mend it"):
        chosen = getattr(diffusers, kind).from_config(config)
    if name is not None:
        chosen = pick_scheduler(name, chosen)
    cls, predicted = type(chosen).__name__, architecture.prediction_type(chosen)
    missing = [one for one in architecture.scheduler_methods if not callable(getattr(chosen, one, None))]
    if missing:
        why = f"has no {missing[0]}()"
    elif predicted not in architecture.predicts:
        why = f"has the prediction type {predicted!r:.40} and not {', '.join(architecture.predicts)}"
    else:
        try:
            set_steps(type(chosen).from_config(chosen.config), steps or 2)
            return chosen
        except Exception as error:  # damaged settings raise errors of every kind
            why = f"fails with `{first_line(error)}`"
            if steps is not None:
                expected = f"expected what {cls} can do, got {steps}, which {why}"
                raise UserError(f"sampler.steps: {expected}: change it") from None
    place = f"model {source.name}: {SCHEDULER}" if name is None else _FIELD
    remedy = f"use one of {', '.join(SCHEDULERS)}" if "epsilon" in architecture.predicts else "mend it"
    expected = f"expected a scheduler that can drive {architecture.name}, got {cls}, which {why}"
    raise UserError(f"{place}: {expected}: {remedy}")


def pick_scheduler(name: str, current: SchedulerMixin) -> SchedulerMixin:
    """Return a scheduler by name, with the current one's settings; a `UserError` if they are not exchangeable."""
    compatible = {one.__name__: one for one in current.compatibles if one.__name__ not in _EXCEPTIONS}
    cls = compatible.get(SCHEDULERS.get(name.lower(), name))
    if cls is None:
        names = [key for key, value in SCHEDULERS.items() if value in compatible] or [*compatible]
        close = difflib.get_close_matches(name.lower(), names, 1)
        remedy = f"did you mean {close[0]}?" if close else "choose one of them"
        expected = (
            f"expected one of {', '.join(names)}, which diffusers exchanges for {type(current).__name__}"
        )
        raise UserError(f"{_FIELD}: {expected}, got {name!r:.60}: {remedy}")
    # what the model's scheduler leaves at its default would give way to the other's default
    parameters = inspect.signature(cls.__init__).parameters
    trained = {key: current.config[key] for key in _TRAINED if key in current.config and key in parameters}
    if cls.__name__ == "PNDMScheduler":  # Stable Diffusion's leaves the Runge-Kutta steps out
        trained["skip_prk_steps"] = True
    return cls.from_config(current.config, **trained)
