"""Runs that a validation reads, whole."""

from __future__ import annotations

from pathlib import Path

from probes.errors import UserError
from probes.runs import completeness
from probes.runs.store import Run


def whole_run(path: Path) -> Run:
    """Return the run of a directory.

    Raises
    ------
    UserError
        There is none, or a part is missing that something is made of; names what is missing.
    """
    run = Run.open(path)
    if completeness.has_missing_parts(run):
        said = completeness.missing_message(run, completeness.missing(run))
        raise UserError(f"{run.path}: expected a run of which all is there: {said}")
    return run
