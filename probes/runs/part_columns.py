"""Checks of the columns of parts that another program made or changed: one line of error where it does not.

Parts that this program wrote carry digests of their columns and need no such check.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

import pyarrow as pa

from probes.errors import UserError

_LISTS = pa.list_(pa.float32())


def require_columns(path: Path, there: Collection[str], required: Iterable[str]) -> None:
    """Raise a UserError where a part lacks a column that is asked for."""
    for name in required:
        if name not in there:
            raise _wrong(path, f"a column `{name}`", "none")


def conform(path: Path, table: pa.Table, fixed: pa.Schema, columns: Sequence[str] | None) -> pa.Table:
    """The columns of a part in the types in which this program writes them: by name, or all that are fixed (None)."""
    for name in fixed.names if columns is None else columns:
        if table.column_names.count(name) != 1:
            raise _wrong(path, f"a column `{name}`", "none" if name not in table.column_names else "several")
    lists = path.parent.name == "captures"  # which has similarities of a site in each further column
    arrays = {}
    for name, values in zip(table.column_names, table.columns):
        wanted = fixed.field(name).type if name in fixed.names else _LISTS if lists else values.type
        try:
            arrays[name] = values.cast(wanted)
        except (pa.ArrowException, ValueError):
            raise _wrong(path, f"`{name:.60}` as {wanted}", f"{values.type!s:.60}") from None
    return pa.table(arrays)


def matching_columns(path: Path, table: pa.Table, first_path: Path, first: pa.Table) -> pa.Table:
    """The table of a part in the order of columns of the first part, without metadata."""
    require_names(path, table.column_names, first_path, first.column_names)
    for name in first.column_names:
        there, wanted = table.schema.field(name).type, first.schema.field(name).type
        if there != wanted:
            raise _wrong(path, f"`{name}` as in {first_path.name}", f"{there!s:.60}")
    return table.select(first.column_names).replace_schema_metadata(None)


def require_names(path: Path, names: Sequence[str], first_path: Path, first: Sequence[str]) -> None:
    """Raise a UserError where a part has other columns than the first of its kind."""
    other = sorted(set(names) ^ set(first))
    if other:
        raise _wrong(path, f"the columns of {first_path.name}", f"others (`{other[0]:.60}`)")


def _wrong(path: Path, expected: str, got: str) -> UserError:
    return UserError(f"{path}: expected {expected}, got {got}: mend this file, or delete it and run again")
