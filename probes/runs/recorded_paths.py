"""Paths in the record of a run: it says neither whose home it is nor where this machine keeps its files.

In memory a configuration names files as they can be opened. In ``run.json`` and in the records of shards they stand
(`probes.runs.recorded_files`)

- as ``triptych:toyworld/...`` where they come with this package;
- relative to the run directory (``../../models/sd``), so that both can be moved or copied together;
- as ``~/models/sd`` in the user's home, where a relative path would lead through its name;
- as they were written where they are no paths: the bundled models, models of the hub, addresses.

Of a run that was moved alone, what is not at its relative path is looked for as the run's copy of ``triplets.yaml``
or the command line named it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from probes.paths import is_address
from probes.toyworld import WEIGHTS

BUNDLED = "triptych:"
_NAMES = re.compile(r"toyworld[\w-]*|everyday")  # of what is in the package, whatever a folder here is called


def written(text: str, run: Path, *, from_home: bool = False) -> str:
    """Return how the record of a run writes a path; what is none, and no file of this machine, as it stands.

    `from_home`: what is in the user's home is written as it leads from there, also where the run is.
    """
    path = _path(text)
    if path is None or not (path.is_absolute() or path.exists()):
        return text
    place = Path(os.path.abspath(path))
    # the second where a link leads to its folder
    places = (place, Path(os.path.realpath(place.parent), place.name))
    if packed := _below(places, WEIGHTS):
        return f"{BUNDLED}{packed}"
    inside = next((way for home in _homes() if (way := _below(places, home))), None)
    at_home = f"~/{inside}" if inside else None
    if at_home and from_home:
        return at_home
    base = Path(os.path.realpath(run))
    near = next((one for one in places if one.parts[:2] == base.parts[:2]), place)
    if near.anchor != base.anchor:  # another drive of Windows
        return at_home or place.name
    way, through = Path(os.path.relpath(near, base)).as_posix(), Path(os.path.commonpath([near, base]))
    if at_home and not any(through.is_relative_to(home) for home in _homes()):
        return at_home
    return way if way.startswith("..") else f"./{way}"


def resolve_path(text: str, run: Path, otherwise: Callable[[], Iterable[Any]] = tuple) -> str:
    """Return a path that can be opened, of one that a record holds (`written`).

    `otherwise` gives what the user called it, for a run that was moved alone.
    """
    if text.startswith(BUNDLED):
        return str(WEIGHTS / text.removeprefix(BUNDLED))
    if not text.startswith(("./", "../")):
        return text
    text = os.path.normpath(os.path.join(os.path.realpath(run), text))
    others = () if os.path.lexists(text) else (one for one in otherwise() if isinstance(one, str))
    return next((one for one in others if (path := _path(one)) is not None and path.exists()), text)


def name_of(text: str) -> str:
    """Return what a page or a table calls a model or a checkpoint: of a file or a folder its name."""
    path = _path(text)
    if path is None:
        return text
    if path.is_absolute() and path.is_relative_to(WEIGHTS):
        return f"{BUNDLED}{path.relative_to(WEIGHTS).as_posix()}"
    is_path = path.is_absolute() or text.startswith(("./", "../", "~")) or path.exists()
    return Path(os.path.abspath(path)).name if is_path else text


def same(first: Any, second: Any) -> bool:
    """Return whether two texts name the same file: one that is there under both, or else of the same name."""
    if first == second or not (isinstance(first, str) and isinstance(second, str)):
        return bool(first == second)
    paths = _path(first), _path(second)
    if all(path is not None and path.exists() for path in paths):
        return os.path.samefile(*paths)  # type: ignore[arg-type]
    return name_of(first) == name_of(second)


def out(text: str) -> str:
    """Return a run directory as it would be written where the command was called; by its name where it is elsewhere."""
    path = _path(text)
    if path is None:
        return text
    return _below([Path(os.path.abspath(path))], Path.cwd()) or path.name


def hides_nothing(text: str) -> bool:
    """Return whether a path can be recorded as it was written: it is relative, and leads through no home."""
    path = _path(text)
    return path is None or not (path.is_absolute() or any(str(home) in text for home in _homes()))


def sentence(text: str, run: Path) -> str:
    """Return a sentence with the paths in it as they lead from the run or the home, or by their names."""
    for folder, short in (
        *((f"{folder}/", "") for folder in (run, os.path.abspath(run))),
        (f"{WEIGHTS}/", BUNDLED),
        *((str(home), "~") for home in _homes()),
    ):
        text = text.replace(folder, short)
    return re.sub(r"(?<![\w:~./])/[^\s:,;'\"`()]+", lambda path: Path(path[0]).name, text)


def _path(text: str) -> Path | None:
    """The path that a text may be; None of a name, an address, or what no file system takes."""
    if not text.strip() or _NAMES.fullmatch(text) or is_address(text) or text.startswith(BUNDLED):
        return None
    try:
        path = Path(text).expanduser()
        path.exists()
    except (OSError, ValueError, RuntimeError):
        return None
    return path


def _homes() -> list[Path]:
    """The user's home as it is called and as it is, where there is one."""
    try:
        home = Path(os.path.abspath(Path.home()))
    except RuntimeError:
        return []
    return [] if home.parent == home else list(dict.fromkeys((home, Path(os.path.realpath(home)))))


def _below(places: Iterable[Path], folder: Path) -> str | None:
    """The way from a folder to the first of some places that is in it."""
    return next(
        (place.relative_to(folder).as_posix() for place in places if place.is_relative_to(folder)), None
    )
