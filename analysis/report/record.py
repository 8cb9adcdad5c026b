"""The record of a run as the report shows it: what was run, with what, and by which definitions."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import yaml

from probes.paths import display_name

# of ``run.json`` and of its configuration: what may differ between two ways to draw the same run
OF_MACHINES = ("written", "times", "device", "cluster", "made_again", "out")
OF_PROCESSES = ("workers", "threads", "seconds", "path", "system")  # the same, of their entries
# entries stand in this order, whichever was recorded first, and the others after them
ORDER = (
    *("format", "status", "name", "config", "versions", "captions", "taken_in", "model", "scheduler"),
    *("part_fields", "parts", "images", "batch_triplets", "faults", "observer"),
)


def shown(meta: dict) -> dict:
    """Return what a page shows of ``run.json``: what was asked and how it was read, the same for every way to draw it.

    Not when, where, by how many processes, in how many goes, and in which folder: that stands in ``run.json`` alone.
    """
    named = _named({key: value for key, value in meta.items() if key not in OF_MACHINES})
    if "config" in named:
        resolved = {
            key: value for key, value in named["config"]["resolved"].items() if key not in OF_MACHINES
        }
        if isinstance(resolved.get("generate"), dict):
            resolved["generate"] = _without(resolved["generate"])
        named["config"] = {**named["config"], "resolved": resolved}
    order = sorted(named, key=lambda key: (ORDER.index(key) if key in ORDER else len(ORDER), key))
    return {key: _without(named[key]) if isinstance(named[key], dict) else named[key] for key in order}


def _named(data: Any) -> Any:
    """Plain data in which a path of this machine is the name of its file, in keys too."""
    if isinstance(data, str):
        return display_name(data) if os.path.isabs(data) or data.startswith(("./", "../", "~/")) else data
    if isinstance(data, dict):
        return {_named(key): _named(value) for key, value in data.items()}
    return [_named(entry) for entry in data] if isinstance(data, (list, tuple)) else data


def _without(entry: dict) -> dict:
    return {key: value for key, value in entry.items() if key not in OF_PROCESSES}


def groups(meta: dict) -> dict[str, str]:
    """Return what `shown` gives as YAML by headings: the configuration as resolved, then all else that was recorded.

    Not the status, which is still that of the stage before: a page is written before its run is called complete.
    """
    others = {key: value for key, value in meta.items() if key not in ("config", "status") and value}
    parts = {"Configuration as resolved": meta["config"]["resolved"], "Record": others}
    return {title: yaml.safe_dump(part, sort_keys=False, allow_unicode=True) for title, part in parts.items()}


def versions(named: Iterable[tuple[str, object]]) -> list[tuple[str, str]]:
    """List definitions, each with its version: those of one version together."""
    by_name: dict[str, list[str]] = {}
    for name, version in dict.fromkeys(named):
        if isinstance(version, str) and version:
            by_name.setdefault(name, []).append(version)
    merged: dict[str, list[str]] = {}
    for name, own in by_name.items():
        merged.setdefault(", ".join(own), []).append(name)
    return [(", ".join(names), version) for version, names in merged.items()]
