"""Loading a diffusion pipeline: bundled toyworld, hub id, local folder or a single .safetensors file.

Weights come from safetensors, or from pickle only through ``torch.load(weights_only=True)``, which is what
diffusers and transformers do; no code of a model's author is run. The safety checker is left off, since it
blackens images after the fact, and that is recorded.
"""

from __future__ import annotations

import contextlib
import difflib
import inspect
import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from probes import model_description as description
from probes.components import modules, weight_hash
from probes.devices import pick_device
from probes.errors import UserError
from probes.model_description import INDEX, PIPELINES, SUPPORTED, Source, first_line, readable
from probes.model_weights import quiet, read_pipeline, require_finite
from probes.paths import expand
from probes.schedulers import build_scheduler, pick_scheduler, require_usable, scheduler_record
from probes.toyworld import SPECIMENS, WEIGHTS

SCHEDULER = "scheduler/scheduler_config.json"


@dataclass
class Loaded:
    """A pipeline ready to draw, and what ``run.json`` keeps about it."""

    pipe: Any
    record: dict[str, Any]
    scheduler: dict[str, Any]
    guidance_scale: float
    device: str = "cpu"
    tokenizers: list[Any] = field(default_factory=list)

    @property
    def token_limit(self) -> int:
        """Most tokens the text encoders take, start and end included."""
        encoders = (getattr(self.pipe, name, None) for name in ("text_encoder", "text_encoder_2"))
        return min(e.config.max_position_embeddings for e in encoders if e is not None)


def resolve(name: str, weights: bool = True) -> Source:
    """Find a model by the name given in ``triplets.yaml``.

    Parameters
    ----------
    name
        ``toyworld…``, a hub id (``owner/name`` or ``owner/name@revision``), a folder or a ``.safetensors``
        file.
    weights
        Fetch the weights of a hub model too; False is enough to plan.

    Raises
    ------
    UserError
        There is no such model, or the hub cannot be reached and the model is not in its cache.
    """
    if name in SPECIMENS:
        path = WEIGHTS / name
        if not (path / INDEX).exists():
            raise UserError(f"model {name}: expected weights in {path}, found none: install triptych anew")
        return Source(name, "bundled", path, path, metadata_version())
    path = expand(name, "model")
    if path.is_dir():
        if not (path / INDEX).exists():
            raise UserError(
                f"model {name}: expected a diffusers folder, found no {INDEX}{_inside(path)}: check the path"
            )
        source = Source(name, "folder", path, path)
        description.read_index(source)
        return source
    if path.is_file():
        if path.suffix != ".safetensors":
            raise UserError(
                f"model {name}: expected .safetensors, got {path.suffix or 'no ending'}: convert it"
            )
        beside = [folder for folder in (path.with_suffix(""), path.parent) if (folder / INDEX).exists()]
        source = Source(name, "file", path, beside[0] if beside else None)
        kind = description.single_file_kind(source)
        if beside and description.read_index(source)["_class_name"] != kind:
            raise UserError(
                f"model {name}: expected the description of a {kind} in {beside[0] / INDEX}, got another:"
                " put the file beside the description that belongs to it"
            )
        return source
    if re.fullmatch(r"[A-Za-z0-9][\w.-]*/[\w.-]+(@[\w./-]+)?", name):
        return _from_hub(name, weights)
    close = difflib.get_close_matches(name, SPECIMENS, 1)
    remedy = f"did you mean {close[0]}?" if close else "check the spelling or the path"
    raise UserError(
        f"model {name}: unknown; expected {', '.join(SPECIMENS)}, a hub id (owner/name), folder or .safetensors"
        f" file, found none of that name: {remedy}"
    )


