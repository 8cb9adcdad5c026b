"""Taking hold of a run directory: alone, as one of several shards, or to write results beside them.

Whoever writes to a run directory holds a lock of the system on a file in it, which ends with the process, however it
ends. There are three ways of holding it (`Hold`):

===========  ===================================  ==========================================================
hold         lock                                 what it may write
===========  ===================================  ==========================================================
``ALONE``    ``.lock`` exclusive                  everything
``SHARD``    ``.lock`` shared                     parts, a record of its own, ``run.json`` where there is none
``RESULTS``  ``.lock`` shared, and                tables, figures, the page, ``run.json``
             ``.lock-results`` exclusive
===========  ===================================  ==========================================================

So who is alone keeps out all others, any number of shards go on together, and one process at a time measures and
reports, also while shards draw. Where a file system has no such locks (some network ones; Windows) nothing keeps a
second process out: this is said on stderr, and temporary files are left alone until they are a day old. On object
storage a hold is an object that is renewed, see `probes.storage.lease`.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from probes.errors import UserError
from probes.execution.shards import merge_records
from probes.runs.directory import FOLDERS, LOCKS, folders
from probes.runs.parts import clean, disk_error, is_leftover
from probes.runs.store import Run
from probes.storage import lease
from probes.storage.locations import GUARDS, is_object, link_of, run_path
from probes.storage.locks import Lock

LOCK, RESULTS_LOCK = LOCKS
DAY = 86_400.0  # seconds: no file takes so long to write, and no two clocks of a cluster differ by so much


class Hold(Enum):
    """How a run directory is held, see the module."""

    ALONE = "alone"
    SHARD = "shard"
    RESULTS = "results"


class HeldError(UserError):
    """Another process holds the run directory."""


_ONE = "the only one writing here, found another process"
_SHARING = (
    "the only one writing here, found processes that share this folder (--shard, or measuring beside it)"
)
_MEASURING = "the only one measuring here, found another process that measures or reports"
_SHARD = (
    "one of several shards writing here, found another process that has this folder alone (without --shard)"
)


@contextlib.contextmanager
def claim(path: Path, hold: Hold = Hold.ALONE) -> Iterator[Run]:
    """Hold a run directory for writing, making it if there is none; what shards noted is gathered in its record.

    Yields
    ------
    Run
        The run that is there, or one with an empty ``meta``.

    Raises
    ------
    HeldError
        Another process holds it, and not so that both can.
    UserError
        The folder cannot be written, holds something else than a run or one whose record cannot be read.
    """
    path = run_path(path)
    _require_ours(path)
    if is_object(path):
        with _leased(path, hold):
            yield _opened(path, hold)
        return
    made = [folder for folder in (path, *path.parents) if not folder.exists()]
    with contextlib.ExitStack() as stack:
        try:
            path.mkdir(parents=True, exist_ok=True)
            results = stack.enter_context(Lock(path / RESULTS_LOCK)) if hold is Hold.RESULTS else None
            lock = stack.enter_context(Lock(path / LOCK))
        except OSError as error:
            _unmake(path, made)
            raise disk_error(path, error) from None
        if results and not results.taken():
            raise _held(path, _MEASURING)
        _take(lock, path, hold)
        if hold is not Hold.SHARD:  # what several hold is not one's to take away
            stack.callback(_unmake, path, made)
        with _kept(path, lock):
            yield _opened(path, hold)


class GoneError(UserError):
    """The run directory was taken away while it was held."""


@dataclass(frozen=True)
class _Folder:
    """A run directory of this machine that is held, among `probes.storage.locations.GUARDS`: nothing is written where it is gone.

    Attributes
    ----------
    root : Path
    lock : Lock
    """

    root: Path
    lock: Lock

    def require(self) -> None:
        """Raise a GoneError where the folder, or the lock in it, is not there any more."""
        if not self.lock.there():
            raise GoneError(
                f"{self.root}: expected the run directory to stay while it is worked on, found it removed, moved or"
                " replaced: put it back and run the same command again, or begin anew"
            )


@contextlib.contextmanager
def _kept(path: Path, lock: Lock) -> Iterator[None]:
    """See to it that a folder stays while it is held: whatever goes wrong where it does not is said to be that."""
    guard = _Folder(path, lock)
    GUARDS.append(guard)
    try:
        yield
        guard.require()
    except Exception as error:
        if not isinstance(error, GoneError):
            with contextlib.suppress(OSError):
                guard.require()
        raise
    finally:
        GUARDS.remove(guard)


def _opened(path: Path, hold: Hold) -> Run:
    """The run that is there, with what shards noted gathered where this process has its record alone."""
    run = Run.open(path) if (path / "run.json").exists() else Run(path, {})
    if hold is not Hold.SHARD:
        merge_records(run, alone=hold is Hold.ALONE)
    return run


@contextlib.contextmanager
def _leased(path: Path, hold: Hold) -> Iterator[None]:
    """Hold a run on object storage."""
    try:
        held = lease.Lease(path, hold.value).take()
    except lease.OtherHoldsError as other:
        by_shard = _SHARD if hold is Hold.SHARD else _ONE
        measuring = _MEASURING if hold is Hold.RESULTS else _SHARING
        found = {lease.ALONE: by_shard, lease.RESULTS: measuring, lease.SHARD: _SHARING}[other.hold]
        raise _held(path, f"{found} ({other.who})") from None
    with contextlib.closing(held):
        yield


def _take(lock: Lock, path: Path, hold: Hold) -> None:
    """Take the lock of a hold, and clear away what interrupted writers left."""
    alone = hold is not Hold.SHARD and lock.taken()
    if alone:
        _clean(path, None if lock.works else DAY)
    if hold is Hold.ALONE:
        if not alone:
            raise _held(path, _SHARING if lock.taken(shared=True) else _ONE)
    elif not lock.taken(shared=True):
        raise _held(path, _SHARD if hold is Hold.SHARD else _ONE)
    elif not alone:
        _clean(path, DAY)
    if not lock.works:
        print(
            f"{path}: this file system has no locks, nothing keeps a second process out: see to it that only one"
            " writes here, or shards alone",
            file=sys.stderr,
        )


def _held(path: Path, found: str) -> HeldError:
    return HeldError(f"{path}: expected to be {found}: let it end first")


def _clean(path: Path, older_than: float | None) -> None:
    names = (name for name in folders(path, FOLDERS) if link_of(path, name) is None)
    for folder in (path, *(path / name for name in names)):
        if folder.is_dir():
            clean(folder, older_than=older_than)


def _require_ours(path: Path) -> None:
    """Refuse a folder that holds something else than a run, before anything in it is touched."""
    try:
        names = {entry.name for entry in path.iterdir()} if is_object(path) or path.is_dir() else set()
    except OSError as error:
        raise disk_error(path, error) from None
    others = sorted(name for name in names if name not in (*LOCKS, lease.FOLDER) and not is_leftover(name))
    if others and not (path / "run.json").exists():  # another shard may have made it since
        raise UserError(
            f"{path}: expected an empty folder or a run, got other files ({others[0]}): choose another --out"
        )
    if others:
        Run.open(path)  # what it says when the record cannot be read is right with --overwrite too
    for name in sorted({*FOLDERS} & {*others}):
        if not is_object(path) and not (path / name).is_dir():
            raise UserError(
                f"{path / name}: expected a folder, got a file: move it away or choose another --out"
            )


def _unmake(path: Path, made: list[Path]) -> None:
    """Take away folders made for a run that came to nothing."""
    with contextlib.suppress(OSError):
        if made and path.is_dir() and {entry.name for entry in path.iterdir()} <= {*LOCKS}:
            for name in LOCKS:
                (path / name).unlink(missing_ok=True)
        for folder in made:
            folder.rmdir()
