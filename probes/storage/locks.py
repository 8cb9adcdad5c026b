"""Holds of a run directory on a disk: locks of the system on files, which end with the process that took them.

Each process that holds a run has a file of its own, ``.lock-HOLD-HOST-PID-RANDOM``, and a lock on it for as long as it
is at work. Who wants to hold the run looks at the files of holds that its own cannot go with (`AGAINST`): one that is
locked belongs to a process that is alive, one that is not was left by a process that was killed, and is removed. Both,
looking and taking, are done under the lock `GATE`, by one process at a time.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import socket
from collections.abc import Callable, Iterable
from enum import Enum
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from probes.errors import UserError

GATE = ".lock"
_PATIENCE = 60.0  # seconds that another process may take to look and take
_NAME = re.compile(rf"{re.escape(GATE)}(-(?P<hold>[a-z]+)-(?P<host>.+)-(?P<process>\d+)-[0-9a-f]{{8}})?")


class Hold(Enum):
    """Kinds of locks on a run directory, see `probes.storage.claim`."""

    ALONE = "alone"
    SHARD = "shard"
    RESULTS = "results"


AGAINST = {
    Hold.ALONE: (Hold.ALONE, Hold.SHARD, Hold.RESULTS),
    Hold.SHARD: (Hold.ALONE,),
    Hold.RESULTS: (Hold.ALONE, Hold.RESULTS),
}


class OtherHoldsError(Exception):
    """Another process holds the run."""

    def __init__(self, hold: Hold, who: str):
        super().__init__(f"{hold.value}: {who}")
        self.hold, self.who = hold, who


class GoneError(UserError):
    """The run directory was taken away while it was held."""


def is_lock(name: str) -> bool:
    """Return whether a file of this name is a lock of a run directory."""
    return _NAME.fullmatch(name) is not None


class FolderHold:
    """A hold of a run directory on a disk, from `take` to `close`; `works` says whether its file system has locks."""

    def __init__(self, root: Path, hold: Hold):
        self.root, self.hold, self.works = root, hold, True
        host = re.sub(r"[^\w.-]", "_", socket.gethostname())[:64] or "_"
        name = f"{GATE}-{hold.value}-{host}-{os.getpid()}-{secrets.token_hex(4)}"
        self._path = root / name
        self._lock = _lock(self._path)
        self._file: os.stat_result | None = None

    def take(self, begin: Callable[[bool], None] = lambda only: None) -> None:
        """Take the lock; `begin` is called before others can come, with whether no process holds the run in any way."""
        (self.root / GATE).touch()
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(_lock(self.root / GATE))
            except Timeout:
                raise OtherHoldsError(Hold.ALONE, "one that begins or is suspended") from None
            except OSError:  # some network file systems have no locks
                self.works = False
            if self.works and (other := self._other(AGAINST[self.hold])) is not None:
                raise other
            self._path.touch()
            self._file = self._path.stat()
            if self.works:
                self._lock.acquire()
            begin(self.works and self._other(Hold) is None)

    def taken(self) -> bool:
        """Take the lock, as `take` does; False where another process holds the run."""
        try:
            self.take()
        except OtherHoldsError:
            return False
        return True

    def close(self) -> None:
        """Let the run go, if it is held."""
        if self._file is not None:
            self._file = None
            self._lock.release()
            with contextlib.suppress(OSError):
                self._path.unlink()

    def require(self) -> None:
        """Say that the run directory is there still, and the lock in it; nothing where that is unknown."""
        try:
            there = self._file is None or os.path.samestat(self._file, self._path.stat())
        except (FileNotFoundError, NotADirectoryError):
            there = False
        except OSError:  # of a network file system that does not answer
            there = True
        if not there:
            raise GoneError(
                f"{self.root}: expected the run directory to stay while it is worked on, found it removed, moved or"
                " replaced: put it back and run the same command again, or begin anew"
            )

    def _other(self, holds: Iterable[Hold]) -> OtherHoldsError | None:
        """The first process that holds the run in one of these ways; what others left that were killed is removed."""
        names = {hold.value: hold for hold in holds}
        for path in sorted(self.root.iterdir()):
            found = _NAME.fullmatch(path.name)
            if found and found["hold"] in names and path != self._path and not _left(path):
                who = f"process {found['process']} on {found['host']}"
                return OtherHoldsError(names[found["hold"]], who)
        return None


def _lock(path: Path) -> FileLock:
    # never one by the mere existence of a file, which a process that is killed would leave
    return FileLock(path, timeout=_PATIENCE, poll_interval=0.01, thread_local=False, fallback_to_soft=False)


def _left(path: Path) -> bool:
    """Return whether a lock was left by a process that is gone; it is removed then."""
    try:
        _lock(path).acquire(timeout=0).lock.release()
        path.unlink(missing_ok=True)
    except Timeout:
        return False
    except OSError:  # another user's
        return not path.exists()
    return True


GUARDS: list[Any] = []  # of run directories that this process holds


def require_claim(path: Path) -> None:
    """Refuse to write a file in a run directory that this process held and that is gone."""
    guard = next((guard for guard in reversed(GUARDS) if f"{path}/".startswith(f"{guard.root}/")), None)
    if guard is not None:
        guard.require()
