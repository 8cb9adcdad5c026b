"""Paths that a user wrote: ``~`` unfolded, and what no file system takes refused in one line."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from probes.errors import UserError
from probes.storage import is_object, require_no_address, run_path


def expand(text: str | Path, place: str) -> Path:
    """Return the path, with a leading ``~`` or ``~user`` unfolded; it need not exist.

    Parameters
    ----------
    text
        The path as it was written.
    place
        Where it was written, for the error.

    Raises
    ------
    UserError
        There is no such user, no file system takes such a name (too long, with a NUL or a lone surrogate), or it is an
        address.

    Examples
    --------
    >>> expand("runs/first", "out").as_posix()
    'runs/first'
    """
    require_no_address(text, place)
    try:
        path = Path(text).expanduser()
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
    """Return the path of a run directory: as `expand` does, or the address of one on object storage.

    Parameters
    ----------
    text
        The path as it was written, or ``s3://bucket/run``.
    place
        Where it was written, for the error.

    Raises
    ------
    UserError
        No file system takes such a name, or it is no address of a run.

    Examples
    --------
    >>> str(expand_run("s3://bucket/runs/first/", "out"))
    's3://bucket/runs/first'
    """
    return run_path(str(text), place) if is_object(text) else expand(text, place)
