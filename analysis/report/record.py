"""The record of a run as the report shows it: what was run, with what, and by which definitions."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from analysis.report.format import counted
from analysis.study import contrasts, indicators
from probes.config.schema import Config
from probes.paths import display_name

LONG = 14  # entries: a longer group is folded
# of ``run.json`` and of its configuration: what may differ between two ways to draw the same run
OF_MACHINES = ("written", "times", "device", "cluster", "made_again", "out")
OF_PROCESSES = ("workers", "threads", "seconds", "path", "system")  # the same, of their entries
# entries stand in this order, whichever was recorded first, and the others after them
ORDER = (
    *("format", "status", "name", "config", "versions", "captions", "taken_in", "model", "scheduler"),
    *("part_fields", "parts", "images", "batch_triplets", "faults", "observer"),
)


@dataclass(frozen=True)
class Group:
    """Labelled values under one heading; ``folded`` groups open on demand."""

    title: str
    items: list[tuple[str, str]]
    folded: bool = False


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


def groups(config: Config, meta: dict, samples: pd.DataFrame) -> list[Group]:
    """Collect the run record: the choices first, then all that ``run.json`` holds."""
    stated = meta["config"]["resolved"]
    seeds = samples["seed"].drop_duplicates().astype(str).tolist()
    words = ", ".join(f"{i.name}: “{i.word}”{' (control)' if i.control else ''}" for i in indicators(config))
    choices = [
        ("model", config.model_name),
        *([("edit", config.edit.summary)] if config.edit is not None else []),
        ("indicators", words),
        ("reference", config.reference),
        ("contrasts", ", ".join(" − ".join(pair) for pair in contrasts(config)) or "none"),
        ("prompts", counted(samples["triplet"].nunique(), "prompt")),
        ("seeds", f"{', '.join(seeds[:20])}{' …' if len(seeds) > 20 else ''} ({len(seeds)})"),
        ("images", f"{len(samples):,}"),
    ]
    found = [Group("Choices", choices)]
    # the status is still that of the stage before: the page is written before the run is called complete
    top = [
        (key, value) for key, value in meta.items() if not isinstance(value, (dict, list)) and key != "status"
    ]
    if top:
        found.append(Group("Run", [(key.replace("_", " "), _plain(value)) for key, value in top]))
    for key, value in meta.items():
        if key == "config" or not isinstance(value, (dict, list)) or not value:
            continue
        items = _flat(value) if isinstance(value, dict) else [("", _plain(value))]
        found.append(Group(key.replace("_", " ").capitalize(), items, folded=len(items) > LONG))
    text = json.dumps(stated, indent=2, ensure_ascii=False)
    found.append(Group("Configuration as resolved", [("", text)], folded=True))
    return found


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


def _flat(value: dict, prefix: str = "") -> list[tuple[str, str]]:
    items = []
    for key, inner in value.items():
        label = f"{prefix}{key}".replace("_", " ")
        items += (
            _flat(inner, f"{label} · ") if isinstance(inner, dict) and inner else [(label, _plain(inner))]
        )
    return items


def _plain(value: object) -> str:
    if value is None:
        return "the model’s own"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return ", ".join(_plain(item) for item in value) or "none"
    if isinstance(value, (dict, set)):
        return json.dumps(value, ensure_ascii=False) if value else "none"
    return str(value) if value != "" else "(empty)"
