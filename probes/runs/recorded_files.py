"""Texts of a run's record that name files, written and read by `probes.runs.recorded_paths`.

Fields of the configuration are found by their mark in the schema (`probes.fields.types.MayBePath`).
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from probes.config.schema import Config
from probes.errors import UserError
from probes.fields.types import MayBePath
from probes.fields.yaml import read_yaml
from probes.runs.recorded_paths import hides_nothing, name_of, out, resolve_path, same, sentence, written

KEY = "paths"  # of run.json: says how to read the others
STATED = "relative to this folder, to the home (~), or with the package (triptych:)"
_LATER = re.compile(r"model|observer|taken_in|captions|(features|attributes)/.*")  # entries that name files
_SENTENCES = ("not_observed", "made_again")  # entries of sentences in which a path may stand


# A configuration


@cache
def fields() -> tuple[tuple[str, ...], ...]:
    """Return the fields of a configuration that may hold a path, each by its place: by their mark in the schema.

    ``*`` stands for every name of a mapping.
    """
    return tuple(_marked(Config, ()))


def _marked(section: type[BaseModel], at: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for name, field in section.model_fields.items():
        yield from _of_kind((*at, field.alias or name), field.annotation, field)


def _of_kind(at: tuple[str, ...], kind: Any, field: FieldInfo | None = None) -> Iterator[tuple[str, ...]]:
    marks = [*(field.metadata if field else ()), *getattr(kind, "__metadata__", ())]
    if any(isinstance(mark, MayBePath) for mark in marks):
        yield at
    elif isinstance(kind, type) and issubclass(kind, BaseModel):
        yield from _marked(kind, at)
    else:
        inner = get_args(kind)
        below = (*at, "*") if getattr(kind, "__origin__", None) is dict else at
        yield from dict.fromkeys(place for one in inner for place in _of_kind(below, one))


def _changed(
    data: Any, place: tuple[str, ...], change: Callable[[str, tuple[str, ...]], Any], at: tuple = ()
) -> Any:
    """Plain data with the text at a place changed, if there is one; what holds it is copied."""
    if not place:
        return change(data, at) if isinstance(data, str) else data
    if not isinstance(data, Mapping):
        return data
    names = list(data) if place[0] == "*" else [place[0]] if place[0] in data else []
    return {**data, **{name: _changed(data[name], place[1:], change, (*at, name)) for name in names}}


def _each(data: Any, change: Callable[[str, tuple[str, ...]], Any], *more: tuple[str, ...]) -> Any:
    foreign = isinstance(data, Mapping) and data.get("images") is not None
    for place in (*fields(), *more):
        if not (foreign and place == ("model",)):  # the name of a model that is not here
            data = _changed(data, place, change)
    return data


def written_configuration(resolved: Mapping[str, Any], run: Path) -> dict[str, Any]:
    """Return a resolved configuration as the record of a run holds it."""
    return _changed(_each(resolved, lambda text, _: written(text, run)), ("out",), lambda text, _: out(text))


def found_configuration(
    resolved: Mapping[str, Any], run: Path, passed: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return a resolved configuration whose paths can be opened, of one that the record of a run holds.

    `passed` is the configuration as it was passed.
    """
    return _each(
        resolved, lambda text, at: resolve_path(text, run, lambda: _sentences(run, at, passed or {}))
    )


def named_configuration(resolved: Mapping[str, Any]) -> dict[str, Any]:
    """Return a resolved configuration as a page shows it: files by their names alone."""
    return _each(resolved, lambda text, _: name_of(text))


