"""The configuration of a request: a ``triplets.yaml`` or a run directory, with the options put over it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from probes.config.schema import Config, build_config, load_config
from probes.config.yaml import YamlSource, read_yaml
from probes.errors import UserError
from probes.prompts import of_captions
from probes.prompts.source import LoadedPrompts, NoFileError, selection_summary
from probes.runs.store import Run
from probes.storage.locations import is_object
from probes.storage.paths import expand_run

RECORD = "run.json"
Chosen = Mapping[tuple[str, ...], tuple[str, Any]]


def configuration(
    given: str, chosen: Chosen, tell: Callable[[str], None]
) -> tuple[Config, YamlSource, dict, LoadedPrompts | None]:
    """Return the configuration from a YAML file or a run directory with the command line over it, and as passed.

    Parameters
    ----------
    given
        The path of the file or the directory.
    chosen
        What the command line gave, by the place it has in ``triplets.yaml``: the option and its value.
    tell
        Told in a line what became of captions that were read.

    Returns
    -------
    tuple
        The configuration, where it stands, what was passed, and what its prompts were read from, where they do not
        stand in it.

    Raises
    ------
    UserError
        There is no such file, it holds no configuration, the directory holds no run, or a run is to stand at no
        path.
    """
    path = expand_run(given, "command line")
    line = {flag: value for flag, value in chosen.values()}
    if path.name == RECORD and not is_object(path) and path.is_file():
        raise UserError(
            f"{path}: expected triplets.yaml or the folder of a run, got the record of one: give {path.parent}"
        )
    if not is_object(path) and not path.is_dir():
        source = read_yaml(path)
        read: list[LoadedPrompts] = []
        try:
            config = load_config(path, chosen, read)
        except NoFileError as error:
            raise of_captions.missing_file_error(error, _out(path, source, chosen)) from None
        if line_on_captions := selection_summary(read):
            tell(line_on_captions)
        _require_out(config, chosen, f"{source.name}: out")
        return config, source, {"file": source.data, "command_line": line}, read[0] if read else None
    run = Run.open(path)
    record = run.meta.get("config")
    before, resolved = (
        record.get(key) if isinstance(record, dict) else None for key in ("passed", "resolved")
    )
    if not isinstance(before, dict) or not isinstance(resolved, dict):
        raise UserError(
            f"{path / RECORD}: expected the configuration of a run, found none: run it from triplets.yaml"
        )
    passed = {**before, "command_line": {**before.get("command_line", {}), **line}}
    # a folder whose name begins with ~ is the folder, and no one's home
    out = str(path.absolute() if str(path).startswith("~") else path)
    source = YamlSource(name=f"{path / RECORD}", text="", data={**resolved, "out": out})
    config = build_config(source.data, source, chosen)
    _require_out(config, chosen, f"{source.name}: out")
    return config, source, passed, None


def _out(path: Path, source: YamlSource, chosen: Chosen) -> Path:
    """The run directory of a configuration that cannot be read to its end."""
    _, out = chosen.get(("out",), ("", source.data.get("out")))
    return (
        expand_run(out, "out")
        if isinstance(out, str)
        else Path("runs") / str(source.data.get("name", path.stem))
    )


def _require_out(config: Config, chosen: Chosen, place: str) -> None:
    """Refuse a run directory that no file system takes, before anything is planned."""
    place = chosen[("out",)][0] if ("out",) in chosen else place
    if config.out is not None and not config.out.strip():
        raise UserError(f"{place}: expected a folder, got {config.out!r}: name one, or leave it out")
    if config.out:
        expand_run(config.out, place)
