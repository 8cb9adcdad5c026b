"""The configuration of a request: ``triplets.yaml``, a run directory or plain data, with the options put over it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from probes.config.loading import build_config, load_data, read_source
from probes.config.schema import Config
from probes.errors import UserError
from probes.fields.yaml import YamlSource, yaml_text
from probes.paths import expand_run
from probes.prompts.prompt import Prompt
from probes.prompts.source import LoadedPrompts
from probes.runs.run import Run

RECORD = "run.json"
Chosen = Mapping[tuple[str, ...], tuple[str, Any]]


def configuration(
    given: str | Config | Mapping[str, Any], chosen: Chosen, tell: Callable[[str], None]
) -> tuple[Config, YamlSource, dict, LoadedPrompts | None]:
    """Return a configuration with what was chosen over it, where it stands, what was passed and the prompts read.

    `given` is the path of a YAML file or of a run directory, or the configuration itself; `chosen` are options by their
    places in ``triplets.yaml``; `tell` is told in lines what became of captions.
    """
    folder = Path()
    if isinstance(given, str):
        path = expand_run(given, "command line")
        if path.name == RECORD and path.is_file():
            raise UserError(
                f"{path}: expected triplets.yaml or the folder of a run, got the record of one: give {path.parent}"
            )
        if path.is_dir():
            return _of_run(path, chosen)
        source, folder = read_source(path), path.parent
        named = replace(source, data={"name": path.stem, **source.data})
    else:
        named = source = YamlSource("config", "", plain(given))
    read: list[LoadedPrompts] = []
    config = load_data(named, folder, chosen, read, _external_images)
    for line in (line for loaded in read[:1] for line in loaded.summary()):
        tell(line)
    _require_out(config, chosen, f"{source.name}: out")
    passed = _passed({"file": source.data}, chosen)
    # the copy that the run keeps; not before it is known to be right
    source = source if source.text else replace(source, text=yaml_text(source.data))
    return config, source, passed, next((loaded for loaded in read if loaded.selection), None)


def _external_images(*given: Any) -> dict[str, Any]:
    from probes.stages.external_images.configuration import configured

    return configured(*given)


def _of_run(path: Path, chosen: Chosen) -> tuple[Config, YamlSource, dict, None]:
    """The configuration that the record of a run holds."""
    record = Run.open(path).meta.get("config")
    before, resolved = (
        record.get(key) if isinstance(record, dict) else None for key in ("passed", "resolved")
    )
    if not isinstance(before, dict) or not isinstance(resolved, dict):
        raise UserError(
            f"{path / RECORD}: expected the configuration of a run, found none: run it from triplets.yaml"
        )
    # a folder whose name begins with ~ is the folder, and no one's home
    out = str(path.absolute() if str(path).startswith("~") else path)
    source = YamlSource(name=f"{path / RECORD}", text="", data={**resolved, "out": out})
    config = build_config(source.data, source, chosen)
    _require_out(config, chosen, f"{source.name}: out")
    return config, source, _passed(before, chosen), None


def plain(value: Any) -> Any:
    """Return the fields of a configuration, or of a part of it, that are not left to their defaults, as plain data.

    >>> plain({"prompts": ("a {person}",), "seeds": range(2), "out": Path("runs")})
    {'prompts': ['a {person}'], 'seeds': [0, 1], 'out': 'runs'}
    """
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", exclude_unset=True)
    if isinstance(value, Prompt):
        return value.written()
    if isinstance(value, Mapping):
        return {key: plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple | range):
        return [plain(one) for one in value]
    if type(value).__module__ == "numpy":
        return plain(value.tolist())
    return str(value) if isinstance(value, Path) else value


def _passed(before: Mapping[str, Any], chosen: Chosen) -> dict[str, Any]:
    """What ``run.json`` keeps: the file, flags of the command line, and changes of a call by their dotted fields."""
    flags = {flag: value for flag, value in chosen.values() if flag.startswith("-")}
    passed = {**before, "command_line": {**before.get("command_line", {}), **flags}}
    if changes := {name: value for name, value in chosen.values() if not name.startswith("-")}:
        passed["changes"] = {**before.get("changes", {}), **changes}
    return passed


def _require_out(config: Config, chosen: Chosen, place: str) -> None:
    """Refuse a run directory that no file system takes, before anything is planned."""
    place = chosen[("out",)][0] if ("out",) in chosen else place
    if config.out is not None and not config.out.strip():
        raise UserError(f"{place}: expected a folder, got {config.out!r}: name one, or leave it out")
    if config.out:
        expand_run(config.out, place)
