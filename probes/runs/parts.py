"""Parts on disk: Parquet files written whole or not at all, each with a hash of what it was made from.

A part is written to a temporary file, fsynced and renamed: so a reader never sees half of one. Pages carry
checksums and columns digests, so a flipped bit is found when the part is read. The Parquet metadata holds two keys:
``huggingface``, by which ``datasets.load_dataset("parquet", ...)`` shows the PNG bytes as images, and ``triptych``,
the identity of the part: every field that alters its content, the hash of them all, and the digests of its columns.
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
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from probes import locks
from probes.errors import UserError
from probes.json_text import parse_json
from probes.runs.part_columns import conform, require_columns
from probes.runs.schemas import FIXED, IMAGE

# of a run: its record, and what the generate stage stores; 2 stores the characters of words, 3 what is at fault with
# an image
FORMAT = 3
OBSERVED_FORMAT = 1  # of what the observe stage stores
FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
# that stores a kind of parts; the observe stage stores others
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


def is_part(name: str) -> bool:
    """Return whether a file of this name is a part."""
    return _PART.fullmatch(name) is not None


def part_name(number: int) -> str:
    """The name of the file of a part."""
    return f"part-{number:05d}.parquet"


def stage_of(kind: str) -> str:
    """The stage that stores a kind of parts."""
    return _STAGES.get(kind, "observe")


def part_files(folder: Path) -> list[Path]:
    """Part files in a folder, in order, also beyond five digits; none where it is not there."""
    there = (file for file in folder.glob("part-*.parquet") if is_part(file.name))
    return sorted(there, key=lambda file: (len(file.name), file.name))


def is_leftover(name: str) -> bool:
    """Return whether a file of this name is a temporary one that an interrupted :func:`write_bytes` left behind."""
    return _LEFTOVER.fullmatch(name) is not None


def parquet_bytes(table: pa.Table) -> memoryview:
    """A table as Parquet with checksums on its pages; the same table gives the same bytes."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd", write_page_checksum=True, write_statistics=False)
    return memoryview(sink.getvalue())


def write_part(
    path: Path, rows: Sequence[Mapping[str, Any]], schema: pa.Schema, ident: Mapping[str, Any]
) -> None:
    """Write one part: its rows, how Hugging Face `datasets` reads them, and its identity."""
    write_bytes(path, part_bytes(rows, schema, ident))


def part_bytes(rows: Sequence[Mapping[str, Any]], schema: pa.Schema, ident: Mapping[str, Any]) -> memoryview:
    """The content of a part's file, see :func:`write_part`."""
    table = pa.Table.from_pylist([dict(row) for row in rows], schema=schema)
    features = {field.name: _feature(field.type) for field in table.schema}
    stored = {**ident, "content": _contents(table)}
    metadata = {
        "huggingface": json.dumps({"info": {"features": features}}),
        "triptych": json.dumps(stored, sort_keys=True, ensure_ascii=False),
    }
    return parquet_bytes(table.replace_schema_metadata(metadata))


def read_part(path: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """Read one part, or some of its columns, checking that the values are those written."""
    try:
        # not pq.read_table: that would take a folder name such as `model=a` for a partition
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            table = file.read(columns=columns if columns is None else list(columns))
            metadata = parse_json((file.schema_arrow.metadata or {}).get(b"triptych", b"{}"))
            if "content" in metadata:
                require_columns(path, metadata["content"], columns or ())
                wanted = {name: metadata["content"].get(name) for name in columns or metadata["content"]}
                if wanted != _contents(table):
                    raise ValueError("its values are not those written")
    except FileNotFoundError:
        raise UserError(f"{path}: expected a part, found none: run again to make it") from None
    except (
        pa.ArrowException,
        OSError,
        ValueError,
        KeyError,
        AttributeError,
        TypeError,
        RecursionError,
    ) as error:
        raise damaged(path, error) from None
    kind = path.parent.name
    # with digests the columns are as this program wrote them
    return table if "content" in metadata or kind not in FIXED else conform(path, table, FIXED[kind], columns)


def column_names(path: Path) -> list[str]:
    """The columns of a part."""
    try:
        with pq.ParquetFile(path) as file:
            return list(dict.fromkeys(file.schema_arrow.names))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise damaged(path, error) from None


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
    try:
        with pq.ParquetFile(path) as file:
            metadata = file.schema_arrow.metadata or {}
        if b"triptych" not in metadata:
            return None
        identity = parse_json(metadata[b"triptych"])
        if not isinstance(identity, dict) or not isinstance(identity.get("fields", {}), dict):
            raise ValueError("its identity is not one")
        if "hash" in identity and identity["hash"] != _hash(identity.get("fields", {})):
            raise ValueError("its identity is not the one written")
        return identity
    except (pa.ArrowException, OSError, KeyError, ValueError, RecursionError) as error:
        raise damaged(path, error) from None


class DamagedPartError(UserError):
    """A part is not as it was written: cut short, or with a bit flipped. The stage that made it makes it again."""


def damaged(path: Path, error: Exception) -> DamagedPartError:
    """The line that names a damaged part."""
    first_line = (str(error).splitlines() or [""])[0][:120]
    stage = stage_of(path.parent.name)
    again = "it is made anew" if stage == "measure" else "only this part is made anew"
    return DamagedPartError(
        f"{path}: expected a whole part, got a damaged file ({first_line}): run --stage {stage} again, {again}"
    )


def _contents(table: pa.Table) -> dict[str, str]:
    """A digest of each column's values: page headers and the footer carry no checksum of their own."""
    digests = {}
    for name in table.column_names:
        total = hashlib.sha256()
        _feed(total, table[name].combine_chunks())
        digests[name] = f"{len(table)}-{total.hexdigest()[:24]}"
    return digests


def _feed(total: Any, values: pa.Array) -> None:
    if isinstance(values, pa.ChunkedArray):  # an empty column has no chunk to combine
        values = pa.concat_arrays(values.chunks) if values.num_chunks else pa.array([], values.type)
    total.update(np.packbits(values.is_null().to_numpy(zero_copy_only=False)).tobytes())
    kind = values.type
    if pa.types.is_list(kind):
        total.update(pc.fill_null(pc.list_value_length(values), -1).to_numpy(zero_copy_only=False).tobytes())
        _feed(total, values.flatten())
    elif pa.types.is_struct(kind):
        for child in values.flatten():  # null where the struct is: what lies beneath is not stored
            _feed(total, child)
    elif pa.types.is_string(kind) or pa.types.is_binary(kind):
        total.update(pc.fill_null(pc.binary_length(values), -1).to_numpy(zero_copy_only=False).tobytes())
        for value in values.drop_null().cast(pa.binary()):
            total.update(value.as_buffer())
    else:
        total.update(values.drop_null().to_numpy(zero_copy_only=False).tobytes())


def _feature(kind: pa.DataType) -> Any:
    if kind == IMAGE:
        return {"_type": "Image"}
    if pa.types.is_list(kind):
        return [_feature(kind.value_type)]
    return {"dtype": "float32" if pa.types.is_float32(kind) else str(kind), "_type": "Value"}
