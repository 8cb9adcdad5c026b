"""How the studies open a run: of one that is not finished they say over how much they speak."""

from __future__ import annotations

import sys
from pathlib import Path

from probes import unfinished
from probes.errors import printable
from probes.store import Run


def opened(path: str | Path) -> Run:
    """Open a run; where parts of it are missing, or were when it was measured, say on stderr over how much it speaks.

    Raises
    ------
    UserError
        There is no run, or a part of an unfinished one is damaged.
    """
    run = Run.open(path)
    noted = run.meta.get(unfinished.KEY) or (unfinished.snapshot(run) if unfinished.lacking(run) else None)
    if noted:
        over = unfinished.said({unfinished.KEY: noted})
        print(printable(f"{run.path}: the run is not finished: over {over}"), file=sys.stderr)
    return run
