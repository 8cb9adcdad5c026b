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
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from probes.components import modules, pick_scheduler, scheduler_record, weight_hash
from probes.errors import UserError
from probes.paths import expand
from probes.toyworld import SPECIMENS, WEIGHTS

PIPELINES = ("StableDiffusionPipeline", "StableDiffusionXLPipeline")


@dataclass(frozen=True)
class Source:
    """Where a model comes from: its name in ``triplets.yaml``, and the folder or file on this machine.

    `kind` is ``bundled``, ``hub``, ``folder`` or ``file``; `config` is the folder that describes the pipeline
    (for a single file it may be None: diffusers then fetches the description from the hub).
    """

    name: str
    kind: str
    path: Path
    config: Path | None
    revision: str | None = None


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
        if not (path / "model_index.json").exists():
            raise UserError(f"model {name}: expected weights in {path}, found none: install triptych anew")
        return Source(name, "bundled", path, path, metadata_version())
    path = expand(name, "model")
    if path.is_dir():
        if not (path / "model_index.json").exists():
            raise UserError(
                f"model {name}: expected a diffusers folder, found no model_index.json: check the path"
            )
        return Source(name, "folder", path, path)
    if path.is_file():
        if path.suffix != ".safetensors":
            raise UserError(
                f"model {name}: expected .safetensors, got {path.suffix or 'no ending'}: convert it"
            )
        beside = [
            folder for folder in (path.with_suffix(""), path.parent) if (folder / "model_index.json").exists()
        ]
        return Source(name, "file", path, beside[0] if beside else None)
    if re.fullmatch(r"[A-Za-z0-9][\w.-]*/[\w.-]+(@[\w./-]+)?", name):
        return _from_hub(name, weights)
    close = difflib.get_close_matches(name, SPECIMENS, 1)
    remedy = f"did you mean {close[0]}?" if close else "check the spelling or the path"
    raise UserError(
        f"model {name}: unknown; expected {', '.join(SPECIMENS)}, a hub id (owner/name), folder or .safetensors"
        f" file, found none of that name: {remedy}"
    )


def metadata_version() -> str:
    """The version of this package: the revision of what it bundles."""
    from importlib import metadata

    try:
        return metadata.version("triptych")
    except metadata.PackageNotFoundError:
        return "unknown"


def _from_hub(name: str, weights: bool) -> Source:
    from huggingface_hub import snapshot_download

    identifier, _, revision = name.partition("@")
    try:
        if weights:
            from diffusers import DiffusionPipeline

            with quiet():
                folder = DiffusionPipeline.download(
                    identifier, revision=revision or None, safety_checker=None
                )
        else:
            patterns = ["*.json", "*.txt", "tokenizer*/*"]
            folder = snapshot_download(identifier, revision=revision or None, allow_patterns=patterns)
    except Exception as error:  # the hub raises errors of many libraries; all mean that it gave no model
        first = (str(error).strip().splitlines() or [type(error).__name__])[0][:160]
        raise UserError(
            f"model {name}: no folder of that name, and the hub gave none ({first}): check the spelling,"
            " connect to the network once so that it is cached, or give a local folder"
        ) from error
    path = Path(folder)
    return Source(name, "hub", path, path, path.name)


def tokenizers(source: Source) -> tuple[list[Any], int | None]:
    """The model's tokenizers and the most tokens its text encoders take, without loading weights.

    For a single file without a description beside it, the limit is that of the tokenizers of its kind.
    """
    from transformers import CLIPTokenizer

    if source.config is None:
        pipe = _pipeline(source)
        loaded = [pipe.tokenizer, getattr(pipe, "tokenizer_2", None)]
        return [tokenizer for tokenizer in loaded if tokenizer is not None], None
    found, limits = [], []
    for number in ("", "_2"):
        folder = source.config / f"tokenizer{number}"
        if folder.is_dir():
            with _readable(source):
                found.append(CLIPTokenizer.from_pretrained(folder, local_files_only=True))
        description = source.config / f"text_encoder{number}" / "config.json"
        if description.exists():
            with _readable(source):
                limits.append(int(json.loads(description.read_text())["max_position_embeddings"]))
    if not found:
        raise UserError(
            f"model {source.name}: expected a tokenizer folder in {source.config}, found none: add it"
        )
    return found, min(limits, default=None)


