"""Workers of a cluster that are lost while they start: whether the run can still be hoped to go on.

On machines that may be taken away any number of workers is lost, many of them while they load models. They say nothing
about the run: neither those of a machine that is lost, nor any as long as parts are made meanwhile. Of a machine that
is taken away at once Ray hears first that its workers are lost, and notices only later that it is.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Set
from typing import NamedTuple

from probes.errors import UserError

MOST = 8  # lost in a row, after which the run ends
UNNOTICED = 30.0  # seconds until Ray notices, as it is set by default, that a machine is lost
_NODE = re.compile(r"node has died\. Node Id: (\w+)")


class LostStart(NamedTuple):
    """A worker that was lost before it was ready: its machine, if known, why, and when by `time.monotonic`."""

    node: str | None
    reason: str
    since: float


class LostStarts:
    """Workers that were lost before they were ready, since the last part was made or one was ready."""

    def __init__(self) -> None:
        self._lost: list[LostStart] = []

    def add(self, node: str | None, reason: str) -> None:
        """Note one more."""
        self._lost.append(LostStart(node, reason, time.monotonic()))

    def clear(self) -> None:
        """Forget them: something was done."""
        self._lost.clear()

    def require(self, lost_nodes: Callable[[], Set[str]]) -> None:
        """Refuse to go on where `MOST` were lost on machines that are there; a loss counts once that is known."""
        if len(self._lost) < MOST:
            return
        gone = lost_nodes()
        self._lost = [start for start in self._lost if start.node not in gone]
        count = len(self._lost)
        counted = [start for start in self._lost if start.since <= time.monotonic() - UNNOTICED]
        if len(counted) >= MOST:
            raise UserError(
                f"cluster: expected a worker to start, lost {count} in a row before they were ready"
                f" ({counted[-1].reason}): look into Ray's logs, give each more memory, or use fewer workers"
            )


def lost_node(error: Exception) -> str | None:
    """The machine that Ray says was lost with a worker, also one that was lost before it could say where it is."""
    said = _NODE.search(str(error))
    return said[1] if said else None