def aligned(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration that names as another one does what is the same file or folder."""

    def as_after(text: str, at: tuple[str, ...]) -> str:
        there: Any = after
        for name in at:
            there = there.get(name) if isinstance(there, Mapping) else None
        return there if isinstance(there, str) and same(text, there) else text

    return _each(before, as_after)


def _sentences(run: Path, at: tuple[str, ...], passed: Mapping[str, Any]) -> Iterator[Any]:
    """Yield what the command line and the run's copy of the configuration say at a place."""
    line = passed.get("command_line")
    if isinstance(line, Mapping):
        yield line.get(f"--{'.'.join(at)}")
    changes = passed.get("changes")
    if isinstance(changes, Mapping):
        yield changes.get(".".join(at))
    copy = run / "triplets.yaml"
    with contextlib.suppress(UserError, FileNotFoundError, UnicodeDecodeError):
        data = read_yaml(copy).data
        for name in at:
            data = data.get(name) if isinstance(data, Mapping) else None
        yield data


def _passed(passed: Mapping[str, Any], run: Path) -> dict[str, Any]:
    """The configuration as it was passed: what is no relative path already is written as in the record."""

    def change(text: str, _: tuple[str, ...]) -> str:
        return text if hides_nothing(text) else written(text, run, from_home=True)

    def folder(text: str, _: tuple[str, ...]) -> str:
        return text if hides_nothing(text) else out(text)

    rewritten = {**passed}
    if "file" in passed:
        rewritten["file"] = _changed(_each(passed["file"], change, ("prompts", "from")), ("out",), folder)
    for kind, model, out_folder in (("command_line", "--model", "--out"), ("changes", "model", "out")):
        if kind in passed:
            rewritten[kind] = _changed(_changed(passed[kind], (model,), change), (out_folder,), folder)
    return rewritten


# A record


def written_record(meta: Mapping[str, Any], run: Path) -> dict[str, Any]:
    """Return what is written of a record of a run, or of fields of one: without a path that tells of this machine."""
    rewritten = {**meta}
    for name, entry in meta.items():
        if name == "config" and isinstance(entry, Mapping):
            passed = entry.get("passed")
            rewritten[name] = {
                **entry,
                **({"passed": _passed(passed, run)} if isinstance(passed, Mapping) else {}),
                "resolved": written_configuration(entry.get("resolved") or {}, run),
            }
        elif name == "observe":
            rewritten[name] = written_configuration({"observe": entry}, run)["observe"]
        elif _LATER.fullmatch(name):
            rewritten[name] = _in_all(entry, lambda text: written(text, run) if os.path.isabs(text) else text)
        elif name in _SENTENCES:
            rewritten[name] = _in_all(entry, lambda text: sentence(text, run))
    return rewritten


def found_record(meta: Mapping[str, Any], run: Path) -> dict[str, Any]:
    """Return a record, or fields of one, whose configuration names files as they can be opened."""
    rewritten = {**meta}
    config = meta.get("config")
    if isinstance(config, Mapping) and isinstance(config.get("resolved"), Mapping):
        rewritten["config"] = {
            **config,
            "resolved": found_configuration(config["resolved"], run, config.get("passed")),
        }
    if isinstance(meta.get("observe"), Mapping):
        rewritten["observe"] = found_configuration({"observe": meta["observe"]}, run)["observe"]
    return rewritten


def as_read(meta: Mapping[str, Any], run: Path) -> dict[str, Any]:
    """Return a record as whoever reads it has it, so that it is the same in the process that wrote it."""
    return found_record(written_record(meta, run), run)


def named_record(meta: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record as a page shows it: files by their names alone."""
    rewritten = {
        name: _in_all(entry, _named) if _LATER.fullmatch(name) else entry for name, entry in meta.items()
    }
    config = meta.get("config")
    if isinstance(config, Mapping) and isinstance(config.get("resolved"), Mapping):
        rewritten["config"] = {**config, "resolved": named_configuration(config["resolved"])}
    return rewritten


def _named(text: str) -> str:
    return name_of(text) if os.path.isabs(text) or text.startswith(("./", "../", "~/")) else text


def _in_all(data: Any, change: Callable[[str], str]) -> Any:
    """Plain data with every text in it changed, keys too."""
    if isinstance(data, str):
        return change(data)
    if isinstance(data, Mapping):
        return {_in_all(key, change): _in_all(value, change) for key, value in data.items()}
    return [_in_all(one, change) for one in data] if isinstance(data, (list, tuple)) else data
