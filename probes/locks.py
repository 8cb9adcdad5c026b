"""Locks on files, which end with the process that holds them, however it ends; and who works on a run directory.

A process that works on a run directory holds a lock on a file of its own in it, ``.lock-work-HOST-PID-RANDOM``; any
number may. One that replaces what is there holds ``.lock-alone-...``, and nobody works beside it.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from probes.errors import UserError

GATE = ".lock"  # of a run directory, held for moments: to begin, to write `run.json`
MEASURING = ".lock-measure"  # held by the process that measures and reports
_NAME = re.compile(r"\.lock(-(?P<how>alone|work)-(?P<host>.+)-(?P<process>\d+)-[0-9a-f]{8}|-measure)?")
WORKING: dict[Path, Path] = {}  # by the lock file of this process in it, the run directory that it works on


def is_lock(name: str) -> bool:
    """Return whether a file name is that of a lock file in a run directory."""
    return _NAME.fullmatch(name) is not None


@contextlib.contextmanager
def locked(path: Path, *, wait: bool = True, remove: bool = False) -> Iterator[bool]:
    """Hold a lock file inside a ``with`` block and yield True; without `wait` yield False if another process has it.

    `remove`: take the file away at the end. Where a file system has no locks, nothing keeps a second process out.
    """
    lock = file_lock(path)
    try:
        lock.acquire(timeout=-1 if wait else 0)
    except Timeout:
        yield False
        return
    except (OSError, NotImplementedError):
        pass
    try:
        yield True
    finally:
        try:
            if remove:
                path.unlink(missing_ok=True)
        except OSError:  # Windows, where another process has it open
            pass
        finally:
            lock.release()


def file_lock(path: Path) -> FileLock:
    """Return the lock on a lock file; one object per path in a process, which may acquire it several times."""
    # never one by the mere existence of a file
    return FileLock(path, is_singleton=True, thread_local=False, fallback_to_soft=False, poll_interval=0.02)


def remove_stale_lock(path: Path) -> None:
    """Remove a lock file, unless this or another process holds it."""
    if not file_lock(path).is_locked:
        with locked(path, wait=False, remove=True):
            pass


def lock_holder(path: Path) -> re.Match[str] | None:
    """Return who holds a lock file (groups how, host, process); None if nobody, and then the file is removed."""
    holder = _NAME.fullmatch(path.name)
    if holder is None or not holder["how"]:
        return None
    remove_stale_lock(path)
    return holder if path.exists() else None


class RemovedRunError(UserError):
    """Error for a run directory that was removed, moved or replaced while this process worked on it."""


def require_not_removed(path: Path) -> None:
    """Raise a `RemovedRunError` if a path is in a run directory that was removed while this process uses it."""
    for mine, root in WORKING.items():
        if path.is_relative_to(root) and not mine.exists():
            raise RemovedRunError(
                f"{root}: expected the run directory to stay while it is worked on, found it removed, moved or"
                " replaced: put it back and run the same command again, or begin anew"
            )
