"""Weights of a feature: where they are, their identity, and how an image is prepared for them; loads no network."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from analysis.observe.checkpoints import TOYWORLD, find, read_json, sha256
from analysis.observe.features.registry import Feature
from probes.errors import UserError
from probes.models.pretrained import readable
from probes.runs.parts import digest
from probes.toyworld import WEIGHTS

PLACE = "observe.feature_weights"
CONFIGS = {"timm": "config.json", "open_clip": "open_clip_config.json"}  # beside the weights in a folder
FILES = {  # of weights in a folder, the first that is there
    "timm": ("model.safetensors", "pytorch_model.bin"),
    "open_clip": (
        "open_clip_model.safetensors",
        "open_clip_pytorch_model.safetensors",
        "open_clip_pytorch_model.bin",
        "open_clip_pytorch_model.pth",
    ),
}


def place(feature: Feature) -> str:
    """The field of the configuration that names its weights."""
    return feature.field or f"{PLACE}.{feature.name}"


def locate(feature: Feature, name: str, *, fetch: bool = True) -> Path | None:
    """The file or folder of a feature's weights; None where they are on the hub alone and not to be fetched.

    `name` is as in ``observe.feature_weights``: a file, a folder, a hub id, or ``toyworld``.
    """
    if name == TOYWORLD and feature.toyworld:
        return WEIGHTS / feature.toyworld
    path = find(name, place(feature), fetch=fetch, is_whole=lambda folder: _files(feature.library, folder))
    if path is not None:
        weight_file(feature, path)
    return path


def _files(library: str, folder: Path) -> list[Path]:
    return [file for name in FILES.get(library, ()) if (file := folder / name).is_file()]


def weight_file(feature: Feature, path: Path) -> Path:
    """The file of weights: the path itself, or that in the folder."""
    if path.is_file():
        return path
    if feature.library not in FILES:
        raise UserError(
            f"{place(feature)}: {path}: expected a file of weights, got a folder: name {feature.weights}"
        )
    existing, config = _files(feature.library, path), CONFIGS[feature.library]
    if not existing or not (path / config).is_file():
        raise UserError(
            f"{place(feature)}: {path}: expected {config} and {FILES[feature.library][0]} in it, found no such files:"
            " give a folder that holds both, or a file of weights"
        )
    return existing[0]


def description(feature: Feature, path: Path) -> dict[str, Any]:
    """Return the description beside the weights in a folder; an empty one of a bare file."""
    if path.is_file():
        return {}
    return read_json(path / CONFIGS[feature.library], place(feature))


def transform_settings(feature: Feature, path: Path) -> dict[str, Any]:
    """Return how an image is prepared: size, crop, interpolation, mean and deviation, as the library takes them."""
    if feature.library == "torch_fidelity":
        return {"size": 299, "interpolation": "bilinear as in TensorFlow 1", "mean": 128, "std": 128}
    with readable(f"{place(feature)}: {path}", "a description of how images are prepared", "mend it"):
        settings = _transform(feature, description(feature, path))
        json.dumps(settings)
        return settings


def _transform(feature: Feature, described: Mapping[str, Any]) -> dict[str, Any]:
    if feature.library == "timm":
        from timm.data import resolve_data_config
        from timm.models import get_pretrained_cfg

        usual = get_pretrained_cfg(feature.architecture)
        settings = described.get("pretrained_cfg") or (usual.to_dict() if usual else {})
        return resolve_data_config({}, pretrained_cfg=settings)
    import open_clip
    from open_clip.transform import PreprocessCfg

    model = described.get("model_cfg") or open_clip.get_model_config(feature.architecture)
    size = model["vision_cfg"]["image_size"]
    return asdict(PreprocessCfg(**{"size": size, **described.get("preprocess_cfg", {})}))


def identity(feature: Feature, path: Path) -> dict[str, Any]:
    """Return what alters a feature: the checkpoint, its readout, and how an image is prepared for it."""
    described = json.dumps(description(feature, path), sort_keys=True)
    return {
        "checkpoint": sha256(weight_file(feature, path)),
        "network": digest(described) if described != "{}" else feature.architecture,
        "readout": feature.readout,
        "transform": json.dumps(transform_settings(feature, path), sort_keys=True),
    }
