"""Folders in the layout of transformers: what describes a model, its weights, and how its images are resized."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from analysis.observe.checkpoints import read_json
from probes.errors import UserError
from probes.models import pretrained
from probes.models.pretrained import auto, quiet, readable


def described(path: Path, kind: str, field: str, *, tokenizer: bool = True) -> tuple[Any, Any]:
    """Return the tokenizer and the configuration that are in a folder."""
    with readable(f"{field}: {path}", "a model of transformers", "mend it"), quiet():
        config = auto("Config", path)
        tokens = auto("Tokenizer", path) if tokenizer else None
    if config.model_type != kind:
        raise UserError(f"{field}: {path}: expected a {kind}, got a {config.model_type}: choose another")
    return tokens, config


def from_folder(cls: Any, path: Path, field: str, dtype: torch.dtype = torch.float32) -> Any:
    """Return a model of one of transformers' classes with every weight from the folder's safetensors."""
    with readable(f"{field}: {path}", "whole weights"), quiet():
        model, info = pretrained.from_folder(
            cls, path, use_safetensors=True, dtype=dtype, output_loading_info=True
        )
    for fault in ("missing", "mismatched"):
        names = sorted(map(str, info[f"{fault}_keys"]))
        if names:
            raise UserError(
                f"{field}: {path}: expected the weights of {cls.__name__}, got {len(names)} {fault} ({names[0]:.80}):"
                " choose the folder that holds them"
            )
    return model


def sides(path: Path, field: str) -> tuple[int, int]:
    """Return the pixels to which a detector resizes images: the shorter side, and at most the longer."""
    file = path / "preprocessor_config.json"
    size = read_json(file, field).get("size", {}) if file.exists() else {}
    with readable(f"{field}: {file}", "`size` with sides in pixels", "mend it"):
        return int(size.get("shortest_edge", 800)), int(size.get("longest_edge", 1333))


def require_values(config: Any, values: dict[str, Any], path: Path, field: str) -> None:
    """Refuse a configuration that asks for what the class that is built for runs does not vary."""
    for name, value in values.items():
        if getattr(config, name) != value:
            raise UserError(
                f"{field}: {path}: config.json: `{name}`: expected {value!r}, the only one that is supported, got"
                f" {getattr(config, name)!r}: choose another model"
            )
