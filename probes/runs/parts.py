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
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import types

from probes import locks
from probes.errors import UserError, parse_json
from probes.runs.schemas import FIXED, IMAGE, SIMILARITIES, stage_of

if TYPE_CHECKING:
    import pandas as pd

FORMAT = 4  # of a run: its record, and what the generate stage stores
OBSERVED_FORMAT = 1  # of what the observe stage stores
FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_LEFTOVER = re.compile(r"\.tmp-[0-9a-f]{16}-.+", re.DOTALL)  # see `temporary_path`
_PART = re.compile(r"part-(\d+)\.parquet")
_TEXT = (types.is_string, types.is_large_string, types.is_string_view)
_NUMBERS = (types.is_integer, types.is_floating, types.is_boolean)
_NAME = b"triptych_table"  # of the metadata of a result table; files of other programs have none


def identity(part: int, fields: Mapping[str, Any], version: int = FORMAT) -> dict[str, Any]:
    """Return a part's identity: format version, part number, the fields that determine its content, their hash."""
    return {"format": version, "part": part, "hash": _hash_fields(fields), "fields": dict(fields)}


def _hash_fields(fields: Mapping[str, Any]) -> str:
    """Return the SHA-256 of the fields that determine a part's content, as JSON."""
    return digest(json.dumps(fields, sort_keys=True, ensure_ascii=False))


def digest(text: str | bytes) -> str:
    """Return the SHA-256 of a text (as UTF-8) or of bytes, in hexadecimal."""
    return hashlib.sha256(text.encode() if isinstance(text, str) else text).hexdigest()


def temporary_path(path: Path) -> Path:
    """Return a new path with a random name in a file's folder, to write to before the file is renamed."""
    return path.with_name(f".tmp-{secrets.token_hex(8)}-{path.name}")


def is_leftover(name: str) -> bool:
    """Return whether a file name is of a temporary file, such as an interrupted :func:`write_bytes` leaves behind."""
    return _LEFTOVER.fullmatch(name) is not None


def write_bytes(path: Path, data: bytes | memoryview, *, synced: bool = True) -> None:
    """Write a file completely or not at all (temporary file, fsync, rename); UserError if it cannot be written.

    A file that is not `synced` may be lost if the machine stops: many that are made again from others.
    """
    temporary_file = temporary_path(path)
    locks.require_not_removed(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)  # which Windows alone has
        with open(os.open(temporary_file, flags, 0o666), "wb", buffering=0) as file:
            view = memoryview(data)
            while len(view):
                view = view[os.write(file.fileno(), view) :]
            if synced:
                os.fsync(file.fileno())
        os.replace(temporary_file, path)
        if synced:
            _sync_folder(path.parent)
    except BaseException as error:
        with contextlib.suppress(OSError):  # the first error is the one to tell
            temporary_file.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise disk_error(path, error) from error
        raise


def _sync_folder(folder: Path) -> None:
    """Flush the entries of a folder to disk, on POSIX systems and where the file system can."""
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


def disk_error(path: Path, error: OSError) -> UserError:
    """Return the error for a file that cannot be written: no room on the disk, or the system's reason."""
    if error.errno in FULL:
        return UserError(
            f"{path}: expected room on the disk, got `{error.strerror}`:"
            " free some and run again, finished parts are kept"
        )
    return UserError(
        f"{path}: cannot be written ({error.strerror}): check the folder or choose another --out"
    )


def part_name(number: int) -> str:
    """Return the file name of a part, such as ``part-00003.parquet``."""
    return f"part-{number:05d}.parquet"


def part_files(folder: Path) -> dict[int, Path]:
    """Return the part files in a folder by number, ascending; empty if the folder does not exist."""
    files = {
        int(match[1]): file for file in folder.glob("part-*.parquet") if (match := _PART.fullmatch(file.name))
    }
    return dict(sorted(files.items()))


def parquet_bytes(table: pa.Table) -> memoryview:
    """Return a table as a Parquet file with page checksums; equal tables give equal bytes."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd", write_page_checksum=True, write_statistics=False)
    return memoryview(sink.getvalue())


def write_part(
    path: Path, rows: Sequence[Mapping[str, Any]], schema: pa.Schema, identity: Mapping[str, Any]
) -> None:
    """Write rows to a Parquet part file, completely or not at all, with `identity` in its metadata."""
    write_bytes(path, part_bytes(rows, schema, identity))


def part_bytes(
    rows: Sequence[Mapping[str, Any]], schema: pa.Schema, identity: Mapping[str, Any]
) -> memoryview:
    """Return rows as a Parquet file, with a part's identity and the column types for `datasets` as metadata."""
    table = pa.Table.from_pylist(list(rows), schema=schema)
    metadata = {
        "huggingface": json.dumps({"info": {"features": _dataset_features(schema)}}),
        "triptych": json.dumps(identity, sort_keys=True, ensure_ascii=False),
    }
    return parquet_bytes(table.replace_schema_metadata(metadata))


def _dataset_features(schema: pa.Schema) -> dict[str, Any]:
    """Return the types of a schema's columns in the notation of Hugging Face `datasets`, by column name."""
    return {field.name: _dataset_feature(field.type) for field in schema}


def _dataset_feature(kind: pa.DataType) -> Any:
    """Return one Arrow type in the notation of `datasets`: an image, a list, or a value of a dtype."""
    if kind == IMAGE:
        return {"_type": "Image"}
    if pa.types.is_list(kind):
        return [_dataset_feature(kind.value_type)]
    return {"dtype": "float32" if pa.types.is_float32(kind) else str(kind), "_type": "Value"}


