"""An object of a bucket, or the prefix of several, under the names that `pathlib.Path` has for files."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Any

from probes.errors import UserError
from probes.storage import object_stores
from probes.storage.object_stores import requested

LARGEST = 5 * 2**30  # bytes that a single PUT of S3 takes; Google takes more


class ChangedError(Exception):
    """An object is not, or no longer, as a conditional write expected it."""


@dataclass(frozen=True, order=True)
class ObjectPath:
    """An object, or the prefix of several, by its address; has the names of `pathlib.Path` that a run directory needs.

    Attributes
    ----------
    scheme, bucket : str
    key : str
        Without a slash at either end; empty for the bucket itself.

    Examples
    --------
    >>> path = ObjectPath("s3", "bucket", "runs/first") / "tables" / "gap.csv"
    >>> str(path), path.name, path.stem, str(path.parent)
    ('s3://bucket/runs/first/tables/gap.csv', 'gap.csv', 'gap', 's3://bucket/runs/first/tables')
    """

    scheme: str
    bucket: str
    key: str

    def __str__(self) -> str:
        return f"{self.scheme}://{self.bucket}{'/' * bool(self.key)}{self.key}"

    def __truediv__(self, name: str) -> ObjectPath:
        return ObjectPath(self.scheme, self.bucket, f"{self.key}{'/' * bool(self.key)}{name}")

    @property
    def name(self) -> str:
        """The last component, or the bucket's name."""
        return self._pure.name or self.bucket

    @property
    def stem(self) -> str:
        """The last component without its suffix."""
        return self._pure.stem

    @property
    def parent(self) -> ObjectPath:
        """The prefix that this stands under; of a bucket itself."""
        return ObjectPath(self.scheme, self.bucket, str(self._pure.parent) if "/" in self.key else "")

    @property
    def _pure(self) -> PurePosixPath:
        return PurePosixPath(self.key)

    def resolve(self) -> ObjectPath:
        """This address: there are no links."""
        return self

    absolute = expanduser = resolve

    # What is there

    def exists(self) -> bool:
        """Whether there is an object of this name; a prefix is none, see `is_dir`. One request (HEAD)."""
        try:
            self._do(lambda store: store.head(self.key))
        except FileNotFoundError:
            return False
        return True

    is_file = exists

    def is_dir(self) -> bool:
        """Whether an object stands under this prefix. One request (LIST)."""
        return (
            next(iter(self._do(lambda store: next(iter(store.list(self.key, chunk_size=1)), ()))), None)
            is not None
        )

    def entries(self) -> dict[str, Mapping[str, Any] | None]:
        """What stands directly under this prefix, by name: of an object what the listing says of it, of a prefix None.

        One request (LIST) for each thousand.
        """
        found = self._do(lambda store: store.list_with_delimiter(self.key or None))
        names = {PurePosixPath(one).name: None for one in found["common_prefixes"]}
        return dict(
            sorted((names | {PurePosixPath(one["path"]).name: one for one in found["objects"]}).items())
        )

    def iterdir(self) -> Iterator[ObjectPath]:
        """Yield what stands directly under this prefix, in order of names."""
        return (self / name for name in self.entries())

    def glob(self, pattern: str) -> Iterator[ObjectPath]:
        """Yield what stands directly under this prefix and has a name that fits."""
        return (path for path in self.iterdir() if fnmatchcase(path.name, pattern))

    # Read, write, remove

    def read(self) -> tuple[bytes, dict[str, str]]:
        """Return the content of an object and its version, by which `write` is conditional. One request (GET)."""

        def get(store: Any) -> tuple[bytes, dict[str, str]]:
            found = store.get(self.key)
            return bytes(found.bytes()), _version(found.meta)

        return self._do(get)

    def read_bytes(self) -> bytes:
        """Return the content of an object; raises FileNotFoundError where there is none."""
        return self.read()[0]

    def read_text(self, encoding: str = "utf-8") -> str:
        """Return the content of an object as text."""
        return self.read_bytes().decode(encoding)

    def write(
        self, data: bytes | memoryview, expected: Mapping[str, str] | str | None = "any"
    ) -> dict[str, str]:
        """Write an object by a single PUT; return its version.

        Parameters
        ----------
        expected : mapping or None
            Write only where the object has this version still, or where there is none (None); else whatever is there.

        Raises
        ------
        ChangedError
            The object is not as expected.
        """
        if len(data) > LARGEST:
            raise UserError(
                f"{self}: expected at most {LARGEST / 2**30:.0f} GiB in a file, which one PUT writes, got"
                f" {len(data) / 2**30:.1f}: set generate.part_triplets to less"
            )
        mode = {"any": "overwrite"}.get(expected) if isinstance(expected, str) else expected or "create"
        view = memoryview(data).cast("B")

        def put(store: Any) -> dict[str, str]:
            return _version(store.put(self.key, view, mode=mode, use_multipart=False))

        return self._do(put, size=len(data), changed=mode != "overwrite")

    def unlink(self, missing_ok: bool = True) -> None:
        """Remove an object, if it is there. One request (DELETE)."""
        with contextlib.suppress(FileNotFoundError):  # not all storages say so
            self._do(lambda store: store.delete(self.key))

    def _delete(self, keys: list[str]) -> None:
        try:
            self._do(lambda store: store.delete(keys))
        except FileNotFoundError:  # others after it may be there still
            for key in keys:
                ObjectPath(self.scheme, self.bucket, key).unlink()

    def mkdir(self, parents: bool = False, exist_ok: bool = False) -> None:
        """Do nothing: a prefix is there once an object stands under it."""

    def rmdir(self) -> None:
        """Do nothing: a prefix is gone with the last object under it."""

    def _do(self, request: Callable[[Any], Any], *, size: int = 0, changed: bool = False) -> Any:
        store = object_stores.opened(self.scheme, self.bucket, size)
        with requested(str(self), ChangedError if changed else None):
            return request(store)


def tag(meta: Mapping[str, Any]) -> str:
    """By what contents are told apart, of an object's version or of what a listing says of it: quoted in some alone.

    >>> tag({"e_tag": '"0f4"'}) == tag({"e_tag": "0f4"})
    True
    """
    return str(meta.get("e_tag") or "").strip('"')


def _version(meta: Mapping[str, Any]) -> dict[str, str]:
    return {name: meta[name] for name in ("e_tag", "version") if meta.get(name) is not None}
