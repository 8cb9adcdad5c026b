"""The description of a stage for a worker: plain data, from which it plans the parts of a run again."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from probes.config.schema import Config
from probes.models import loading
from probes.runs.record import checksum
from probes.runs.store import Run

_KEPT = ("format", "name", "model", "scheduler", "part_fields", "parts", "images")  # of run.json


@dataclasses.dataclass(frozen=True)
class Job:
    """A stage of a run, or a question to it, in plain data."""

    run: str  # the run directory
    folder: str  # that in which the command was called, from which paths in a configuration lead
    # checksum of `run.json` as the driver wrote it, see `record_checksum`; None where there is none yet
    record: str | None
    # the configuration (:meth:`probes.config.schema.Config.resolved`); empty where that of `run.json` is meant
    config: Mapping[str, Any]
    model: Mapping[str, Any]  # name, path, revision and variant of the model; empty where there is none
    # what was resolved once, for all workers: weights, number format, sizes of batches, threads
    settings: Mapping[str, Any]

    @classmethod
    def of(
        cls, run: Run, config: Config | None = None, source: loading.Source | None = None, **settings: Any
    ) -> Job:
        """The job for a run as it is now."""
        return cls(
            run=os.path.abspath(run.path),
            folder=os.getcwd(),
            record=record_checksum(run),
            config=config.resolved() if config else {},
            model=_named(source) if source else {},
            settings=settings,
        )

    def source(self) -> loading.Source:
        """The model as this machine has it, by the name it has on the driver."""
        named = self.model
        found = loading.resolve(named["path"], revision=named["revision"], variant=named["variant"])
        return dataclasses.replace(found, name=named["name"])


def record_checksum(run: Run) -> str | None:
    """A checksum of what a run's record says from its beginning on; None where nothing is recorded yet.

    Not of all of it: a worker that joins late may look when the driver has gone on to the next stage.
    """
    if not run.meta:
        return None
    kept = {name: run.meta.get(name) for name in _KEPT} | {
        "created": run.meta.get("times", {}).get("created")
    }
    return checksum(json.loads(json.dumps(kept)))


def _named(source: loading.Source) -> dict[str, Any]:
    here = source.kind in ("folder", "file")
    return {
        "name": source.name,
        "path": str(Path(source.path).absolute()) if here else source.name.partition("@")[0],
        "revision": source.revision if source.kind == "hub" else None,
        "variant": source.variant if source.kind in ("hub", "folder") else None,
    }
