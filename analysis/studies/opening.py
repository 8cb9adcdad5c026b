"""Opening of runs for studies, with a sentence on how much of a run is there."""

from __future__ import annotations

from pathlib import Path

from probes.runs import completeness
from probes.runs.store import Run


def opened(path: str | Path) -> Run:
    """Open a run; where parts of it are missing, or were when it was measured, say on stderr over how much it speaks.

    Raises
    ------
    UserError
        There is no run, or a part of an unfinished one is damaged.
    """
    return completeness.restrict_to_whole(Run.open(path))
