"""Loading a diffusion pipeline: bundled toyworld, hub id, local folder or a single .safetensors or .ckpt file.

Weights come from safetensors, or from pickle only through ``torch.load(weights_only=True)``, which is what
diffusers and transformers do; no code of a model's author is run. The safety checker is left off, since it
blackens images after the fact, and that is recorded.
"""

from __future__ import annotations

import contextlib
import difflib
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from hooks.architectures.layout import Layout
from hooks.errors import HookError
from hooks.prompt.given import prompt_tokenizers
from probes.config.edit_options import Edit
from probes.errors import UserError, first_line
from probes.json_text import parse_json
from probes.models import description, edits, hub, single_file, weight_files
from probes.models.description import INDEX, Source
from probes.models.devices import pick_device, pick_dtype
from probes.models.pretrained import quiet
from probes.models.schedulers import build_scheduler, pick_scheduler, require_usable, scheduler_record
from probes.models.source import CARD
from probes.models.tokenizers import tokenizer
from probes.models.weights import modules, read_pipeline, require_finite, weight_hash
from probes.paths import expand_model
from probes.runs.recorded_paths import name_of
from probes.toyworld import BENCHMARK_MODELS, MODELS, REGISTRY, SHARED, WEIGHTS, bundled_folder

_LORA = ("pytorch_lora_weights.*", "adapter_config.json")  # as diffusers and PEFT save it
SCHEDULER = "scheduler/scheduler_config.json"
# text encoders trained in bfloat16
_OVERFLOWING = ("T5", "UMT5", "Gemma2", "Qwen2_5_VL", "Qwen3")


@dataclass
class LoadedModel:
    """A pipeline ready to draw, and what ``run.json`` keeps about it.

    `token_limit` is the most tokens that the text encoders take, start and end included.
    """

    pipe: Any
    record: dict[str, Any]
    scheduler: dict[str, Any]
    guidance_scale: float
    device: str = "cpu"
    dtype: str = "float32"
    tokenizers: list[Any] = field(default_factory=list)
    token_limit: int = 0


def resolve(
    name: str, weights: bool = True, *, revision: str | None = None, variant: str | None = None
) -> Source:
    """Find a model by its name: ``toyworld…``, a hub id, a folder, a ``.safetensors`` or ``.ckpt`` file.

    Without `weights` those of a hub model are not fetched, which is enough to plan. `variant`: the weights of a folder
    or a hub model that are called so, such as ``fp16``; None: full precision, or the one variant that is there.
    """
    source = _find(name, weights, revision, variant)
    for place, value, kinds in (("revision", revision, ("hub",)), ("variant", variant, ("hub", "folder"))):
        if value and source.kind not in kinds:
            raise UserError(f"{place}: {name} has none, it is no model of the hub: take {value!r:.60} out")
    return source


def _find(name: str, weights: bool, revision: str | None, variant: str | None) -> Source:
    if name in MODELS:
        return _bundled(name)
    path = expand_model(name, "model")
    if path.is_dir():
        if not (path / INDEX).exists():
            if any(any(path.glob(pattern)) for pattern in _LORA):
                raise single_file.lora_error(name)
            raise UserError(
                f"model {name}: expected a diffusers folder, found no {INDEX}{_inside(path)}: check the path"
            )
        source = Source(name, "folder", path, path, variant=variant)
        description.read_index(source)
        return source
    if path.is_file():
        if path.suffix not in single_file.ENDINGS:
            endings, got = " or ".join(single_file.ENDINGS), path.suffix or "no ending"
            remedy = "give the whole checkpoint as one of these, or the folder of the pipeline"
            if path.suffix.lower() == ".gguf":
                got, remedy = f"{got}, a quantized denoiser alone", description.UNQUANTIZED
            raise UserError(f"model {name}: expected {endings}, got {got}: {remedy}")
        return single_file.source(name, path)
    if re.fullmatch(r"[A-Za-z0-9][\w.-]*/[\w.-]+(@[\w./-]+)?", name):
        return hub.fetch(name, revision, variant, weights)
    close = difflib.get_close_matches(name, MODELS, 1)
    remedy = f"did you mean {close[0]}?" if close else "check the spelling or the path"
    raise UserError(
        f"model {name}: unknown; expected {BENCHMARK_MODELS[0]} or another that `triptych models` lists, a hub id"
        f" (owner/name), folder or .safetensors file, found none of that name: {remedy}"
    )


