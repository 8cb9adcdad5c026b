"""A request, one command of ``triptych run`` or one call of `triptych.run`: configuration and stages.

The configuration is ``triplets.yaml``, a run directory or plain data, with the options put over it.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from probes.config.schema import STAGES, Config, Trace, build_config, read_source
from probes.errors import UserError, printable
from probes.fields.yaml import YamlSource, locate_errors, yaml_text
from probes.paths import expand_run
from probes.prompts.prompt import Prompt
from probes.runs.run import Run

if TYPE_CHECKING:
    from probes.prompts.captions import LoadedPrompts

RECORD = "run.json"
WINDOWS = 4  # of steps, in the map of one prompt
# options by their places in ``triplets.yaml``, each with the flag or name it was given by, and its value
Overrides = Mapping[tuple[str, ...], tuple[str, Any]]


@dataclass(frozen=True)
class Request:
    """The configuration, stages and flags of a command ``triptych run``, or of a call of `triptych.run`."""

    config: Config  # with what was chosen over it
    # its text is that of the copy that a run keeps, empty where an existing run is resumed
    yaml_source: YamlSource
    passed: dict[str, Any]  # for run.json
    loaded: LoadedPrompts | None  # what prompts were read from that do not stand in the file
    overrides: Overrides
    stages: tuple[str, ...]  # in their order
    dry: bool  # a plan is all that is asked for
    overwrite: bool
    quiet: bool  # no progress bars and no remarks

    @property
    def clustered(self) -> bool:
        """Whether the request generates, observes or traces on workers of a cluster."""
        return self.config.clustered and self.includes("generate", "observe", "trace")

    def includes(self, *stages: str) -> bool:
        """Return whether any of these stages is requested."""
        return not set(stages).isdisjoint(self.stages)

    def replaces(self, stage: str) -> bool:
        """Return whether a stage is requested and its stored results are to be replaced."""
        return self.overwrite and stage in self.stages

    def location_of(self, field: str) -> str:
        """Return where a configuration field (dotted) was set, for errors: the flag, or the file and the field."""
        flag, _ = self.overrides.get(tuple(field.split(".")), ("", None))
        return flag or f"{self.yaml_source.name}: {field}"

    @property
    def captions(self) -> LoadedPrompts | None:
        """The file or set of captions that prompts were read from; None if prompts come from elsewhere."""
        return self.loaded if self.loaded and self.loaded.source else None

    def locate_errors(self) -> contextlib.AbstractContextManager[None]:
        """Return a context manager that adds to errors on a configuration field the file or flag that set it."""
        return locate_errors(Config, self.yaml_source, self.overrides)

    def print_line(self, text: str) -> None:
        """Print a line of text on stderr, unless the request is quiet."""
        if not self.quiet:
            print(printable(text), file=sys.stderr, flush=True)


def read_request(
    config_input: str | Config | Mapping[str, Any],
    overrides: Overrides,
    stage: str | None = None,
    *,
    dry: bool = False,
    overwrite: bool = False,
    quiet: bool = False,
) -> Request:
    """Return the request for a configuration with overrides; UserError if the configuration is wrong.

    `config_input` is the path of a YAML file or of a run directory, or the configuration itself. `dry`: a plan alone.
    """
    folder, before = Path(), None
    loaded: list[LoadedPrompts] = []
    if isinstance(config_input, str):
        path = expand_run(config_input, "command line")
        if path.name == RECORD and path.is_file():
            raise UserError(
                f"{path}: expected triplets.yaml or the folder of a run, got the record of one: give {path.parent}"
            )
        if path.is_dir():
            before, source = _recorded_config(path)
            config = build_config(source.data, source, overrides)
        else:
            source, folder = read_source(path), path.parent
            data = {"name": path.stem, **source.data}
    else:
        data = to_plain_data(config_input)
        source = YamlSource("config", "", data)
    if before is None:
        config = build_config(
            data, source, overrides, {"folder": folder, "loaded": loaded}, _complete_configuration
        )
        before = {"file": source.data}
        # the copy that the run keeps; not before it is known to be right
        source = source if source.text else replace(source, text=yaml_text(source.data))
    passed = _arguments_record(before, overrides)
    stages = STAGES if stage is None else (stage,)
    if config.trace is None and stage != "trace":
        stages = tuple(one for one in stages if one != "trace")
    else:
        config = config.model_copy(update={"trace": _with_windows(config, config.trace or Trace())})
    request = Request(
        config, source, passed, next(iter(loaded), None), overrides, stages, dry, overwrite, quiet
    )
    for line in request.loaded.summary() if request.loaded else ():
        request.print_line(line)
    if config.out is not None and not config.out.strip():
        place = request.location_of("out")
        raise UserError(f"{place}: expected a folder, got {config.out!r}: name one, or leave it out")
    if config.out:
        expand_run(config.out, request.location_of("out"))  # one that no file system takes is refused
    return request


def _complete_configuration(*arguments: Any) -> dict[str, Any]:
    """Call `complete_configuration` of external images, imported only here since few runs need it."""
    from probes.stages.external_images.configuration import complete_configuration

    return complete_configuration(*arguments)


def _recorded_config(path: Path) -> tuple[dict[str, Any], YamlSource]:
    """Return a run's arguments and resolved configuration from its ``run.json``; UserError if it has none."""
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
    return before, YamlSource(name=f"{path / RECORD}", text="", data={**resolved, "out": out})


def to_plain_data(value: Any) -> Any:
    """Return a value of a configuration as plain data (YAML types); of a section only the fields that were set.

    >>> to_plain_data({"prompts": ("a {person}",), "seeds": range(2), "out": Path("runs")})
    {'prompts': ['a {person}'], 'seeds': [0, 1], 'out': 'runs'}
    """
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", exclude_unset=True)
    if isinstance(value, Prompt):
        return value.written()
    if isinstance(value, Mapping):
        return {key: to_plain_data(one) for key, one in value.items()}
    if isinstance(value, list | tuple | range):
        return [to_plain_data(one) for one in value]
    if type(value).__module__ == "numpy":
        return to_plain_data(value.tolist())
    return str(value) if isinstance(value, Path) else value


def _arguments_record(before: Mapping[str, Any], overrides: Overrides) -> dict[str, Any]:
    """Return the arguments for ``run.json``: those of `before`, with the flags and changes of fields added."""
    flags = {flag: value for flag, value in overrides.values() if flag.startswith("-")}
    passed = {**before, "command_line": {**before.get("command_line", {}), **flags}}
    if changes := {name: value for name, value in overrides.values() if not name.startswith("-")}:
        passed["changes"] = {**before.get("changes", {}), **changes}
    return passed


def _with_windows(config: Config, trace: Trace) -> Trace:
    """Return the section `trace`, with `WINDOWS` windows of steps if it traces one prompt and sets no windows."""
    one = min(len(config.prompts[: config.limit]), trace.prompts) == 1
    if not one or "windows" in trace.model_fields_set:
        return trace
    return trace.model_copy(update={"windows": min(WINDOWS, config.sampler.steps)})
