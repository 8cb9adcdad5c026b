"""A request, one command of ``triptych run`` or one call of `triptych.run`: configuration, stages, hold on the run."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from probes.config.schema import Config, Trace
from probes.errors import printable
from probes.fields.messages import naming
from probes.fields.yaml import YamlSource
from probes.prompts.source import LoadedPrompts
from triptych.options import STAGES, options
from triptych.request_configuration import Chosen, configuration

WINDOWS = 4  # of steps, in the map of one prompt


@dataclass(frozen=True)
class Command:
    """What is asked for, by the command line or in Python, before its configuration is read."""

    config: str | Config | Mapping[str, Any]  # or the path of triplets.yaml, or of a run
    # put over it, by the place: the flag or name it was given by, and its value
    chosen: Chosen = field(default_factory=dict)
    stage: str | None = None  # the only one that is wanted
    dry: bool = False  # show the plan and write nothing
    overwrite: bool = False
    quiet: bool = False  # no progress bars and no remarks
    samples: bool = False  # list every image in the plan
    announce: bool = True  # print where the report is, at the end

    @classmethod
    def of_arguments(cls, arguments: argparse.Namespace) -> Command:
        """Return the command that arguments of `triptych.options.parser` make."""
        return cls(
            arguments.config,
            options(arguments),
            arguments.stage,
            arguments.dry_run,
            arguments.overwrite,
            arguments.quiet,
            arguments.samples,
        )

    def say(self, text: str) -> None:
        """Tell the user in a line, on stderr, unless the command is to be quiet."""
        if not self.quiet:
            print(printable(text), file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Request:
    """A command and the configuration that it names, before anything is planned."""

    command: Command
    config: Config  # with the command line over it
    yaml_source: YamlSource
    passed: dict[str, Any]  # for run.json
    captions: LoadedPrompts | None  # that prompts were read from
    stages: tuple[str, ...]  # in their order

    @property
    def dry(self) -> bool:
        """Return whether the plan is shown and nothing written."""
        return self.command.dry

    @property
    def drawing(self) -> bool:
        """Return whether images are to be planned or generated."""
        return self.includes("plan", "generate")

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
        return self.command.overwrite and stage in self.stages

    def place(self, field: str) -> str:
        """Return where a field of the configuration stands, for errors: the flag it was given by, or the file."""
        flag, _ = self.command.chosen.get(tuple(field.split(".")), ("", None))
        return flag or f"{self.yaml_source.name}: {field}"

    def naming(self) -> contextlib.AbstractContextManager[None]:
        """Say of an error in a field of the configuration in which file it stands, or by which flag it was given."""
        return naming(Config, self.yaml_source, self.command.chosen)

    def say(self, text: str) -> None:
        """Tell the user in a line, on stderr."""
        self.command.say(text)

    def announce(self, text: str) -> None:
        """Print a line on what was done."""
        if self.command.announce:
            print(printable(text))


def read_request(command: Command) -> Request:
    """Return the configuration that a command names, and the stages to go through."""
    config, yaml_source, passed, captions = configuration(command.config, command.chosen, command.say)
    config, stages = _stages(config, command.stage)
    return Request(command, config, yaml_source, passed, captions, stages)


def _stages(config: Config, stage: str | None) -> tuple[Config, tuple[str, ...]]:
    """The stages to go through, and the configuration with what a trace does where it is asked for by name alone."""
    if config.trace is not None or stage == "trace":
        config = config.model_copy(update={"trace": _traced(config, config.trace or Trace())})
    if stage is None:
        return config, tuple(stage for stage in STAGES if stage != "trace" or config.trace is not None)
    return config, (stage,)


def _traced(config: Config, trace: Trace) -> Trace:
    """The section `trace`; of one prompt, which has no interval, with the windows of its map of places and steps."""
    one = min(len(config.prompts[: config.limit]), trace.prompts) == 1
    if not one or "windows" in trace.model_fields_set:
        return trace
    return trace.model_copy(update={"windows": min(WINDOWS, config.sampler.steps)})
