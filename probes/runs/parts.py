"""Parts on disk: Parquet files written whole or not at all, each with a hash of what it was made from.

A part is written to a temporary file, fsynced and renamed: so a reader never sees half of one. Parquet's pages carry
checksums, so a flipped bit is found when the part is read. The metadata holds two keys: ``huggingface``, by which
``datasets.load_dataset("parquet", ...)`` shows the PNG bytes as images, and ``triptych``, the identity of the part:
every field that alters its content, and the hash of them all.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import secrets
import socket
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from probes import locks
from probes.errors import UserError
from probes.json_text import parse_json
from probes.runs.schemas import FIXED, IMAGE, SIMILARITIES

FORMAT = 4  # of a run: its record, and what the generate stage stores
OBSERVED_FORMAT = 1  # of what the observe stage stores
FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
# the stage that stores a kind of parts; the observe stage stores all others
_STAGES = {
    **dict.fromkeys(("samples", "captures", "words", "kept", "pooled"), "generate"),
    "traced": "trace",
    "tables": "measure",
}
TEMPORARY = ".tmp-"
# see `temporary`
_LEFTOVER = re.compile(rf"{re.escape(TEMPORARY)}\w{{1,16}}-\d+-[0-9a-f]{{8}}-.+", re.DOTALL)
_PART = re.compile(r"part-\d+\.parquet")


def identity(part: int, fields: Mapping[str, Any], version: int = FORMAT) -> dict[str, Any]:
    """The identity of a part: its format and number, the fields that alter its content, and their hash."""
    return {"format": version, "part": part, "hash": _hash(fields), "fields": dict(fields)}


def _hash(fields: Mapping[str, Any]) -> str:
    return digest(json.dumps(fields, sort_keys=True, ensure_ascii=False))


def digest(text: str | bytes) -> str:
    """SHA-256 in hexadecimal."""
    return hashlib.sha256(text.encode() if isinstance(text, str) else text).hexdigest()


def temporary(path: Path) -> Path:
    """Return where a file is written before it has its name: no other process, on whatever host, writes there.

    Two hosts can share the number of a process, so the name carries the host and a random part.
    """
    host = re.sub(r"\W", "_", socket.gethostname())[:16] or "_"
    return path.with_name(f"{TEMPORARY}{host}-{os.getpid()}-{secrets.token_hex(4)}-{path.name}")


def write_bytes(path: Path, data: bytes | memoryview) -> None:
    """Write a file whole or not at all: temporary file, fsync, rename."""
    beside = temporary(path)
    locks.require_there(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        how = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)  # which Windows alone has
        descriptor = os.open(beside, how, 0o666)
        try:
            view = memoryview(data)
            while len(view):
                view = view[os.write(descriptor, view) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(beside, path)
        _sync_folder(path.parent)
    except OSError as error:
        _discard(beside)
        raise disk_error(path, error) from error
    except BaseException:
        _discard(beside)
        raise


def _discard(beside: Path) -> None:
    """Remove a temporary file if it is there; where that fails too, the first error is the one to tell."""
    with contextlib.suppress(OSError):
        beside.unlink(missing_ok=True)


def disk_error(path: Path, error: OSError) -> UserError:
    """The line that tells the user what the disk refused."""
    if error.errno in FULL:
        return UserError(
            f"{path}: expected room on the disk, got `{error.strerror}`:"
            " free some and run again, finished parts are kept"
        )
    return UserError(
        f"{path}: cannot be written ({error.strerror}): check the folder or choose another --out"
    )


def _sync_folder(folder: Path) -> None:
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some network file systems cannot sync a folder
            raise
    finally:
        os.close(descriptor)


def part_name(number: int) -> str:
    """The name of the file of a part."""
    return f"part-{number:05d}.parquet"


def part_number(file: Path) -> int:
    """The number of a part, by the name of its file."""
    return int(re.sub(r"\D", "", file.stem))


def stage_of(kind: str) -> str:
    """The stage that stores a kind of parts."""
    return _STAGES.get(kind, "observe")


def part_files(folder: Path) -> list[Path]:
    """Part files in a folder, in order, also beyond five digits; none where it is not there."""
    files = (file for file in folder.glob("part-*.parquet") if _PART.fullmatch(file.name))
    return sorted(files, key=lambda file: (len(file.name), file.name))


def is_leftover(name: str) -> bool:
    """Return whether a file of this name is a temporary one that an interrupted :func:`write_bytes` left behind."""
    return _LEFTOVER.fullmatch(name) is not None


def parquet_bytes(table: pa.Table) -> memoryview:
    """A table as Parquet with checksums on its pages; the same table gives the same bytes."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd", write_page_checksum=True, write_statistics=False)
    return memoryview(sink.getvalue())


def write_part(
    path: Path, rows: Sequence[Mapping[str, Any]], schema: pa.Schema, identity: Mapping[str, Any]
) -> None:
    """Write one part: its rows, how Hugging Face `datasets` reads them, and its identity."""
    write_bytes(path, part_bytes(rows, schema, identity))


