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


def require_no_address(text: object, location: str = "") -> None:
    """Raise a UserError, at `location`, for an address such as ``s3://bucket/run`` where a path is expected."""
    address = _ADDRESS.fullmatch(str(text))
    if address is None:
        return
    scheme = address[1].lower()
    remedy = f"copy it to a folder by `{_COPIES.get(scheme, 'rsync')}`, and name that"
    if scheme == "file":
        remedy = f"write /{address[2]} alone"
    got = repr(str(text)) if "@" not in str(text) else f"{scheme}:..."
    raise UserError(
        f"{location}{': ' if location else ''}expected a file or folder of this machine, got the address {got}:"
        f" {remedy}"
    )


def expand(text: str | Path, location: str, folder: Path | None = None) -> Path:
    """Return the path of a file or folder to read, with ``~`` expanded; UserErrors, at `location`, name its faults."""
    return require_regular(expand_run(text, location, folder), location)


def require_regular(path: Path, location: str = "") -> Path:
    """Return a path, which need not exist; UserError, at `location`, if it is a pipe, a socket or a device."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):  # said where it is read
        return path
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        return path
    kind = "a pipe" if stat.S_ISFIFO(mode) else "a socket" if stat.S_ISSOCK(mode) else "a device"
    raise UserError(
        f"{location}{': ' if location else ''}{path}: expected a regular file, got {kind}: save what it gives as a"
        " file, and name that"
    )


def expand_model(text: str | Path, location: str) -> Path:
    """Return the path of a model as `expand` does; UserError, at `location`, if a file in it is no regular one."""
    path = expand(text, location)
    for file in (*path.glob("*"), *path.glob("*/*")) if path.is_dir() else ():
        require_regular(file, location)
    return path


def expand_run(text: str | Path, location: str, folder: Path | None = None) -> Path:
    """Return the path of a run, with ``~`` expanded, below `folder` if relative; UserError, at `location`, if none."""
    require_no_address(text, location)
    try:
        path = Path(folder or "") / Path(text).expanduser()
    except RuntimeError:
        raise UserError(
            f"{location}: expected a path, got {str(text)!r}, but no home of that user: write the folder out"
        ) from None
    try:
        os.lstat(path)
    except ValueError as error:  # also what cannot be encoded
        problem = "a NUL" if "null" in str(error) else "characters that no path can have"
        raise UserError(f"{location}: expected a path, got {problem} in {str(text)!r}: take it out") from None
    except OSError as error:
        if error.errno in (errno.ENAMETOOLONG, errno.ELOOP):
            raise UserError(
                f"{location}: expected a path, got {str(text)!r} ({error.strerror}): choose another"
            ) from None
    return path


def outermost_link(root: Path, name: str) -> Path | None:
    """Return the outermost symbolic link on the path `name` below `root`, itself included; None without a link."""
    steps = [root / step for step in (name, *PurePosixPath(name).parents[:-1])]
    return next((step for step in reversed(steps) if step.is_symlink()), None)


def display_name(text: str) -> str:
    """Return a model's name to show: the last part of a path, ``triptych:PATH`` if bundled, else `text` itself."""
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
