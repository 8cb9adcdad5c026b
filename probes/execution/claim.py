"""Work on a run directory: beside other processes or, to replace what it holds, alone (`probes.locks`)."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from probes import locks
from probes.errors import UserError
from probes.runs.parts import disk_error, is_leftover
from probes.runs.run import Run

DAY = 86_400.0  # seconds: no file takes so long to write, and no two clocks of a cluster differ by so much


@contextlib.contextmanager
def claim(path: Path, *, alone: bool = False) -> Iterator[Run]:
    """Yield the `Run` of a directory, created if missing, for work `alone` or beside others; else a `UserError`."""
    created = [folder for folder in (path, *path.parents) if not folder.exists()]
    with contextlib.ExitStack() as stack:
        stack.callback(_remove_new_folders, path, created)
        try:
            _require_run_folder(path)
            path.mkdir(parents=True, exist_ok=True)
            with locks.locked(path / locks.GATE):
                _register_process(path, alone, stack)
        except OSError as error:
            raise disk_error(path, error) from None
        try:
            yield Run.open(path) if (path / "run.json").exists() else Run(path, {})
            locks.require_there(path)
        except Exception as error:
            if not isinstance(
                error, locks.GoneError
            ):  # whatever goes wrong where it is gone is said to be that
                locks.require_there(path)
            raise


def _register_process(path: Path, alone: bool, stack: contextlib.ExitStack) -> None:
    """Mark a run as worked on until `stack` closes, and clean up; a `UserError` if another process must work alone."""
    others = [found for file in sorted(path.iterdir()) if (found := locks.lock_holder(file))]
    if others and (alone or others[0]["how"] == "alone"):
        who = f"process {others[0]['process']} on {others[0]['host']}"
        expected = "the only one writing here" if alone else "one of several writing here"
        found = "another process" if alone else "another process that replaces what is here"
        raise UserError(f"{path}: expected to be {expected}, found {found} ({who}): let it end first")
    host = re.sub(r"[^\w.-]", "_", socket.gethostname())[:64] or "_"
    how = "alone" if alone else "work"
    mine = path / f"{locks.GATE}-{how}-{host}-{os.getpid()}-{secrets.token_hex(4)}"
    mine.touch()
    stack.enter_context(locks.locked(mine, remove=True))
    held = locks.lock_of(mine).is_locked
    locks.WORKING[mine] = path
    stack.callback(locks.WORKING.pop, mine)
    if not held:
        line = (
            f"{path}: this file system has no locks, nothing keeps a second process from replacing what is here: see to"
            " it that none does"
        )
        print(line, file=sys.stderr)
    # what interrupted writers left; where others may be writing, what is old
    oldest = time.time() - (DAY if others or not held else -DAY)
    for file in path.rglob("*"):
        with contextlib.suppress(FileNotFoundError):  # another has removed it
            if is_leftover(file.name) and file.stat().st_mtime < oldest:
                file.unlink()
            elif file.name.endswith(".parquet.lock"):
                locks.remove_stale_lock(file)


def _require_run_folder(path: Path) -> None:
    """Raise a `UserError` if a folder holds files but no run, before anything in it is changed."""
    names = sorted(entry.name for entry in path.iterdir()) if path.is_dir() else []
    others = [name for name in names if not (locks.is_lock(name) or is_leftover(name))]
    if others and not (path / "run.json").exists():  # another process may have created it since
        raise UserError(
            f"{path}: expected an empty folder or a run, got other files ({others[0]}): choose another --out"
        )
    if others:
        Run.open(path)  # what it says when the record cannot be read is right with --overwrite too


def _remove_new_folders(path: Path, created: list[Path]) -> None:
    """Remove the folders that were created for a run, if they hold nothing but a lock."""
    with contextlib.suppress(OSError):
        if created and [entry.name for entry in path.iterdir()] == [locks.GATE]:
            locks.remove_stale_lock(path / locks.GATE)
        for folder in created:
            folder.rmdir()