def _bundled(name: str) -> Source:
    """Return where a benchmark model lies, and those of which it borrows what is not stored of it."""
    path = bundled_folder(name)
    for file in (path / CARD, WEIGHTS / SHARED / INDEX):
        if not file.exists():
            raise UserError(f"model {name}: expected {file}, found none: install triptych anew")
    bases = tuple(map(bundled_folder, REGISTRY[name].bases))
    revision = "unknown"
    with contextlib.suppress(metadata.PackageNotFoundError):  # the package's, of what it bundles
        revision = metadata.version("triptych")
    return Source(name, "bundled", path, path, revision, bases=bases)


def _inside(path: Path) -> str:
    """Return what a folder without a pipeline holds instead, as far as its files tell."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        kind = parse_json((path / "config.json").read_text(encoding="utf-8")).get("_class_name")
        return f" but a single {kind!s:.40}" if kind else ""
    return ""


def tokenizers(source: Source) -> tuple[list[Any], int]:
    """The model's tokenizers and the most tokens its text encoders take, without loading weights."""
    _, layout = description.read_kind(source)
    result, limits = [], []
    for number, (named, encoder) in enumerate(zip(layout.tokenizers, layout.text_encoders, strict=True)):
        if not source.described(named.name).is_dir():
            raise description.fault(source, named.name, "a folder", "none", "add or download it")
        result.append(tokenizer(source, named))
        file = f"{encoder.name}/config.json"
        described = description.read_object(source, file)
        own = layout.lengths[number] if layout.lengths else 77  # T5's positions are relative, without a limit
        described = described.get("text_config") or described
        limit = described.get("max_position_embeddings", own) if isinstance(described, dict) else None
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 3:
            raise description.fault(
                source, file, "`max_position_embeddings` of at least 3", f"{limit!r:.40}", "mend it"
            )
        limits.append(limit)
    result = as_prompted(source, layout, result)
    # each of several towers is given as much of a text as its tokenizer's own limit
    return result, max(one.model_max_length for one in result) if layout.lengths else min(limits)


def as_prompted(source: Source, layout: Layout, loaded: list[Any]) -> list[Any]:
    """Tokenizers as the pipeline uses them: with its template around prompts, and its length."""
    try:
        return prompt_tokenizers(layout, loaded)
    except HookError as error:
        raise UserError(f"model {source.name}: {error}") from None


def without_weights(source: Source, scheduler: str | None = None, steps: int | None = None) -> Any:
    """The pipeline that a model's description makes, checked as :func:`load` does, on torch's meta device.

    It has neither weights nor tokenizers. `scheduler` takes the place of the model's own, and is to make `steps`.
    """
    described, chosen, _ = _checked(source, scheduler, steps)
    kind = described.layout.pipeline_class()
    parameters = inspect.signature(kind.__init__).parameters
    absent = {name: None for name, one in parameters.items() if name != "self" and one.default is one.empty}
    switches = {"requires_safety_checker": False, "add_watermarker": False}
    parts = {
        **absent,
        **{name: value for name, value in switches.items() if name in parameters},
        **described.components,
        "scheduler": chosen,
    }
    with quiet():
        return kind(**parts)


def _checked(
    source: Source, scheduler: str | None, steps: int | None
) -> tuple[description.Description, Any, int]:
    """The description, the scheduler that is to draw, and the most tokens that the text encoders take."""
    with quiet():
        loaded, limit = tokenizers(source)
        result = description.check(source, loaded)
        chosen = _scheduler(source)
        if scheduler is None:
            place = f"model {source.name}: {SCHEDULER}"
            require_usable(chosen, result.architecture, steps, place=place)
        else:
            chosen = pick_scheduler(scheduler, chosen, result.architecture, steps)
    return result, chosen, limit


def _scheduler(source: Source) -> Any:
    """The model's scheduler from its description."""
    kind = description.read_index(source)["scheduler"][1]
    config = description.read_object(source, SCHEDULER)
    try:
        return build_scheduler(str(kind), config)
    except ValueError as error:
        raise description.fault(
            source, SCHEDULER, f"the settings of a {kind!s:.60}", f"`{first_line(error)}`", "mend it"
        ) from error