def read_part(path: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """Return a part file as a table; DamagedPartError if it is corrupt, UserError if one of `columns` is missing.

    The columns of a part that another program wrote are cast to the types in which this one writes them.
    """
    # not pq.read_table: that would take a folder name such as `model=a` for a partition
    with _open_part(path) as file:
        table = file.read(columns=None if columns is None else list(columns))
        has_identity = _stored_identity(file) is not None
    fixed = FIXED.get(path.parent.name, pa.schema([]))
    for name in columns if columns is not None else () if has_identity else fixed.names:
        if (count := table.column_names.count(name)) != 1:
            raise columns_error(path, f"a column `{name}`", "several" if count else "none")
    if has_identity:
        return table
    arrays = {}
    for name, values in zip(table.column_names, table.columns):
        # captures have similarities of a site in each further column
        other = SIMILARITIES if path.parent.name == "captures" else values.type
        wanted = fixed.field(name).type if name in fixed.names else other
        try:
            arrays[name] = values.cast(wanted)
        except (pa.ArrowException, ValueError):
            raise columns_error(path, f"`{name:.60}` as {wanted}", f"{values.type!s:.60}") from None
    return pa.table(arrays, metadata=table.schema.metadata)


def column_names(path: Path) -> list[str]:
    """Return the column names of a part file."""
    with _open_part(path) as file:
        return file.schema_arrow.names


def source_hash(identity: Mapping[str, Any]) -> str:
    """Return the hash of a part, and its batch size if that was reduced, which parts made from it store."""
    return "-".join(str(identity[name]) for name in ("hash", "batch") if name in identity)


def read_identity(path: Path) -> dict[str, Any]:
    """Return the identity stored in a part file; UserError if another program wrote the file."""
    if (identity := identity_or_none(path)) is None:
        raise UserError(
            f"{path}: expected a part of this run, got a file of another program: move it away and run again"
        )
    return identity


def identity_or_none(path: Path) -> dict[str, Any] | None:
    """Return the identity stored in a part file; None if another program wrote the file."""
    with _open_part(path) as file:
        return _stored_identity(file)


def _stored_identity(file: pq.ParquetFile) -> dict[str, Any] | None:
    """Return the identity in a file's metadata, None without one; ValueError if its hash or columns do not match."""
    metadata = file.schema_arrow.metadata or {}
    if b"triptych" not in metadata:
        return None
    identity = parse_json(metadata[b"triptych"])
    if identity["hash"] != _hash_fields(identity["fields"]):
        raise ValueError("its identity is not the one written")
    # the footer, which holds names and types, has no checksum
    if parse_json(metadata[b"huggingface"])["info"]["features"] != _dataset_features(file.schema_arrow):
        raise ValueError("its columns are not those written")
    return identity


@contextlib.contextmanager
def _open_part(path: Path) -> Iterator[pq.ParquetFile]:
    """Yield an open part file; an error while it is read becomes DamagedPartError, a missing file UserError."""
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            yield file
    except FileNotFoundError:
        raise UserError(f"{path}: expected a part, found none: run again to make it") from None
    except (pa.ArrowException, OSError, ValueError, LookupError, TypeError, RecursionError) as error:
        first_line = (str(error).splitlines() or [""])[0][:120]
        stage = stage_of(path.parent.name)
        again = "it is made anew" if stage == "measure" else "only this part is made anew"
        raise DamagedPartError(
            f"{path}: expected a whole part, got a damaged file ({first_line}): run --stage {stage} again, {again}"
        ) from None


class DamagedPartError(UserError):
    """Raised for a part file that is truncated or corrupt; the stage that made it can make it again."""


def columns_error(path: Path, expected: str, got: str) -> UserError:
    """Return the error for a part file with columns that are not as expected."""
    return UserError(f"{path}: expected {expected}, got {got}: mend this file, or delete it and run again")


def table_bytes(name: str, frame: pd.DataFrame) -> memoryview:
    """Return a result table as a Parquet file with its name in the metadata; equal frames give equal bytes."""
    table = pa.Table.from_pandas(frame, preserve_index=False)
    return parquet_bytes(table.replace_schema_metadata({**table.schema.metadata, _NAME: name}))


def read_table(path: Path, columns: Iterable[str] = (), texts: Collection[str] | None = None) -> pd.DataFrame:
    """Return the result table in a file; UserError if it is the table of another name or lacks one of `columns`.

    Those of `columns` in `texts` must hold text, the others numbers or booleans; `texts` None: any type is accepted.
    """
    table = read_part(path)
    name = (table.schema.metadata or {}).get(_NAME, path.stem.encode()).decode(errors="replace")
    if name != path.stem:
        raise UserError(
            f"{path}: expected the table {path.stem}, found {name!s:.60}: put its own file back, or run --stage"
            " measure again"
        )
    frame = table.to_pandas()
    for column in columns:
        if column not in frame:
            raise UserError(f"{path}: expected a column `{column}`, found none: run --stage measure again")
        if texts is None:
            continue
        values, kind = frame[column].dropna(), table[column].type
        wrong: tuple[str, str] | None = None
        if values.empty:  # then it may have any type
            frame[column] = frame[column] if column in texts else frame[column].astype(float)
        elif not any(is_kind(kind) for is_kind in (_TEXT if column in texts else _NUMBERS)):
            wrong = "text" if column in texts else "numbers", str(kind)
        elif column.startswith("p_") and column not in texts and not values.between(0, 1).all():
            wrong = "numbers from 0 to 1", str(values[~values.between(0, 1)].iloc[0])
        if wrong:
            raise UserError(
                f"{path}: expected {wrong[0]} in the column `{column}`, found {wrong[1]:.60}: run --stage measure again"
            )
    return frame