def load(
    source: Source, *, dtype: str = "float32", device: str = "auto", scheduler: str | None = None
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

    Raises
    ------
    UserError
        The files are damaged or of another kind, or the device or the scheduler is unknown.
    """
    import torch

    place = pick_device(device)
    pipe = _pipeline(source)
    recommended = _recommended(source)
    own_guidance = inspect.signature(type(pipe).__call__).parameters["guidance_scale"].default
    checker = getattr(pipe, "safety_checker", None)
    if scheduler is not None:
        pipe.scheduler = pick_scheduler(scheduler, pipe.scheduler)
    with _fits(place), quiet():
        pipe = pipe.to(place, getattr(torch, dtype))
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
        "card": {key: value for key, value in recommended.items() if key != "guidance_scale"},
    }
    return Loaded(
        pipe=pipe,
        record=record,
        scheduler=scheduler_record(pipe.scheduler),
        guidance_scale=float(recommended.get("guidance_scale", own_guidance)),
        device=str(place),
        tokenizers=[t for t in (pipe.tokenizer, getattr(pipe, "tokenizer_2", None)) if t is not None],
    )


def pick_device(name: str) -> Any:
    """A torch device by name; ``auto`` takes a GPU where there is one."""
    import torch

    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        raise UserError(
            f"--device {name}: expected auto, cpu, cuda, cuda:1 or mps: choose one of them"
        ) from None
    there = {"cpu": 1, "cuda": torch.cuda.device_count(), "mps": int(torch.backends.mps.is_available())}
    if (device.index or 0) >= there.get(device.type, 0):
        raise UserError(
            f"--device {name}: expected a device of this machine, found none such: use --device cpu"
        )
    return device


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep the libraries' own progress bars off the terminal while a model loads."""
    import diffusers.utils.logging as diffusers_logging
    import transformers.utils.logging as transformers_logging

    switches = (diffusers_logging, transformers_logging)
    levels = [switch.get_verbosity() for switch in switches]
    shown = [switch.is_progress_bar_enabled() for switch in switches]
    try:
        for switch in switches:
            switch.disable_progress_bar()
            switch.set_verbosity_error()
        yield
    finally:
        for switch, level, show in zip(switches, levels, shown):
            switch.set_verbosity(level)
            if show:
                switch.enable_progress_bar()


def _pipeline(source: Source) -> Any:
    import diffusers

    options: dict[str, Any] = {}
    kind = None
    if source.config is not None:
        with _readable(source):
            index = json.loads((source.config / "model_index.json").read_text())
        kind = index.get("_class_name")
        if kind not in PIPELINES:
            raise UserError(
                f"model {source.name}: expected {' or '.join(PIPELINES)}, got {kind}: choose another"
            )
        if "safety_checker" in index:
            options["safety_checker"] = None
        if "requires_safety_checker" in index:
            options["requires_safety_checker"] = False
    with _readable(source), quiet():
        if source.kind != "file":
            return getattr(diffusers, kind).from_pretrained(source.path, local_files_only=True, **options)
        if source.config is not None:
            options |= {"config": str(source.config), "local_files_only": True}
        loader = getattr(diffusers, kind or _single_file_kind(source.path))
        return loader.from_single_file(str(source.path), **options)


def _single_file_kind(path: Path) -> str:
    """Which pipeline a single file is for: SDXL has a second text encoder."""
    from safetensors import safe_open

    with safe_open(path, "pt") as file:
        return PIPELINES[any(key.startswith("conditioner.embedders.1.") for key in file.keys())]  # noqa: SIM118


@contextlib.contextmanager
def _readable(source: Source) -> Iterator[None]:
    """What the libraries say about damaged or missing files, in one line."""
    import pickle

    from safetensors import SafetensorError

    try:
        yield
    except UserError:
        raise
    except (
        OSError,
        ValueError,
        KeyError,
        RuntimeError,
        EOFError,
        SafetensorError,
        pickle.UnpicklingError,
    ) as error:
        first = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
        raise UserError(
            f"model {source.name}: expected a whole {' or '.join(PIPELINES)} in {source.path}, got `{first}`:"
            " mend or download it again"
        ) from error


@contextlib.contextmanager
def _fits(device: Any) -> Iterator[None]:
    import torch

    try:
        yield
    except torch.OutOfMemoryError:
        raise UserError(
            f"--device {device}: expected room for the model, found too little: use float16 or another device"
        ) from None


def _recommended(source: Source) -> dict[str, Any]:
    """``triptych.json`` beside the weights, if any: the guidance scale the model was made for, and more."""
    file = (source.config or source.path.parent) / "triptych.json"
    if not file.exists():
        return {}
    with _readable(source):
        card = json.loads(file.read_text())
    if not isinstance(card, dict) or not isinstance(card.get("guidance_scale", 0.0), (int, float)):
        raise UserError(f'{file}: expected {{"guidance_scale": number, ...}}, got something else: mend it')
    return card
