"""Paths that a user wrote: ``~`` unfolded; addresses, and what no file system takes or no end is read of, refused."""

from __future__ import annotations

import errno
import os
import re
import stat
from pathlib import Path, PurePosixPath

from probes.errors import UserError

_COPIES = {"s3": "aws s3 sync", "gs": "gsutil rsync -r", "hf": "hf download"}
_BUNDLED = Path(__file__).parent / "toyworld" / "weights"
# of one letter it is a drive of Windows; a path object has one slash where two were written
_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/+(.*)", re.DOTALL)


def require_no_address(text: object, place: str = "") -> None:
    """Raise a `UserError` for an address such as ``s3://bucket/run`` where a path is expected; hides keys in it."""
    address = _ADDRESS.fullmatch(str(text))
    if address is None:
        return
    scheme = address[1].lower()
    remedy = f"copy it to a folder by `{_COPIES.get(scheme, 'rsync')}`, and name that"
    if scheme == "file":
        remedy = f"write /{address[2]} alone"
    got = repr(str(text)) if "@" not in str(text) else f"{scheme}:..."
    raise UserError(
        f"{place}{': ' if place else ''}expected a file or folder of this machine, got the address {got}: {remedy}"
    )


def expand(text: str | Path, place: str, folder: Path | None = None) -> Path:
    """Return the path of a file or folder to read, with ``~`` or ``~user`` expanded; it need not exist."""
    return require_regular(expand_run(text, place, folder), place)


def require_regular(path: Path, place: str = "") -> Path:
    """Return the path; a `UserError` if it is a pipe, a socket or a device. It need not exist."""
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
    """Return the path of a model's file or folder as `expand` does; a `UserError` if a file in it is no regular one."""
    path = expand(text, place)
    for file in (*path.glob("*"), *path.glob("*/*")) if path.is_dir() else ():
        require_regular(file, place)
    return path


def expand_run(text: str | Path, place: str, folder: Path | None = None) -> Path:
    """Return the path of a run directory, with ``~`` expanded, below `folder` if relative; it need not exist."""
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


def link_of(root: Path, name: str) -> Path | None:
    """Return the outermost symbolic link on the path `name` below `root`, that path included; None if there is none."""
    steps = [root / step for step in (name, *PurePosixPath(name).parents[:-1])]
    return next((step for step in reversed(steps) if step.is_symlink()), None)


def name_of(text: str) -> str:
    """Return a model's name for display: the last part of a path, ``triptych:PATH`` if bundled, else `text` itself."""
    try:
        path = Path(text).expanduser()
        is_path = path.is_absolute() or text.startswith(("./", "../", "~")) or path.exists()
    except (OSError, ValueError, RuntimeError):
        return text
    if path.is_relative_to(_BUNDLED):
        return f"triptych:{path.relative_to(_BUNDLED).as_posix()}"
    return (
        Path(os.path.abspath(path)).name
        if is_path and text.strip() and not _ADDRESS.fullmatch(text)
        else text
    )
