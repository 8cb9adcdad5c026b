"""Settings of publications: each a YAML file in this folder, laid under what ``triplets.yaml`` says (``preset:``)."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

_ENDING = ".yaml"
_SECTIONS = ("sampler", "capture", "generate", "observe", "measure", "report")


@cache
def names() -> tuple[str, ...]:
    """Names of the presets, in alphabetical order."""
    inside = (entry.name for entry in files(__package__).iterdir())
    return tuple(sorted(name.removesuffix(_ENDING) for name in inside if name.endswith(_ENDING)))


@cache
def _read(name: str) -> Mapping[str, Any]:
    return yaml.safe_load((files(__package__) / f"{name}{_ENDING}").read_text(encoding="utf-8"))


def applied(data: Mapping[str, Any]) -> dict[str, Any]:
    """Plain data of a configuration over the preset that it names; an unknown name is left to the schema.

    A field of a section (``sampler: {steps: ...}``) takes the place of that field alone; anything else, such as the
    indicators or a list, of the whole.
    """
    name = data.get("preset")
    if name not in names():
        return dict(data)
    merged: dict[str, Any] = deepcopy(dict(_read(name)))
    for key, value in data.items():
        under = merged.get(key)
        joined = key in _SECTIONS and isinstance(value, Mapping) and isinstance(under, Mapping)
        merged[key] = {**under, **value} if joined else value
    return merged
