"""The rows that describe images of another program, read from a table (`probes.user_tables`) or from file names.

A row is named by its place, so that an error names its line; the image itself is read later (`read_image_bytes`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any
from unicodedata import normalize

import pandas as pd
import pyarrow as pa

from probes.config.generation import Images
from probes.errors import UserError
from probes.fields.types import shown
from probes.paths import expand, require_regular
from probes.prompts.forms import LEVEL_COLUMNS
from probes.runs.images import find_images, skipped_files_note
from probes.user_tables import ENDINGS, UserTable, find_file, open_table, opened_parquet

ROWS = 10_000_000  # of a table, at most
IMAGE_COLUMNS = ("image", "file", "file_name", "path")  # looked for in this order where none is named
# of file names; the last tells images apart, no more
FIELDS = ("prompt", "indicator", "seed", "triplet", "number")
PROMPT_ID = "prompt_id"  # one more, beside prompts that have ids
_FIELD = re.compile(r"\{(\w*)\}")
_PIECES = {"indicator": "[A-Za-z][A-Za-z0-9_]*?", "seed": "[0-9]+", "number": "[^/_]+"}
# types of Arrow, in any layout: of bytes alone, and of what `datasets` stores of an image
_BYTES = r"(large_|fixed_size_)?binary(_view)?(\[\d+\])?"
_STORED = {"": _BYTES, "bytes": rf"{_BYTES}|null", "path": r"(large_)?string(_view)?|null"}

Log = Callable[[str], object]
# a file, or a Parquet file with column, row group and row in it
ImageLocation = tuple[Path] | tuple[Path, str, int, int]


def find_source(section: Images, folder: Path) -> Path:
    """Return the absolute path of the table or folder in ``images.from``; UserError if it does not exist."""
    path = expand(section.from_, "images.from", folder).absolute()
    if not path.exists():
        raise UserError(
            f"images.from: expected a table or a folder of images, found none at {path}: check the path"
        )
    return path


def has_indicators(section: Images, path: Path) -> bool:
    """Return whether the rows of external images name an indicator, in a table's column or in file names."""
    if section.names is not None:
        return "indicator" in _FIELD.findall(section.names)
    if "indicator" in section.model_fields_set:
        return True
    return any(section.indicator in _open_table(section, file).columns for file in _tables(path))


def read_rows(
    section: Images,
    path: Path,
    *,
    by_prompt: bool = False,
    by_id: bool = False,
    levels: Sequence[str] | None = (),
    log: Log = lambda line: None,
) -> pd.DataFrame:
    """Return a row per external image of a table, or of the files in a folder; its index is the location for errors.

    ``image`` is an `ImageLocation`; ``levels`` is a mapping; ``seed``, ``triplet`` and ``prompt_id`` are None if no
    column or name gives them, the last empty in a row that leaves it open. Where the prompt (`by_prompt`) or its id
    (`by_id`) tells the indicator, no row has to name it.
    `levels` None: those columns of `probes.prompts.forms.LEVEL_COLUMNS` that are there. `log` takes a line on what was
    not read, or read as something else.
    """
    required = ["prompt", *(() if by_prompt else ("indicator",))]
    if section.names is None:
        rows = pd.concat([_table_rows(section, file, required, by_id, levels, log) for file in _tables(path)])
    elif path.is_dir():
        rows = _file_rows(section.names, path, required, by_id, levels or (), log)
    else:
        raise UserError(
            f"images.names: expected a folder in images.from, got the file {path}: take `names` out"
        )
    if rows.empty:
        raise UserError(f"{path}: expected rows of images, found none: write one an image")
    return rows


def _tables(path: Path) -> list[Path]:
    """Return the table file at a path or in a folder, or the Parquet files in it; UserError if none or ambiguous."""
    if not path.is_dir():
        return [path]
    tables = sorted(file for file in path.iterdir() if file.suffix.lower() in ENDINGS and file.is_file())
    if not tables:
        raise UserError(
            f"{path}: expected a table (such as metadata.csv) in this folder, found none: write one, or say what the"
            ' names of the files mean (images: {names: "{prompt}_{indicator}_{seed}"})'
        )
    if len(tables) > 1 and {file.suffix.lower() for file in tables} != {".parquet"}:
        raise UserError(
            f"{path}: expected one table in this folder, found {tables[0].name} and {tables[1].name}: name one of them"
        )
    return tables


