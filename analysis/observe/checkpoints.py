"""Checkpoints and folders of models: found by path or name, read without running code, fitted to a model."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any
from zipfile import is_zipfile

import yaml

from probes.errors import UserError, parse_json
from probes.models import pretrained
from probes.models.pretrained import quiet, read_tensors, readable
from probes.paths import expand_model, require_regular
from probes.toyworld import WEIGHTS

TOYWORLD = "toyworld"
_SPELLING = "check the spelling, connect to the network once so that it is cached, or give a local file"
OWN = {"observe.detector": "grounding-dino", "observe.segmenter": "sam", "observe.ram": "ram"}


def find(
    name: str,
    field: str,
    *,
    fetch: bool = True,
    revision: str | None = None,
    is_whole: Callable[[Path], object] = lambda path: weight_files(path),
) -> Path | None:
    """Find a checkpoint or a folder; None where it is on the hub alone and not to be fetched.

    `name` is a path; the name of a file in torch's folder of checkpoints (``~/.cache/torch/hub/checkpoints``); a file
    or a whole model of the Hugging Face hub (``owner/name/file.pth``, ``owner/name``), of which what is in its cache
    is taken if it `is_whole`; or ``toyworld``: the small one that comes with the package. `field` is the one of the
    configuration that gave it, for the error.
    """
    if name == TOYWORLD and field in OWN:
        return WEIGHTS / OWN[field] / "model.safetensors"
    path = expand_model(name, field)
    if path.exists():
        return path
    if "/" not in name:
        file = _torch_folder() / name
        if file.exists():
            return file
        raise UserError(
            f"{field}: {name}: no such file, and none of that name in {file.parent}: {remedy(name)}"
        )
    match = re.fullmatch(r"([\w.-]+/[\w.-]+)(?:/([\w./-]+))?", name)
    if not match:
        raise UserError(f"{field}: {name}: no such file: check the path")
    with suppress(OSError, ValueError):  # those that the hub's library raises where its cache has none
        path = _from_hub(*match.groups(), revision, local_files_only=True)
        if path.is_file() or is_whole(path):
            return path
    if not fetch:
        return None
    try:
        return _from_hub(*match.groups(), revision)
    except Exception as error:  # the hub raises errors of many libraries; all mean that it gave nothing
        first = (str(error).strip().splitlines() or [type(error).__name__])[0][:160]
        raise UserError(
            f"{field}: {name}: no such file, and the hub gave none ({first}):"
            f" {remedy(name) if name in known() else _SPELLING}"
        ) from error


def _from_hub(identifier: str, file: str | None, revision: str | None, **options: Any) -> Path:
    """A file of a model of the hub, or a folder of the whole."""
    from huggingface_hub import hf_hub_download, snapshot_download

    if file:
        return Path(hf_hub_download(identifier, file, revision=revision, **options))
    patterns = ["*.json", "*.txt", "*.safetensors"]
    return Path(snapshot_download(identifier, revision=revision, allow_patterns=patterns, **options))


def _torch_folder() -> Path:
    from torch.hub import get_dir

    return Path(get_dir()) / "checkpoints"


def sha256(path: Path) -> str:
    """SHA-256 of a file in hexadecimal; remembered while the file stays as it is."""
    return _sha256(path, path.stat().st_mtime_ns)


@cache
def _sha256(path: Path, changed: int) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def revision(path: Path) -> str | None:
    """The commit of a model that came from the Hugging Face hub; None of a file or folder."""
    return path.name if path.parent.name == "snapshots" else None


def weight_files(path: Path) -> list[Path]:
    """The weights that are a checkpoint: the file itself, or those in the folder."""
    return [path] if path.is_file() else sorted(path.glob("*.safetensors"))


def read_json(path: Path, field: str) -> dict[str, Any]:
    """Read a description that stands beside a checkpoint."""
    try:
        data = parse_json(require_regular(path, field).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{field}: {path}: expected a description as JSON, got {error}: mend it") from None
    if not isinstance(data, dict):
        raise UserError(f"{field}: {path}: expected a description `{{...}}`, got {data!r:.60}: mend it")
    return data


def require_kind(path: Path, kinds: Sequence[str], field: str) -> dict[str, Any]:
    """Return the ``config.json`` in a folder of transformers, of a model of one of some kinds."""
    if path.is_file():
        raise UserError(
            f"{field}: {path}: expected a folder or hub id of transformers, got a file: name its folder"
        )
    stated = read_json(path / "config.json", field)
    if stated.get("model_type") not in kinds:
        raise UserError(
            f"{field}: {path}: expected a folder or hub id of {' or '.join(kinds)}, got"
            f" {stated.get('model_type')!r:.60}: choose another"
        )
    return stated


def settings_beside(path: Path, known: Collection[str], field: str, what: str) -> dict[str, Any]:
    """Read the settings in a JSON file of a checkpoint's name beside it; none where there is no such file."""
    beside = path.with_suffix(".json")
    stated = read_json(beside, field) if beside.exists() else {}
    if unknown := [name for name in stated if name not in known]:
        expected = ", ".join(known) if len(known) < 20 else f"a setting of {what}"
        raise UserError(f"{field}: {beside}: expected {expected}, got `{unknown[0]}`: take it out")
    return stated