def part_bytes(
    rows: Sequence[Mapping[str, Any]], schema: pa.Schema, identity: Mapping[str, Any]
) -> memoryview:
    """The content of a part's file, see :func:`write_part`."""
    table = pa.Table.from_pylist([dict(row) for row in rows], schema=schema)
    metadata = {
        "huggingface": json.dumps({"info": {"features": _features(schema)}}),
        "triptych": json.dumps(identity, sort_keys=True, ensure_ascii=False),
    }
    return parquet_bytes(table.replace_schema_metadata(metadata))


def _features(schema: pa.Schema) -> dict[str, Any]:
    """Names and types of columns, as `datasets` writes them."""
    return {field.name: _feature(field.type) for field in schema}


def _feature(kind: pa.DataType) -> Any:
    if kind == IMAGE:
        return {"_type": "Image"}
    if pa.types.is_list(kind):
        return [_feature(kind.value_type)]
    return {"dtype": "float32" if pa.types.is_float32(kind) else str(kind), "_type": "Value"}


def read_part(path: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """Read one part, or some of its columns, checking that the values are those written."""
    # not pq.read_table: that would take a folder name such as `model=a` for a partition
    with _opened(path) as file:
        table = file.read(columns=None if columns is None else list(columns))
        own = _identity(file) is not None
    if own and {*(columns or ())} <= {*table.column_names}:
        return table
    return _conform(path, table, columns)


def column_names(path: Path) -> list[str]:
    """The columns of a part."""
    with _opened(path) as file:
        return list(dict.fromkeys(file.schema_arrow.names))


def source_hash(identity: Mapping[str, Any]) -> str:
    """What a part says of the one that it was made from: its hash, and the batch where that was halved."""
    return "-".join(str(identity[name]) for name in ("hash", "batch") if name in identity)


def read_identity(path: Path) -> dict[str, Any]:
    """The identity that was written with a part."""
    identity = identity_of(path)
    if identity is None:
        raise UserError(
            f"{path}: expected a part of this run, got a file of another program: move it away and run again"
        )
    return identity


def identity_of(path: Path) -> dict[str, Any] | None:
    """The identity that was written with a part; None where another program wrote it."""
    with _opened(path) as file:
        return _identity(file)


def _identity(file: pq.ParquetFile) -> dict[str, Any] | None:
    metadata = file.schema_arrow.metadata or {}
    if b"triptych" not in metadata:
        return None
    identity = parse_json(metadata[b"triptych"])
    if identity["hash"] != _hash(identity["fields"]):
        raise ValueError("its identity is not the one written")
    # the footer, which holds names and types, has no checksum
    if parse_json(metadata[b"huggingface"])["info"]["features"] != _features(file.schema_arrow):
        raise ValueError("its columns are not those written")
    return identity


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[pq.ParquetFile]:
    """A part that is open; what goes wrong as it is read is said to be its damage."""
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            yield file
    except FileNotFoundError:
        raise UserError(f"{path}: expected a part, found none: run again to make it") from None
    except (pa.ArrowException, OSError, ValueError, LookupError, TypeError, RecursionError) as error:
        raise _damaged(path, error) from None


class DamagedPartError(UserError):
    """A part is not as it was written: cut short, or with a bit flipped. The stage that made it makes it again."""


def _damaged(path: Path, error: Exception) -> DamagedPartError:
    first_line = (str(error).splitlines() or [""])[0][:120]
    stage = stage_of(path.parent.name)
    again = "it is made anew" if stage == "measure" else "only this part is made anew"
    return DamagedPartError(
        f"{path}: expected a whole part, got a damaged file ({first_line}): run --stage {stage} again, {again}"
    )


def _conform(path: Path, table: pa.Table, columns: Sequence[str] | None) -> pa.Table:
    """The columns of a part of another program, in the types in which this one writes them."""
    kind = path.parent.name
    schema = FIXED.get(kind, pa.schema([]))
    for name in schema.names if columns is None else columns:
        if (count := table.column_names.count(name)) != 1:
            raise _unlike(path, f"a column `{name}`", "several" if count else "none")
    arrays = {}
    for name, values in zip(table.column_names, table.columns):
        # captures have similarities of a site in each further column
        other = SIMILARITIES if kind == "captures" else values.type
        wanted = schema.field(name).type if name in schema.names else other
        try:
            arrays[name] = values.cast(wanted)
        except (pa.ArrowException, ValueError):
            raise _unlike(path, f"`{name:.60}` as {wanted}", f"{values.type!s:.60}") from None
    return pa.table(arrays, metadata=table.schema.metadata)


def matching(path: Path, table: pa.Table, first_path: Path, first: pa.Table) -> pa.Table:
    """The table of a part in the order of columns of the first part of its kind, without metadata."""
    if other := sorted({*column_names(path)} ^ {*column_names(first_path)}):  # also what is not read
        raise _unlike(path, f"the columns of {first_path.name}", f"others (`{other[0]:.60}`)")
    for name in first.column_names:
        got, wanted = table.schema.field(name).type, first.schema.field(name).type
        if got != wanted:
            raise _unlike(path, f"`{name}` as in {first_path.name}", f"{got!s:.60}")
    return table.select(first.column_names).replace_schema_metadata(None)


def _unlike(path: Path, expected: str, got: str) -> UserError:
    """The line that names a part whose columns are not as expected."""
    return UserError(f"{path}: expected {expected}, got {got}: mend this file, or delete it and run again")