def _open_table(section: Images, file: Path) -> UserTable:
    """Return a table of external images, its columns under the names that the configuration gives them."""
    own = [section.image, section.prompt, section.prompt_id, section.indicator, section.seed, section.triplet]
    known = [*own, *(section.levels or ()), *IMAGE_COLUMNS, *LEVEL_COLUMNS]
    return open_table(file, [name for name in known if name])


def _table_rows(
    section: Images, file: Path, required: list[str], by_id: bool, levels: Sequence[str] | None, log: Log
) -> pd.DataFrame:
    """Return a row per external image of one table; UserError without an image column or a `required` one."""
    table, columns = _open_table(section, file), dict[str, str]()
    # no other column is named for prompts
    if by_id and section.prompt_id in table.columns and section.prompt == "prompt":
        required = [PROMPT_ID, *required[1:]]
    for field in ("prompt", *((PROMPT_ID,) if by_id else ()), "indicator", "seed", "triplet"):
        name = getattr(section, field)
        named = name is not None and field in section.model_fields_set - {"prompt", "indicator"}
        if name in table.columns:
            columns[field] = name
        elif field in required or named:
            table.require(name, f"name it in images.{field}")
    asked = [section.image] if section.image else IMAGE_COLUMNS
    picture = next((name for name in asked if name in table.columns), None)
    if picture is None:
        raise UserError(
            f"{file}: expected a column of images ({', '.join(asked)}), found none: name it in images.image"
        )
    if levels is None:
        free = table.columns.keys() - {*columns.values(), picture}
        levels = [name for name in LEVEL_COLUMNS if name in free]
    for name in levels:
        table.require(name, "name it in images.levels")
    for line in table.notes([*columns.values(), picture, *levels]):
        log(line)
    stored = table.names[table.columns[picture]]
    held = _image_cells(file, stored) if file.suffix.lower() == ".parquet" else None
    cells = table.cells(list(dict.fromkeys([*columns.values(), *levels, *([] if held else [picture])])))
    cells.index = f"{file.name}: " + cells.index
    if held is None:
        held = [(_find_image_file(file.parent, value, picture, at),) for at, value in cells[picture].items()]
    return _build_rows(cells, held, columns, levels)


def _image_cells(file: Path, column: str) -> list[ImageLocation] | None:
    """Return the location of each row's image in a Parquet column; None if the column does not store images."""
    with opened_parquet(file) as opened:
        data, kind = opened.metadata, opened.schema_arrow.field(column).type
    if data.num_rows > ROWS:
        raise UserError(f"{file}: expected at most {ROWS:,} rows, got more: name a smaller table")
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    inner = [(one.name, str(one.type)) for one in kind] if pa.types.is_struct(kind) else [("", str(kind))]
    wanted = [name in _STORED and re.fullmatch(_STORED[name], one) for name, one in inner]
    if not wanted or not all(wanted) or len(inner) > len(dict(inner)):
        return None
    groups = enumerate(data.row_group(group).num_rows for group in range(data.num_row_groups))
    return [(file, column, group, row) for group, rows in groups for row in range(rows)]


def _find_image_file(folder: Path, value: Any, column: str, location: str) -> Path:
    """Return the path of the image file that a cell's value names; UserError if there is no such file."""
    if not isinstance(value, str) or not value:
        raise UserError(
            f"{location}: expected the path of an image in `{column}`, got {shown(value)}: write it"
        )
    path = find_file(value, location, folder)
    if path is None:
        raise UserError(
            f"{location}: expected an image at {folder / value}, found none: mend the path, or take the row out"
        )
    return path


