"""Paths that a user wrote: ``~`` unfolded, and what no file system takes, or no end is read of, refused in one line."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from probes.errors import UserError
from probes.storage.locations import is_object, require_no_address, run_path


def expand(text: str | Path, place: str, folder: Path | None = None) -> Path:
    """Return the path of a file or folder to read, with a leading ``~`` or ``~user`` unfolded; it need not exist."""
    return require_regular(_unfolded(text, place, folder), place)


def require_regular(path: Path, place: str = "") -> Path:
    """Return a path, once it is seen that what stands there, if anything, is a file or a folder."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):  # said where it is read
        return path
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        return path
    kind = "a pipe" if stat.S_ISFIFO(mode) else "a socket" if stat.S_ISSOCK(mode) else "a device"
    raise UserError(
        f"{place}{': ' if place else ''}{path}: expected a regular file, got {kind}: save what it gives as a file, and"
        " name that"
    )


def expand_model(text: str | Path, place: str) -> Path:
    """Return the path of a model, a file or a folder: as `expand` does, for the files in the folder as well."""
    path = expand(text, place)
    for file in (*path.glob("*"), *path.glob("*/*")) if path.is_dir() else ():
        require_regular(file, place)
    return path


def _unfolded(text: str | Path, place: str, folder: Path | None = None) -> Path:
    require_no_address(text, place)
    try:
        path = Path(folder or "") / Path(text).expanduser()
    except RuntimeError:
        raise UserError(
            f"{place}: expected a path, got {str(text)!r}, but no home of that user: write the folder out"
        ) from None
    try:
        os.lstat(path)
    except ValueError as error:  # also what cannot be encoded
        problem = "a NUL" if "null" in str(error) else "characters that no path can have"
        raise UserError(f"{place}: expected a path, got {problem} in {str(text)!r}: take it out") from None
    except OSError as error:
        if error.errno in (errno.ENAMETOOLONG, errno.ELOOP):
            raise UserError(
                f"{place}: expected a path, got {str(text)!r} ({error.strerror}): choose another"
            ) from None
    return path


def expand_run(text: str | Path, place: str) -> Path:
    """Return the path of a run directory: as `expand` does, or the address of one on object storage."""
    return run_path(str(text), place) if is_object(text) else _unfolded(text, place)
