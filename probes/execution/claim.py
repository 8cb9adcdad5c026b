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
    """Work on a run directory, making it if there is none; refused where it is not to be shared."""
    made = [folder for folder in (path, *path.parents) if not folder.exists()]
    with contextlib.ExitStack() as stack:
        stack.callback(_unmake, path, made)
        try:
            _require_ours(path)
            path.mkdir(parents=True, exist_ok=True)
            with locks.locked(path / locks.GATE):
                _begin(path, alone, stack)
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


def _begin(path: Path, alone: bool, stack: contextlib.ExitStack) -> None:
    """Begin work, until `stack` ends; refused while another process has it alone, or is to be kept out."""
    others = [found for file in sorted(path.iterdir()) if (found := locks.at_work(file))]
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
                locks.clear(file)


def _require_ours(path: Path) -> None:
    """Refuse a folder that holds something else than a run, before anything in it is touched."""
    names = sorted(entry.name for entry in path.iterdir()) if path.is_dir() else []
    others = [name for name in names if not (locks.is_lock(name) or is_leftover(name))]
    if others and not (path / "run.json").exists():  # another process may have made it since
        raise UserError(
            f"{path}: expected an empty folder or a run, got other files ({others[0]}): choose another --out"
        )
    if others:
        Run.open(path)  # what it says when the record cannot be read is right with --overwrite too


def _unmake(path: Path, made: list[Path]) -> None:
    """Take away folders made for a run that came to nothing."""
    with contextlib.suppress(OSError):
        if made and [entry.name for entry in path.iterdir()] == [locks.GATE]:
            locks.clear(path / locks.GATE)
        for folder in made:
            folder.rmdir()