def read_weights(path: Path, field: str) -> dict[str, Any]:
    """Read a checkpoint's tensors: safetensors, or a pickle of plain tensors and nothing else.

    A checkpoint that keeps its weights under ``model`` gives those; a leading ``module.`` is taken off the names.
    """
    with readable(f"{field}: {path}", "a checkpoint of tensors"):
        data = read_tensors(path, mmap=is_zipfile(path))  # which torch can map into memory
    data = data.get("model", data) if isinstance(data, dict) else data
    if not named_tensors(data):
        raise UserError(
            f"{field}: {path}: expected a checkpoint of tensors, got {type(data).__name__}: choose another"
        )
    return {name.removeprefix("module."): value for name, value in data.items()}


def named_tensors(data: Any) -> bool:
    """Return whether it is a mapping of names to dense tensors, as the weights of a network are."""
    import torch

    return isinstance(data, dict) and all(
        isinstance(name, str) and isinstance(value, torch.Tensor) and value.layout == torch.strided
        for name, value in data.items()
    )


def fit(
    model: Any, weights: Mapping[str, Any], *, path: Path, field: str, what: str, spare: Collection[str] = ()
) -> None:
    """Put weights into a model, each in its place, once `check_fit` has nothing against them."""
    check_fit(model, weights, path=path, field=field, what=what, spare=spare)
    with readable(f"{field}: {path}", f"the weights of {what}"):
        model.load_state_dict(
            {name: weights[name] for name in model.state_dict() if name in weights}, strict=False
        )


def check_fit(
    model: Any, weights: Mapping[str, Any], *, path: Path, field: str, what: str, spare: Collection[str] = ()
) -> None:
    """Check that weights are a model's; the model may be on torch's device ``meta``.

    `spare` names may stand in a checkpoint beyond what the model has.
    """
    wanted = model.state_dict()
    # heads that layers share stand under several names, of which safetensors keeps one
    shared = {wanted[name].data_ptr() for name in wanted if name in weights} - {0}  # 0: on no memory
    faults = {
        "missing": [
            name
            for name, value in wanted.items()
            # counts of batches, of training: old files have none
            if name not in weights
            and value.data_ptr() not in shared
            and not name.endswith("num_batches_tracked")
        ],
        "of another shape": [
            f"{name}: {tuple(weights[name].shape)} for {tuple(value.shape)}"
            for name, value in wanted.items()
            if name in weights and value.shape != weights[name].shape
        ],
        "unknown": [name for name in weights if name not in wanted and name not in spare],
    }
    got = ", ".join(f"{len(names)} {fault} ({names[0]})" for fault, names in faults.items() if names)
    if got:
        raise UserError(
            f"{field}: {path}: expected the weights of {what}, got {got}: choose the checkpoint that"
            " belongs to it, or describe it in a JSON file of its name beside it"
        )


@cache
def known() -> Mapping[str, Mapping[str, Any]]:
    """Size, and address or files, of published checkpoints by their names (``known_checkpoints.yaml``)."""
    return yaml.safe_load((files(__package__) / "known_checkpoints.yaml").read_text(encoding="utf-8"))


def size(name: str) -> str:
    """About how much is downloaded, as text; empty where it is not known."""
    megabytes = known().get(name, {}).get("megabytes")
    if megabytes is None:
        return ""
    return f"{megabytes} MB" if megabytes < 1000 else f"{megabytes / 1000:.1f} GB"


def command(name: str) -> str:
    """The command that puts a known checkpoint where `find` looks.

    >>> command("bert-base-uncased")
    'hf download bert-base-uncased config.json tokenizer_config.json tokenizer.json vocab.txt'
    >>> command("sam_vit_b_01ec64.pth").split()[-1]
    'https://dl.fbaipublicfiles.com/segment_anything/sam_vit_b_01ec64.pth'
    """
    entry = known()[name]
    if "url" in entry:
        return f"curl -L --create-dirs --output-dir ~/.cache/torch/hub/checkpoints -O {entry['url']}"
    files = [f'--include "{pattern}"' if "*" in pattern else pattern for pattern in entry["files"]]
    return f"hf download {name} {' '.join(files)}"


def present(name: str) -> bool:
    """Return whether a checkpoint that is known is on this machine, where `find` looks."""
    entry = known()[name]
    if "url" in entry:
        return (_torch_folder() / name).exists()
    from huggingface_hub import try_to_load_from_cache

    first = next((file for file in entry["files"] if "*" not in file), "config.json")
    return isinstance(try_to_load_from_cache(name, first), str)


def remedy(name: str) -> str:
    """The remedy for a missing checkpoint: its size and the command that fetches it, or to check the path."""
    return f"{size(name)}; run: {command(name)}" if name in known() else "check the path"


def from_folder(cls: Any, path: Path, field: str, dtype: Any = None) -> Any:
    """Return a model of one of transformers' classes with every weight from the folder's safetensors."""
    import torch

    with readable(f"{field}: {path}", "whole weights"), quiet():
        model, info = pretrained.from_folder(
            cls, path, use_safetensors=True, dtype=dtype or torch.float32, output_loading_info=True
        )
    for fault in ("missing", "mismatched"):
        names = sorted(map(str, info[f"{fault}_keys"]))
        if names:
            raise UserError(
                f"{field}: {path}: expected the weights of {cls.__name__}, got {len(names)} {fault} ({names[0]:.80}):"
                " choose the folder that holds them"
            )
    return model
