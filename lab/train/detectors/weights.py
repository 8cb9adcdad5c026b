"""Weights in safetensors files, laid out as the observe stage's engines read them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file


def save_weights(
    module: torch.nn.Module,
    path: Path,
    dtype: torch.dtype = torch.float32,
    overwrite: Mapping[str, torch.Tensor] | None = None,
) -> None:
    """Write a module's weights, those in ``overwrite`` instead of its own.

    A tensor that stands under several names, as heads do that layers share, is written once.
    """
    state, written, replaced = {}, set(), overwrite or {}
    for name, value in module.state_dict().items():
        if value.numel() and value.data_ptr() in written:
            continue
        written.add(value.data_ptr())
        value = replaced.get(name, value).detach()
        state[name] = value.to("cpu", dtype if value.is_floating_point() else value.dtype).contiguous()
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file(state, path)


def export(module: torch.nn.Module, folder: Path, settings: Mapping[str, Any]) -> None:
    """Write ``model.safetensors`` in float16 and its description ``model.json``."""
    save_weights(module, folder / "model.safetensors", torch.float16)
    (folder / "model.json").write_text(json.dumps(dict(settings), indent=1) + "\n")