def load(
    source: Source,
    *,
    dtype: str = "auto",
    device: str = "auto",
    scheduler: str | None = None,
    steps: int | None = None,
    edit: Edit | None = None,
) -> LoadedModel:
    """Load a pipeline, ready to generate.

    `scheduler` is a name such as ``ddim`` or a class of diffusers; None: the model's own. Where there is an `edit`, the
    record has it with the hash of the weights as they were, and its ``weight_hash`` is that of the edited model.
    """
    import torch

    place = pick_device(device)
    dtype = pick_model_dtype(source, dtype, place)
    card = description.read_card(source)
    described, _, limit = _checked(source, scheduler, steps)
    architecture, layout = described.architecture, described.layout
    if source.kind == "file":
        pipe = single_file.read(source)
    elif source.kind == "bundled" and (assemble := REGISTRY[source.name].assemble):
        pipe = assemble(source.name, source.path)
    else:
        description.check_weights(source, described)
        # of what was stored in half precision a copy in float32 would take twice the memory, and give the same numbers
        pipe = read_pipeline(source, dtype if architecture.transformer else None)
    index = description.read_index(source)
    if scheduler is not None:
        pipe.scheduler = pick_scheduler(scheduler, pipe.scheduler, architecture, steps)
    require_finite(source, pipe, "float32", "download it again")
    with _fits(place), quiet():
        pipe = pipe.to(place, getattr(torch, dtype))
    require_finite(source, pipe, dtype, "use --dtype bfloat16 or float32")
    pipe.set_progress_bar_config(disable=True)
    record = {
        "id": name_of(source.name),
        "kind": source.kind,
        "path": str(source.path.absolute()),
        "revision": source.revision,
        "weight_hash": weight_hash(pipe),
        "pipeline": type(pipe).__name__,
        "parameters": sum(p.numel() for module in modules(pipe).values() for p in module.parameters()),
        "variant": None
        if source.kind == "file"
        else weight_files.choose(source.component(layout.denoiser.name), source.variant),
        "safety_checker": "off" if getattr(pipe, "safety_checker", None) is None else "on",
        "ships_safety_checker": (index.get("safety_checker") or [None])[0] is not None,
        "prediction_type": architecture.prediction_type(pipe.scheduler),
        "decoder_dtype": architecture.decoding_dtype(pipe, dtype),
        "card": {key: value for key, value in card.items() if key != "guidance_scale"},
    }
    if edit is not None:
        edited = edits.apply(pipe, edit)
        record["edit"] = {"original_weight_hash": record["weight_hash"], **edited.record}
        record["weight_hash"] = edited.hash(weight_hash(pipe))
    return LoadedModel(
        pipe=pipe,
        record=record,
        scheduler=scheduler_record(pipe.scheduler),
        guidance_scale=default_guidance(source),
        device=str(place),
        dtype=dtype,
        tokenizers=as_prompted(source, layout, [getattr(pipe, one.name) for one in layout.tokenizers]),
        token_limit=limit,
    )


def default_guidance(source: Source) -> float:
    """Return the guidance scale that a model was made for: its card's, else its pipeline's own."""
    architecture, layout = description.read_kind(source)
    card = description.read_card(source)
    if not architecture.takes_guidance(
        description.read_object(source, f"{layout.denoiser.name}/config.json")
    ):
        return 0.0
    if "guidance_scale" in card:
        return float(card["guidance_scale"])
    return architecture.default_guidance(layout.pipeline_class())


def pick_model_dtype(source: Source, name: str, device: Any) -> str:
    """The number format to generate in: `pick_dtype`'s, but bfloat16 where a text encoder overflows in float16."""
    _, layout = description.read_kind(source)
    large = next(
        (kind for one in layout.text_encoders for kind in one.classes if kind.startswith(_OVERFLOWING)), None
    )
    if large is not None and name == "float16":
        raise UserError(
            f"generate.dtype (--dtype): expected bfloat16 or float32 for a model with a {large}, whose activations"
            " exceed float16's 65504, got float16: use bfloat16"
        )
    picked = pick_dtype(name, device, bundled=source.kind == "bundled")
    return "bfloat16" if large is not None and picked == "float16" else picked


@contextlib.contextmanager
def _fits(device: Any) -> Iterator[None]:
    import torch

    try:
        yield
    except torch.OutOfMemoryError:
        raise UserError(
            f"--device {device}: expected room for the model, found too little: use float16 or another device"
        ) from None
