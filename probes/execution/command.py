"""The settings that a stage which stores images is called with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from probes.config.schema import Config
from probes.execution.loop import note_damaged
from probes.execution.processes import Helpers
from probes.runs import directory
from probes.runs import parts as files
from probes.runs.record import REGISTERED
from probes.runs.run import Run
from probes.versions import versions

if TYPE_CHECKING:
    from probes.execution.on_ray import RayWorkers


@dataclass(frozen=True)
class StageCall:
    """Arguments of a stage that stores images, beside what it stores."""

    passed: Mapping[str, Any] | None = None  # the configuration as it was passed, for `run.json`
    text: str | None = None  # the same as a file, for the copy of `triplets.yaml`
    overwrite: bool = False  # remove what the directory holds, once the work can begin
    progress: bool = True  # show a progress bar with the time left
    # what the record keeps of the captions that prompts come from, see `probes.stages.captions`
    captions: Mapping[str, Any] | None = None
    # processes that are there already and may help; else the stage starts and ends those that are needed
    helpers: Helpers | None = None
    # workers of Ray that make the parts in the place of the processes of this machine
    cluster: RayWorkers | None = None
    # what the record keeps of the question that ends the run (`analysis.methods.stopping`)
    question: Mapping[str, Any] | None = None

    @contextmanager
    def helping(self) -> Iterator[Helpers]:
        """Hold the helpers of this process."""
        with nullcontext(self.helpers) if self.helpers else Helpers() as helpers:
            yield helpers

    def cleared(self, run: Run) -> None:
        """Remove what a run directory holds, where it is to be overwritten."""
        if self.overwrite:
            directory.clear(run)

    def record(
        self, run: Run, config: Config, damaged: Sequence[files.DamagedPartError], **fields: Any
    ) -> None:
        """Write ``run.json`` before the first part is made, and say which parts are made again.

        The record first: a folder that holds but a copy of a configuration is no run's.
        """
        run.write_meta(
            format=files.FORMAT,
            status="planned",
            name=config.name,
            config={"passed": dict(self.passed or {}), "resolved": config.resolved()},
            versions=versions(),
            **({"captions": self.captions} if self.captions else {}),
            **fields,
            **({REGISTERED: self.question} if self.question else {}),
            times={"created": run.meta.get("times", {}).get("created") or directory.now()},
        )
        directory.write_copy(run, self.text)
        note_damaged(run, damaged)