def _file_rows(
    pattern: str, folder: Path, required: list[str], by_id: bool, levels: Sequence[str], log: Log
) -> pd.DataFrame:
    """Return a row per image file below a folder, with the fields that a pattern finds in its path."""
    fields = _FIELD.findall(pattern)
    if by_id and PROMPT_ID in fields:
        required = [PROMPT_ID, *required[1:]]
    known = {*FIELDS, *levels, *((PROMPT_ID,) if by_id else ())}
    if not {*required} <= {*fields} <= known or len(fields) > len({*fields}):
        asked = " and ".join(f"{{{name}}}" for name in required)
        raise UserError(
            f"images.names: expected {asked}, and {{seed}}, {{triplet}} or {{number}} if they are there, each"
            f" once, got {shown(pattern)}: mend it"
        )
    expression = "".join(  # texts and names of fields in turn
        f"(?P<{piece}>{_PIECES.get(piece, '[^/]+?')})" if place % 2 else re.escape(piece)
        for place, piece in enumerate(_FIELD.split(pattern))
    )
    files, others = find_images(folder)
    if line := skipped_files_note(folder, others):
        log(line)
    cells: dict[str, dict[str, str]] = {}
    for file in files:
        path = file.relative_to(folder)
        match = re.fullmatch(expression, normalize("NFC", path.with_suffix("").as_posix()))
        if match is None:
            raise UserError(
                f"{file}: expected a name like {pattern!r}: rename it, move it away, or mend images.names"
            )
        cells[path.as_posix()] = {
            name: text.replace("_", " ") if name in levels or (name == "prompt" and " " not in text) else text
            for name, text in match.groupdict().items()
        }
    columns = {name: name for name in fields if name not in (*levels, "number")}
    table = pd.DataFrame(list(cells.values()), list(cells), fields, dtype=object)
    return _build_rows(
        table, [(file,) for file in files], columns, [name for name in levels if name in fields]
    )


def _build_rows(
    cells: pd.DataFrame, images: Sequence[ImageLocation], columns: Mapping[str, str], levels: Sequence[str]
) -> pd.DataFrame:
    """Return a row per external image with checked fields; `columns` has the column of each field in `cells`."""
    fields = {
        field: [_parse(field, column, at, value, "prompt" in columns) for at, value in cells[column].items()]
        for field, column in columns.items()
    }
    places = [
        {name: _parse("level", name, at, row[name]).strip() for name in levels if str(row[name]).strip()}
        for at, row in cells.to_dict("index").items()
    ]
    missing = {"prompt": "", "indicator": "", "seed": None, "triplet": None, PROMPT_ID: None}
    return pd.DataFrame(
        {**missing, **fields, "levels": places, "image": images}, index=cells.index, dtype=object
    )


def _parse(field: str, column: str, location: str, value: Any, has_prompt: bool = False) -> str | int:
    """Return the checked value of a cell, a seed as int; only a prompt id may be empty, beside a prompt."""
    if field == "seed":
        if isinstance(value, str) and re.fullmatch(r"[0-9]{1,19}", value.strip()):
            value = int(value)
        if type(value) is not int or not 0 <= value < 2**63:
            raise UserError(
                f"{location}: expected a whole number from 0 to 2^63 - 1 in `{column}`, got {shown(value)}: write it,"
                " or say that there are none (images: {seed: null})"
            )
        return value
    if field == PROMPT_ID and has_prompt and not str(value).strip():
        return ""
    if not isinstance(value, str) or not value.strip():
        kind = "a text or a number" if field in ("triplet", "level") else "a text"
        raise UserError(f"{location}: expected {kind} in `{column}`, got {shown(value)}: write it")
    return value.strip() if field == PROMPT_ID else value


def read_image_bytes(image: ImageLocation, location: str) -> bytes:
    """Return the bytes of an image file, or of a cell (empty if it is); `location` is that of its row for errors."""
    path, *cell = image
    if cell:
        modified = path.stat().st_mtime_ns if path.exists() else 0
        value = _row_group(path, modified, *cell[:2])[cell[2]]
        inner = value if isinstance(value, dict) else {"bytes": value}
        if inner.get("bytes") is not None or not inner.get("path"):
            return inner.get("bytes") or b""
        path = expand(inner["path"], location, path.parent)
    try:
        return require_regular(path, location).read_bytes()
    except OSError as error:
        raise UserError(
            f"{location}: {path}: cannot be read ({error.strerror}): mend it, or take the row out"
        ) from None


@lru_cache(maxsize=2)
def _row_group(path: Path, modified: int, column: str, group: int) -> list[Any]:
    """Return the cells of a column in one row group of a Parquet file; cached by its time of modification."""
    with opened_parquet(path) as table:
        return table.read_row_group(group, columns=[column]).column(column).to_pylist()
