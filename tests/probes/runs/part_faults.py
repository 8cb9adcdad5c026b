"""Damaged part files of a finished run: mutations drawn from a seed."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

KINDS = ("samples", "captures", "words", "objects", "observed")


def mutate_part(run: Path, number: int) -> str:
    """Damage one part of a run in one way drawn from the number; says how."""
    draw = random.Random(number)
    file = draw.choice(sorted((run / draw.choice(KINDS)).glob("part-*.parquet")))
    acts = (
        _truncate,
        _flip,
        _flip,
        _footer,
        _drop,
        _retype,
        _rename,
        _order,
        _empty,
        _other,
        _remove,
        _null,
        _twice,
    )
    act = draw.choice(acts)
    return f"{number}: {act.__name__} {file.relative_to(run)}: {act(draw, file)}"


def _truncate(draw: random.Random, file: Path) -> str:
    data = file.read_bytes()
    size = draw.choice((0, 1, 4, 8, 12, len(data) // 2, len(data) - 8, len(data) - 1))
    file.write_bytes(data[:size])
    return f"to {size} of {len(data)}"


def _flip(draw: random.Random, file: Path) -> str:
    data = bytearray(file.read_bytes())
    where = [draw.randrange(len(data)) for _ in range(draw.choice((1, 3)))]
    for index in where:
        data[index] ^= 1 << draw.randrange(8)
    file.write_bytes(data)
    return f"bits at {where}"


def _footer(draw: random.Random, file: Path) -> str:
    """The end of the file says where everything is."""
    data = bytearray(file.read_bytes())
    size = int.from_bytes(data[-8:-4], "little")
    index = len(data) - 8 - draw.randrange(-8, size)
    index = min(index, len(data) - 1)
    data[index] = draw.randrange(256)
    file.write_bytes(data)
    return f"byte {index} of {len(data)}"


def _write(draw: random.Random, file: Path, table: pa.Table) -> None:
    """As another program writes it: sometimes without our metadata."""
    pq.write_table(table.replace_schema_metadata(None) if draw.random() < 0.8 else table, file)


def _table(file: Path) -> pa.Table:
    with pq.ParquetFile(file) as part:
        return part.read()


def _drop(draw: random.Random, file: Path) -> str:
    table = _table(file)
    name = draw.choice(table.column_names)
    _write(draw, file, table.drop_columns([name]))
    return name


def _retype(draw: random.Random, file: Path) -> str:
    table = _table(file)
    name = draw.choice(table.column_names)
    index = table.column_names.index(name)
    kinds = {
        "text": pa.array([str(value)[:20] for value in table[name].to_pylist()]),
        "numbers": pa.array(range(len(table)), pa.int64()),
        "lists": pa.array([[["x"]]] * len(table)),
        "nothing": pa.nulls(len(table)),
        "large": pa.array([2**40] * len(table)),
    }
    kind = draw.choice(sorted(kinds))
    _write(draw, file, table.set_column(index, name, kinds[kind]))
    return f"{name} as {kind}"


def _rename(draw: random.Random, file: Path) -> str:
    table = _table(file)
    name, new = draw.choice(table.column_names), draw.choice(("x", "", "unet.mid:cosine2", "triplet", "\0"))
    _write(draw, file, table.rename_columns([new if old == name else old for old in table.column_names]))
    return f"{name} to {new!r}"


def _order(draw: random.Random, file: Path) -> str:
    """Another order of columns is none of our business."""
    table = _table(file)
    names = draw.sample(table.column_names, len(table.column_names))
    _write(draw, file, table.select(names))
    return names[0]


def _empty(draw: random.Random, file: Path) -> str:
    _write(draw, file, _table(file).slice(0, 0))
    return "no rows"


def _other(draw: random.Random, file: Path) -> str:
    """A table of another kind in its place."""
    other = draw.choice([kind for kind in KINDS if kind != file.parent.name])
    file.write_bytes((file.parent.parent / other / file.name).read_bytes())
    return other


def _remove(draw: random.Random, file: Path) -> str:
    file.unlink()
    return "gone"


def _null(draw: random.Random, file: Path) -> str:
    table = _table(file)
    name = draw.choice(table.column_names)
    values = table[name].to_pylist()
    if values:
        values[draw.randrange(len(values))] = None
    column = pa.array(values, table.schema.field(name).type)
    _write(draw, file, table.set_column(table.column_names.index(name), name, column))
    return f"{name}"


def _twice(draw: random.Random, file: Path) -> str:
    table = _table(file)
    _write(draw, file, pa.concat_tables([table, table]))
    return "each row"
