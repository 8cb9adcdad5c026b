"""Runs that a validation reads, whole."""

from __future__ import annotations

from pathlib import Path

from probes.errors import UserError
from probes.runs import completeness
from probes.runs.store import Run


def whole_run(path: Path) -> Run:
    """The run of a directory; a UserError names what is missing of it."""
    run = Run.open(path)
    if completeness.has_missing_parts(run):
        said = completeness.missing_message(run, completeness.missing(run))
        raise UserError(f"{run.path}: expected a run of which all is there: {said}")
    return run
