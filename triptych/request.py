"""A request, one command of ``triptych run`` or one call of `triptych.run`: configuration, stages, hold on the run.

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

from probes.config.schema import Config, Trace, build_config, read_source
from probes.errors import UserError, printable
from probes.fields.yaml import YamlSource, locate_errors, yaml_text
from probes.paths import expand_run
from probes.prompts.prompt import Prompt
from probes.runs.run import Run
from triptych.options import STAGES

if TYPE_CHECKING:
    from probes.prompts.captions import LoadedPrompts

RECORD = "run.json"
WINDOWS = 4  # of steps, in the map of one prompt
# options by their places in ``triplets.yaml``, each with the flag or name it was given by, and its value
Chosen = Mapping[tuple[str, ...], tuple[str, Any]]


@dataclass(frozen=True)
class Request:
    """What is asked for, before anything is planned."""

    config: Config  # with what was chosen over it
    yaml_source: YamlSource
    passed: dict[str, Any]  # for run.json
    loaded: LoadedPrompts | None  # what prompts were read from that do not stand in the file
    chosen: Chosen
    stages: tuple[str, ...]  # in their order
    dry: bool  # a plan is all that is asked for
    overwrite: bool
    quiet: bool  # no progress bars and no remarks

    @property
    def clustered(self) -> bool:
        """Return whether a stage of it is worked on by a cluster."""
        return self.config.clustered and self.includes("generate", "observe", "trace")

    @property
    def text(self) -> str | None:
        """The YAML file as it stands, for the copy that a run keeps; None where a run is taken up again."""
        return self.yaml_source.text or None

    def includes(self, *stages: str) -> bool:
        """Return whether any of these stages is gone through."""
        return not set(stages).isdisjoint(self.stages)

    def replaces(self, stage: str) -> bool:
        """Return whether the stored results of a stage are to be replaced."""
        return self.overwrite and stage in self.stages

    def place(self, field: str) -> str:
        """Return where a field of the configuration stands, for errors: the flag it was given by, or the file."""
        flag, _ = self.chosen.get(tuple(field.split(".")), ("", None))
        return flag or f"{self.yaml_source.name}: {field}"

    @property
    def captions(self) -> LoadedPrompts | None:
        """The captions that prompts were read from."""
        return self.loaded if self.loaded and self.loaded.source else None

    def naming(self) -> contextlib.AbstractContextManager[None]:
        """Say of an error in a field of the configuration in which file it stands, or by which flag it was given."""
        return locate_errors(Config, self.yaml_source, self.chosen)

    def say(self, text: str) -> None:
        """Tell the user in a line, on stderr, unless the command is to be quiet."""
        if not self.quiet:
            print(printable(text), file=sys.stderr, flush=True)


def read_request(
    given: str | Config | Mapping[str, Any],
    chosen: Chosen,
    stage: str | None = None,
    *,
    dry: bool = False,
    overwrite: bool = False,
    quiet: bool = False,
) -> Request:
    """Return the configuration that is given, with what was chosen over it, and the stages to go through.

    `given` is the path of a YAML file or of a run directory, or the configuration itself; `stage` the only one that is
    wanted.
    """
    folder, before = Path(), None
    loaded: list[LoadedPrompts] = []
    if isinstance(given, str):
        path = expand_run(given, "command line")
        if path.name == RECORD and path.is_file():
            raise UserError(
                f"{path}: expected triplets.yaml or the folder of a run, got the record of one: give {path.parent}"
            )
        if path.is_dir():
            before, source = _of_run(path)
            config = build_config(source.data, source, chosen)
        else:
            source, folder = read_source(path), path.parent
            data = {"name": path.stem, **source.data}
    else:
        data = plain(given)
        source = YamlSource("config", "", data)
    if before is None:
        config = build_config(data, source, chosen, {"folder": folder, "loaded": loaded}, _external_images)
        before = {"file": source.data}
        # the copy that the run keeps; not before it is known to be right
        source = source if source.text else replace(source, text=yaml_text(source.data))
    passed = _passed(before, chosen)
    stages = STAGES if stage is None else (stage,)
    if config.trace is None and stage != "trace":
        stages = tuple(one for one in stages if one != "trace")
    else:
        config = config.model_copy(update={"trace": _traced(config, config.trace or Trace())})
    request = Request(config, source, passed, next(iter(loaded), None), chosen, stages, dry, overwrite, quiet)
    for line in request.loaded.summary() if request.loaded else ():
        request.say(line)
    if config.out is not None and not config.out.strip():
        place = request.place("out")
        raise UserError(f"{place}: expected a folder, got {config.out!r}: name one, or leave it out")
    if config.out:
        expand_run(config.out, request.place("out"))  # one that no file system takes is refused
    return request


def _external_images(*given: Any) -> dict[str, Any]:
    from probes.stages.external_images.configuration import configured

    return configured(*given)


def _of_run(path: Path) -> tuple[dict[str, Any], YamlSource]:
    """What was passed when a run began, and the configuration that its record holds."""
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


def _traced(config: Config, trace: Trace) -> Trace:
    """The section `trace`; of one prompt, which has no interval, with the windows of its map of places and steps."""
    one = min(len(config.prompts[: config.limit]), trace.prompts) == 1
    if not one or "windows" in trace.model_fields_set:
        return trace
    return trace.model_copy(update={"windows": min(WINDOWS, config.sampler.steps)})
