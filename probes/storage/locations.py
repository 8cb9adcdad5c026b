"""Location of a run directory: a folder of this machine, or a prefix on object storage, ``s3://bucket/run`` or ``gs://``.

`run_path` gives a `pathlib.Path` for the one and an `ObjectPath` for the other, which answers to the same names as far
as a run directory needs them. What differs beyond names stands here as well: how a file is opened for random reads
(`parquet`), written whole (`put`) and removed (`remove`).

An object is written by a single PUT: it is there whole or not at all, and no request is divided. On object storage
there are no folders: what has a common prefix is listed as one.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq

from probes.errors import UserError
from probes.storage.objects import SCHEMES, ChangedError, ObjectPath

TAIL = 2**18  # bytes that are read with the footer of a Parquet file; a smaller file is read at once
_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
# of one letter it is a drive of Windows
_MEANT = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(/*)(.*)", re.DOTALL)
_ALSO = {"gcs": "gs", "s3a": "s3", "s3n": "s3"}  # what other programs call those that are known
_OTHERS = {
    "file",
    "http",
    "https",
    "ftp",
    "sftp",
    "hdfs",
    "az",
    "abfs",
    "abfss",
    "wasb",
    "wasbs",
    "oss",
    "memory",
}
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,220}[A-Za-z0-9]")


def is_object(text: object) -> bool:
    """Return whether a path, as text or as such, is an address on object storage."""
    return isinstance(text, ObjectPath) or (isinstance(text, str) and _ADDRESS.match(text) is not None)


def meant_address(text: object) -> str | None:
    """Return the address that a text is, or is meant as; None of a path of this machine.

    A path object has one slash where two were written, and a folder called ``s3:`` is nobody's wish.
    """
    found = _MEANT.fullmatch(str(text))
    if found is None:
        return None
    scheme, slashes, rest = found[1].lower(), found[2], found[3]
    scheme = _ALSO.get(scheme, scheme)
    if not slashes and scheme not in (*SCHEMES, *_OTHERS):
        return None
    return f"{scheme}://{'/' if scheme == 'file' and slashes else ''}{rest}"


def require_no_address(text: object, place: str = "") -> None:
    """Refuse an address where a path of this machine, or an address as it is to be written, is expected."""
    address = meant_address(text)
    if address is None:
        return
    scheme, _, rest = address.partition("://")
    at, got = f"{place}: " if place else "", repr(str(text)) if "@" not in str(text) else f"{scheme}:..."
    if scheme == "file":
        raise UserError(f"{at}expected a folder, got {got}: write {rest or 'its path'} alone")
    if scheme not in SCHEMES:
        known = " or ".join(f"{one}://bucket/run" for one in SCHEMES)
        named = address if "@" not in address else f"{scheme}://"
        raise UserError(
            f"{at}expected a folder or {known}, got another kind of address ({named}): choose one of them"
        )
    right = address if "@" not in address else f"{scheme}://bucket/run"
    raise UserError(f"{at}expected a folder or an address, got {got}, which is neither: write {right}")


def run_path(text: str | Path | ObjectPath, place: str = "") -> Path:
    """Return where a run is; what is no address is a path of this machine, as it stands.

    An `ObjectPath` is returned under the type of the other, whose names it has.
    """
    if isinstance(text, ObjectPath):
        return cast(Path, text)
    address = _ADDRESS.match(str(text))
    if isinstance(text, Path) or address is None or address[1] not in SCHEMES:
        require_no_address(text, place)
        return Path(text) if isinstance(text, str) else text
    scheme, rest = address.groups()
    at = f"{place}: " if place else ""
    bucket, _, key = rest.partition("/")
    if not _BUCKET.fullmatch(bucket):  # which may hold a key and a secret: it is not repeated
        raise UserError(
            f"{at}{scheme}://: expected the name of a bucket (letters, digits, dots, dashes), got something else: write"
            f" {scheme}://bucket/run; keys go into the environment or a profile"
        )
    parts = [part for part in key.split("/") if part]
    wrong = next((part for part in parts if part in (".", "..") or not part.isprintable()), None)
    if wrong is not None or not parts:
        found = repr(wrong) if parts else "the bucket itself"
        raise UserError(
            f"{at}{scheme}://{bucket}: expected the prefix of a run in it, such as {scheme}://{bucket}/runs/first, got"
            f" {found}: write one"
        )
    return cast(Path, ObjectPath(scheme, bucket, "/".join(parts)))


# One function for both kinds of path


_OPENED: dict[ObjectPath, _Object | pa.Buffer] = {}


@contextmanager
def once(path: Path, *, whole: bool = False) -> Iterator[None]:
    """Open an object once for all that reads of it in the block; raises FileNotFoundError where it is not there."""
    if not isinstance(path, ObjectPath):
        yield
        return
    _OPENED[path] = _opened(path, whole)
    try:
        yield
    finally:
        del _OPENED[path]


def _opened(path: ObjectPath, whole: bool) -> _Object | pa.Buffer:
    return pa.py_buffer(path.read_bytes()) if whole else _Object(path)


def parquet(path: Path, *, whole: bool = False, **options: Any) -> pq.ParquetFile:
    """Open a Parquet file: of an object its end is read, and then what is asked for, or all of it by one request."""
    if not isinstance(path, ObjectPath):
        return pq.ParquetFile(path, **options)
    file = _OPENED[path] if path in _OPENED else _opened(path, whole)
    if isinstance(file, _Object):
        return pq.ParquetFile(pa.PythonFile(file, mode="r"), pre_buffer=True, **options)
    return pq.ParquetFile(pa.BufferReader(file), **options)


def present(paths: Iterable[Path]) -> set[Path]:
    """Those of some files that are there; on object storage each prefix is listed once."""
    requested = list(paths)
    prefixes = {cast(ObjectPath, path.parent) for path in requested if isinstance(path, ObjectPath)}
    listed = {str(prefix): prefix.entries() for prefix in prefixes}
    return {
        path
        for path in requested
        if (path.name in listed[str(path.parent)] if isinstance(path, ObjectPath) else path.exists())
    }


class _Object(io.RawIOBase):
    """An object for random reads: its end at once, the rest by ranges as they are asked for."""

    def __init__(self, path: ObjectPath) -> None:
        self._path, self._at = path, 0
        self._tail, self.size = path._do(self._end)

    def _end(self, store: Any) -> tuple[bytes, int]:
        try:
            found = store.get(self._path.key, options={"range": {"suffix": TAIL}})
            return bytes(found.bytes()), found.meta["size"]
        except Exception:
            if store.head(self._path.key)["size"]:
                raise
            return b"", 0  # of an empty object no store has an end

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self.size}[whence]
        return self._at

    def read(self, size: int = -1) -> bytes:
        start, stop = self._at, self.size if size < 0 else min(self.size, self._at + size)
        self._at = max(start, stop)
        if stop <= start:
            return b""
        known = self.size - len(self._tail)
        if start >= known:
            return self._tail[start - known : stop - known]
        return bytes(self._path._do(lambda store: store.get_range(self._path.key, start=start, end=stop)))


# of run directories that this process holds (`probes.storage.claim`): who is asked before anything is written or
# removed under a prefix, of several the last
GUARDS: list[Any] = []


def _guard(path: Path | ObjectPath) -> Any | None:
    return next((guard for guard in reversed(GUARDS) if f"{path}/".startswith(f"{guard.root}/")), None)


def require_claim(path: Path) -> None:
    """Refuse to write a file of this machine in a run directory that this process held and that is gone."""
    if (guard := _guard(path)) is not None:
        guard.require()


def put(path: ObjectPath, data: bytes | memoryview) -> None:
    """Write an object of a run, once its guard has said that this process holds the run still."""
    guard = _guard(path)
    if guard is None:
        path.write(data)
    else:
        guard.write(path, data)


def create(path: ObjectPath, data: bytes | memoryview) -> bool:
    """Write an object unless there is one, whoever writes it at the same moment; say whether it was written."""
    if (guard := _guard(path)) is not None:
        guard.require()
    try:
        path.write(data, None)
    except ChangedError:
        return path.read_bytes() == bytes(data)  # a request that was sent twice finds its own
    return True


def link_of(root: Path, name: str) -> Path | None:
    """The link below a folder by which a path in it would leave it, or that it is itself; None where there is none."""
    if isinstance(root, ObjectPath):
        return None
    steps = [root / step for step in (name, *PurePosixPath(name).parents[:-1])]
    return next((step for step in reversed(steps) if step.is_symlink()), None)


def remove(paths: Iterable[Path]) -> None:
    """Remove files that are there, those of object storage together; raises OSError as the disk does."""
    objects: dict[tuple[str, str], list[ObjectPath]] = {}
    for path in paths:
        if isinstance(path, ObjectPath):
            objects.setdefault((path.scheme, path.bucket), []).append(path)
        elif path.is_symlink() or path.is_file():
            path.unlink()
    for some in objects.values():
        for guard in {id(guard): guard for guard in map(_guard, some) if guard is not None}.values():
            guard.require()
        some[0]._delete([path.key for path in some])
