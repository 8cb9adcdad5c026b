"""Taking hold of a run directory: alone, as one of several shards, or to write results beside them.

Whoever writes to a run directory holds it (`Hold`), in one of three ways:

===========  ==========================================  =======================
hold         what it may write                           beside
===========  ==========================================  =======================
``ALONE``    everything                                  nobody
``SHARD``    parts, a record of its own, ``run.json``    shards, one for results
             where there is none
``RESULTS``  tables, figures, the page, ``run.json``     shards
===========  ==========================================  =======================

So who is alone keeps out all others, any number of shards go on together, and one process at a time measures and
reports, also while shards draw. On a disk a hold is a lock of the system, which ends with the process, however it ends
(`probes.storage.locks`). Where a file system has
no locks (some network ones) nothing keeps a second process out: this is said on stderr, and temporary files are left
alone until they are a day old.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

from probes.errors import UserError
from probes.execution.shards import merge_records
from probes.paths import link_of
from probes.runs.folders import FOLDERS, with_inner
from probes.runs.parts import clean, disk_error, is_leftover
from probes.runs.store import Run
from probes.storage.locks import GATE, GUARDS, FolderHold, GoneError, Hold, OtherHoldsError, is_lock

DAY = 86_400.0  # seconds: no file takes so long to write, and no two clocks of a cluster differ by so much


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
    """Hold a run directory for writing, making it if there is none; what shards noted is gathered in its record."""
    _require_ours(path)
    made = [folder for folder in (path, *path.parents) if not folder.exists()]
    lock = FolderHold(path, hold)
    with contextlib.ExitStack() as stack:
        try:
            path.mkdir(parents=True, exist_ok=True)
            _take(lock)
        except OSError as error:
            _unmake(path, made)
            raise disk_error(path, error) from None
        except OtherHoldsError as other:
            measuring = _MEASURING if hold is Hold.RESULTS else _SHARING
            by_shard = _SHARD if hold is Hold.SHARD else _ONE
            found = {Hold.ALONE: by_shard, Hold.RESULTS: measuring, Hold.SHARD: _SHARING}[other.hold]
            raise HeldError(f"{path}: expected to be {found} ({other.who}): let it end first") from None
        if hold is not Hold.SHARD:  # what several hold is not one's to take away
            stack.callback(_unmake, path, made)
        stack.callback(lock.close)
        with _kept(lock):
            yield _opened(path, hold)


def _take(lock: FolderHold) -> None:
    """Take a hold; in a folder clear away what interrupted writers left."""
    shared = lock.hold is Hold.SHARD
    lock.take(lambda only: _clean(lock.root, None if only and not shared else DAY))
    if not lock.works:
        print(
            f"{lock.root}: this file system has no locks, nothing keeps a second process out: see to it that only one"
            " writes here, or shards alone",
            file=sys.stderr,
        )


@contextlib.contextmanager
def _kept(lock: FolderHold) -> Iterator[None]:
    """See to it that a folder stays while it is held: whatever goes wrong where it does not is said to be that."""
    GUARDS.append(lock)
    try:
        yield
        lock.require()
    except Exception as error:
        if not isinstance(error, GoneError):
            with contextlib.suppress(OSError):
                lock.require()
        raise
    finally:
        GUARDS.remove(lock)


def _opened(path: Path, hold: Hold) -> Run:
    """The run that is there, with what shards noted gathered where this process has its record alone."""
    run = Run.open(path) if (path / "run.json").exists() else Run(path, {})
    if hold is not Hold.SHARD:
        merge_records(run, alone=hold is Hold.ALONE)
    return run


def _clean(path: Path, older_than: float | None) -> None:
    names = (name for name in with_inner(path, FOLDERS) if link_of(path, name) is None)
    for folder in (path, *(path / name for name in names)):
        if folder.is_dir():
            clean(folder, older_than=older_than)


def _require_ours(path: Path) -> None:
    """Refuse a folder that holds something else than a run, before anything in it is touched."""
    try:
        names = {entry.name for entry in path.iterdir()} if path.is_dir() else set()
    except OSError as error:
        raise disk_error(path, error) from None
    others = sorted(name for name in names if not (is_lock(name) or is_leftover(name)))
    if others and not (path / "run.json").exists():  # another shard may have made it since
        raise UserError(
            f"{path}: expected an empty folder or a run, got other files ({others[0]}): choose another --out"
        )
    if others:
        Run.open(path)  # what it says when the record cannot be read is right with --overwrite too
    for name in sorted({*FOLDERS} & {*others}):
        if not (path / name).is_dir():
            raise UserError(
                f"{path / name}: expected a folder, got a file: move it away or choose another --out"
            )


def _unmake(path: Path, made: list[Path]) -> None:
    """Take away folders made for a run that came to nothing."""
    with contextlib.suppress(OSError):
        if made and [entry.name for entry in path.iterdir()] == [GATE]:
            (path / GATE).unlink()
        for folder in made:
            folder.rmdir()
