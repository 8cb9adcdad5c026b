"""Checks of the columns of parts that another program made or changed: one line of error where it does not.

Parts that this program wrote carry digests of their columns and need no such check.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from probes.errors import UserError

_LISTS = pa.list_(pa.float32())
# what tells one row from another, and what no row may lack
_UNIQUE = {
    "samples": ("sample_id",),
    "captures": ("triplet", "seed", "pair"),
    "words": ("sample_id", "word_index"),
    "observed": ("sample_id",),
    "objects": ("sample_id", "object"),
    "traced": ("triplet", "seed", "variant"),
}
_FILLED = frozenset(
    {
        *("sample_id", "triplet", "seed", "indicator", "pair", "first", "second", "prompt", "word", "words"),
        *(
            "word_spans",
            "word_index",
            "heat",
            "height",
            "width",
            "definition",
            "object",
            "label",
            "mask",
            "status",
            "variant",
            "recipient",
        ),
    }
)


def require_columns(path: Path, there: Collection[str], required: Iterable[str]) -> None:
    """Raise a UserError where a part lacks a column that is asked for."""
    for name in required:
        if name not in there:
            raise _wrong(path, f"a column `{name}`", "none")


def conform(path: Path, table: pa.Table, fixed: pa.Schema, columns: Sequence[str] | None) -> pa.Table:
    """The columns of a part in the types that this program writes them in.

    Parameters
    ----------
    path : Path
        Of the part; its folder tells the kind.
    table : pa.Table
        What it holds.
    fixed : pa.Schema
        The columns of parts of this kind; in ``captures/`` lists of floats may follow them.
    columns : sequence of str, optional
        Those asked for; else all that are fixed.

    Raises
    ------
    UserError
        A column is missing or of another type, a value is missing or does not fit, or a row stands twice.
    """
    kind = path.parent.name
    for name in fixed.names if columns is None else columns:
        if table.column_names.count(name) != 1:
            number = "none" if name not in table.column_names else "several"
            raise _wrong(path, f"a column `{name}`", number)
    arrays: dict[str, pa.ChunkedArray] = {}
    for index, name in enumerate(table.column_names):
        if name in arrays:
            raise _wrong(path, f"a column `{name:.60}`", "several")
        values = table.column(index)
        wanted = fixed.field(name).type if name in fixed.names else values.type
        if kind == "captures" and name not in fixed.names:
            wanted = _LISTS
        try:
            arrays[name] = values if values.type == wanted else values.cast(wanted)
        except (pa.ArrowException, ValueError):
            raise _wrong(path, f"`{name:.60}` as {wanted}", f"{values.type!s:.60}") from None
        if name in _FILLED and name in fixed.names and values.null_count:
            raise _wrong(path, f"`{name}` in every row", f"{values.null_count} rows without")
    result = pa.table(arrays)
    keys = _UNIQUE.get(kind, ())
    if keys and set(keys) <= set(arrays) and result.group_by(list(keys)).aggregate([]).num_rows < len(result):
        raise _wrong(path, f"every {' and '.join(keys)} once", "rows that stand twice")
    _check_spans(path, result)
    _check_maps(path, result)
    return result


def _check_spans(path: Path, table: pa.Table) -> None:
    """The characters of a word are given by the first and the one after the last."""
    if "word_spans" in table.column_names:
        spans = pc.list_flatten(table["word_spans"])
        if spans.null_count or not pc.all(pc.equal(pc.list_value_length(spans), 2), min_count=0).as_py():
            raise _wrong(path, "two numbers for each span in `word_spans`", "something else")


def _check_maps(path: Path, table: pa.Table) -> None:
    """Heat maps and masks must have the size that stands beside them: what decodes masks does not look."""
    names = set(table.column_names)
    if {"heat", "height", "width"} <= names:
        lengths = pc.list_value_length(table["heat"]).to_pylist()
        sizes = zip(table["height"].to_pylist(), table["width"].to_pylist())
        if any(length != height * width or height < 1 for length, (height, width) in zip(lengths, sizes)):
            raise _wrong(path, "`heat` of `height` times `width` numbers", "another number")
    if {"mask", "height", "width"} <= names:
        sizes = zip(table["mask"].to_pylist(), table["height"].to_pylist(), table["width"].to_pylist())
        if any(height < 1 or mask_pixels(mask) != height * width for mask, height, width in sizes):
            raise _wrong(path, "`mask` as run lengths of `height` times `width` pixels", "something else")


def mask_pixels(counts: str) -> int | None:
    """Pixels that the counts of COCO's compressed run lengths stand for; None where they are none.

    Examples
    --------
    >>> mask_pixels("13")  # one outside, three inside, as in a mask of 2 x 2
    4
    >>> mask_pixels("a mask") is None
    True
    """
    runs: list[int] = []
    value = shift = 0
    for character in counts:
        code = ord(character) - 48
        if not 0 <= code < 64 or shift > 30:
            return None
        value |= (code & 31) << shift
        shift += 5
        if not code & 32:
            if code & 16:  # the last five bits carry the sign
                value -= 1 << shift
            if len(runs) > 2:
                value += runs[-2]
            if value < 0:
                return None
            runs.append(value)
            value = shift = 0
    return None if shift else sum(runs)


def matching_columns(path: Path, table: pa.Table, first_path: Path, first: pa.Table) -> pa.Table:
    """The table of a part in the order of columns of the first part, without metadata.

    Raises
    ------
    UserError
        It has other columns than the first, or columns of another type.
    """
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