def _inside(path: Path) -> str:
    """What a folder without a pipeline holds instead, as far as its files tell."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        kind = json.loads((path / "config.json").read_text(encoding="utf-8")).get("_class_name")
        return f" but a single {kind!s:.40}" if kind else ""
    return ""


def metadata_version() -> str:
    """The version of this package: the revision of what it bundles."""
    from importlib import metadata

    try:
        return metadata.version("triptych")
    except metadata.PackageNotFoundError:
        return "unknown"


def _from_hub(name: str, weights: bool) -> Source:
    from huggingface_hub import hf_hub_download, snapshot_download

    identifier, _, revision = name.partition("@")
    where = {"revision": revision or None}
    with _answering(name):
        index = Path(hf_hub_download(identifier, INDEX, **where))
    # an unsupported pipeline is refused before gigabytes are fetched
    description.read_index(Source(name, "hub", index.parent, index.parent))
    with _answering(name):
        if weights:
            from diffusers import DiffusionPipeline

            with quiet():
                folder = DiffusionPipeline.download(identifier, safety_checker=None, **where)
        else:
            patterns = ["*.json", "*.txt", "tokenizer*/*"]
            folder = snapshot_download(identifier, allow_patterns=patterns, **where)
    path = Path(folder)
    return Source(name, "hub", path, path, path.name)


@contextlib.contextmanager
def _answering(name: str) -> Iterator[None]:
    from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

    try:
        yield
    except Exception as error:  # the hub raises errors of many libraries; all mean that it gave no model
        if isinstance(error, EntryNotFoundError) and not isinstance(error, LocalEntryNotFoundError):
            raise UserError(
                f"model {name}: expected a diffusers pipeline, found no {INDEX} on the hub: {SUPPORTED}"
            ) from error
        raise UserError(
            f"model {name}: no folder of that name, and the hub gave none ({first_line(error, 160)}): check the"
            " spelling, connect to the network once so that it is cached, or give a local folder"
        ) from error


def tokenizers(source: Source) -> tuple[list[Any], int | None]:
    """The model's tokenizers and the most tokens its text encoders take, without loading weights.

    For a single file without a description beside it, the limit is that of the tokenizers of its kind.

    Raises
    ------
    UserError
        A tokenizer or the description of a text encoder is not there or damaged.
    """
    from transformers import CLIPTokenizer

    if source.config is None:
        pipe = read_pipeline(source)
        loaded = [pipe.tokenizer, getattr(pipe, "tokenizer_2", None)]
        return [tokenizer for tokenizer in loaded if tokenizer is not None], None
    second = description.read_index(source)["_class_name"] == PIPELINES[1]
    result, limits = [], []
    for number in ("", "_2") if second else ("",):
        folder = f"tokenizer{number}"
        if not (source.config / folder).is_dir():
            raise description.fault(source, folder, "a folder", "none", "add or download it")
        if (source.config / folder / "tokenizer_config.json").exists():
            description.read_object(source, f"{folder}/tokenizer_config.json")
        with readable(source, folder, "a CLIP tokenizer"), quiet():
            result.append(CLIPTokenizer.from_pretrained(source.config / folder, local_files_only=True))
        file = f"text_encoder{number}/config.json"
        limit = description.read_object(source, file).get("max_position_embeddings", 77)
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 3:
            raise description.fault(
                source, file, "`max_position_embeddings` of at least 3", f"{limit!r:.40}", "mend it"
            )
        limits.append(limit)
    return result, min(limits, default=None)


def without_weights(source: Source, scheduler: str | None = None, steps: int | None = None) -> Any | None:
    """The pipeline that a model's description makes, checked, on torch's meta device; it holds no weights.

    :func:`load` makes the same checks. Of a single file without a description beside it nothing can be told before it
    is loaded.

    Parameters
    ----------
    source
        From :func:`resolve`.
    scheduler, steps
        The scheduler in place of the model's own, and the steps it is to make.

    Returns
    -------
    A pipeline of diffusers without tokenizers, or None for such a file.

    Raises
    ------
    UserError
        A file of the description is damaged, two of them do not fit one another, or the scheduler cannot drive
        Stable Diffusion.
    """
    import diffusers

    checked = _checked(source, scheduler, steps)
    if checked is None:
        return None
    described, chosen = checked
    kind = getattr(diffusers, described.pipeline)
    asked = inspect.signature(kind.__init__).parameters
    absent = dict.fromkeys(
        ("tokenizer", "tokenizer_2", "safety_checker", "feature_extractor", "image_encoder")
    )
    switches = {"requires_safety_checker": False, "add_watermarker": False}
    parts = {**absent, **switches, **described.components, "scheduler": chosen}
    with quiet():
        return kind(**{name: value for name, value in parts.items() if name in asked})


def _checked(
    source: Source, scheduler: str | None, steps: int | None
) -> tuple[description.Description, Any] | None:
    """The description and the scheduler that is to draw; None where there is no description."""
    if source.config is None:
        return None
    with quiet():
        loaded, _ = tokenizers(source)
        result = description.check(source, loaded)
        chosen = _scheduler(source)
        if scheduler is None:
            require_usable(chosen, steps, place=f"model {source.name}: {SCHEDULER}")
        else:
            chosen = pick_scheduler(scheduler, chosen, steps)
    return result, chosen


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
    dtype: str = "float32",
    device: str = "auto",
    scheduler: str | None = None,
    steps: int | None = None,
) -> Loaded:
    """Load a pipeline, ready to draw.

    Parameters
    ----------
    source
        From :func:`resolve`.
    dtype
        ``float32``, ``float16`` or ``bfloat16``.
    device
        ``auto`` (a GPU if there is one), ``cpu``, ``cuda``, ``cuda:1``, ``mps``.
    scheduler
        A name such as ``ddim``, or the name of a class of diffusers; None: the model's own.
    steps
        Denoising steps that the scheduler is to make.

    Raises
    ------
    UserError
        The files are damaged, of another kind or do not fit one another, the device or the scheduler is unknown,
        or the scheduler cannot drive Stable Diffusion.
    """
    import torch

    place = pick_device(device)
    card = recommended(source)
    checked = _checked(source, scheduler, steps)
    if checked:
        description.check_weights(source, checked[0])
    pipe = read_pipeline(source)
    own_guidance = inspect.signature(type(pipe).__call__).parameters["guidance_scale"].default
    checker = getattr(pipe, "safety_checker", None)
    if scheduler is not None:
        pipe.scheduler = pick_scheduler(scheduler, pipe.scheduler, steps)
    elif not checked:
        require_usable(pipe.scheduler, steps, place=f"model {source.name}")
    require_finite(source, pipe, "float32", "download it again")
    with _fits(place), quiet():
        pipe = pipe.to(place, getattr(torch, dtype))
    require_finite(source, pipe, dtype, "use --dtype bfloat16 or float32")
    pipe.set_progress_bar_config(disable=True)
    record = {
        "id": source.name,
        "kind": source.kind,
        "path": str(source.path),
        "revision": source.revision,
        "weight_hash": weight_hash(pipe),
        "pipeline": type(pipe).__name__,
        "parameters": sum(p.numel() for module in modules(pipe).values() for p in module.parameters()),
        "safety_checker": "off" if checker is None else "on",
        "card": {key: value for key, value in card.items() if key != "guidance_scale"},
    }
    return Loaded(
        pipe=pipe,
        record=record,
        scheduler=scheduler_record(pipe.scheduler),
        guidance_scale=float(card.get("guidance_scale", own_guidance)),
        device=str(place),
        tokenizers=[t for t in (pipe.tokenizer, getattr(pipe, "tokenizer_2", None)) if t is not None],
    )


@contextlib.contextmanager
def _fits(device: Any) -> Iterator[None]:
    import torch

    try:
        yield
    except torch.OutOfMemoryError:
        raise UserError(
            f"--device {device}: expected room for the model, found too little: use float16 or another device"
        ) from None


def recommended(source: Source) -> dict[str, Any]:
    """``triptych.json`` beside the weights, if any: the guidance scale the model was made for, and more."""
    file = (source.config or source.path.parent) / "triptych.json"
    if not file.exists():
        return {}
    try:
        card = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{file}: expected JSON, got `{first_line(error)}`: mend or remove it") from None
    scale = card.get("guidance_scale", 0.0) if isinstance(card, dict) else None
    if isinstance(scale, bool) or not isinstance(scale, (int, float)) or not math.isfinite(scale):
        raise UserError(f'{file}: expected {{"guidance_scale": number, ...}}, got something else: mend it')
    return card


def _readable(source: Source) -> contextlib.AbstractContextManager:
    """What the libraries say about a source's description, in one line."""
    return readable(source, INDEX, f"a whole {' or '.join(PIPELINES)}")
