"""Runs that a validation reads, whole."""

from __future__ import annotations

from pathlib import Path

from probes.runs.missing import require_parts
from probes.runs.run import Run


def whole_run(path: Path) -> Run:
    """The run of a directory; a UserError names what is missing of it."""
    run = Run.open(path)
    require_parts(run)
    return run
