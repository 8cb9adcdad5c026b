"""Work on a run directory: beside other processes or, to replace what it holds, alone (`probes.locks`)."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

from probes.errors import UserError
from probes.locks import GATE, GoneError, clear, is_lock, require_there, working
from probes.paths import link_of
from probes.runs.directory import with_inner
from probes.runs.parts import disk_error, is_leftover
from probes.runs.run import Run
from probes.runs.schemas import FOLDERS

DAY = 86_400.0  # seconds: no file takes so long to write, and no two clocks of a cluster differ by so much


@contextlib.contextmanager
def claim(path: Path, *, alone: bool = False) -> Iterator[Run]:
    """Work on a run directory, making it if there is none; refused where it is not to be shared."""
    _require_ours(path)
    made = [folder for folder in (path, *path.parents) if not folder.exists()]
    with contextlib.ExitStack() as stack:
        stack.callback(_unmake, path, made)
        try:
            path.mkdir(parents=True, exist_ok=True)
            stack.enter_context(
                working(path, alone=alone, begin=lambda only: _clean(path, None if only else DAY))
            )
        except OSError as error:
            raise disk_error(path, error) from None
        try:
            yield Run.open(path) if (path / "run.json").exists() else Run(path, {})
        except Exception as error:
            if not isinstance(error, GoneError):  # whatever goes wrong where it is gone is said to be that
                require_there(path)
            raise


def _clean(path: Path, older_than: float | None) -> None:
    """Remove what interrupted writers left; where others may be writing, what is old."""
    names = (name for name in with_inner(path, FOLDERS) if link_of(path, name) is None)
    for folder in (path, *(path / name for name in names)):
        for file in sorted(folder.iterdir()) if folder.is_dir() else ():
            if is_leftover(file.name) and (older_than is None or _age(file) > older_than):
                file.unlink(missing_ok=True)
            elif file.name.endswith(".parquet.lock"):
                clear(file)


def _age(file: Path) -> float:
    with contextlib.suppress(FileNotFoundError):
        return time.time() - file.stat().st_mtime
    return 0.0


def _require_ours(path: Path) -> None:
    """Refuse a folder that holds something else than a run, before anything in it is touched."""
    try:
        names = {entry.name for entry in path.iterdir()} if path.is_dir() else set()
    except OSError as error:
        raise disk_error(path, error) from None
    others = sorted(name for name in names if not (is_lock(name) or is_leftover(name)))
    if others and not (path / "run.json").exists():  # another process may have made it since
        raise UserError(
            f"{path}: expected an empty folder or a run, got other files ({others[0]}): choose another --out"
        )
    if others:
        Run.open(path)  # what it says when the record cannot be read is right with --overwrite too
    for name in sorted({*FOLDERS} & names):
        if not (path / name).is_dir():
            raise UserError(
                f"{path / name}: expected a folder, got a file: move it away or choose another --out"
            )


def _unmake(path: Path, made: list[Path]) -> None:
    """Take away folders made for a run that came to nothing."""
    with contextlib.suppress(OSError):
        if made and [entry.name for entry in path.iterdir()] == [GATE]:
            clear(path / GATE)
        for folder in made:
            folder.rmdir()
