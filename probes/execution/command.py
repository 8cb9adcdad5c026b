"""The settings that a stage which stores images is called with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from probes.config.schema import Config
from probes.execution.cluster.driver import ClusterWorkers
from probes.execution.loop import note_damaged
from probes.execution.team import Team
from probes.runs import directory, folders
from probes.runs import parts as files
from probes.runs.selection import REGISTERED
from probes.runs.store import Run


@dataclass(frozen=True)
class StageCall:
    """Arguments of a stage that stores images, beside what it stores.

    Attributes
    ----------
    passed, text
        The configuration as it was passed, for ``run.json`` and the copy of ``triplets.yaml``.
    overwrite : bool
        Remove what the directory holds, once the work can begin.
    progress : bool
        Show a progress bar with the time left.
    captions : mapping, optional
        What the record keeps of the captions that prompts come from, see `probes.prompts.of_captions`.
    team : Team, optional
        Processes that are there already and may help; else those that are needed are started and ended by the stage.
    cluster : ClusterWorkers, optional
        Workers on other machines that make the parts in the place of the processes of this one.
    question : mapping, optional
        What the record keeps of the question that ends the run (`analysis.methods.stopping`).
    """

    passed: Mapping[str, Any] | None = None
    text: str | None = None
    overwrite: bool = False
    progress: bool = True
    captions: Mapping[str, Any] | None = None
    team: Team | None = None
    cluster: ClusterWorkers | None = None
    question: Mapping[str, Any] | None = None

    @contextmanager
    def helpers(self) -> Iterator[Team]:
        """Hold this process and its helpers."""
        with nullcontext(self.team) if self.team else Team() as team:
            yield team

    def cleared(self, run: Run) -> None:
        """Remove what a run directory holds, where it is to be overwritten."""
        if self.overwrite:
            folders.clear(run)

    def record(
        self, run: Run, config: Config, damaged: Sequence[files.DamagedPartError], **fields: Any
    ) -> None:
        """Write ``run.json`` before the first part is made, and say which parts are made again."""
        if self.question:
            fields[REGISTERED] = self.question
        directory.record(
            run, config, self.passed or {}, self.text, "planned", captions=self.captions, **fields
        )
        note_damaged(run, damaged)
