"""The rows that describe images of another program: of a table (`probes.user_tables`), or of file names.

A row says where it stands, so that an error names its line; the image itself is read later (`read_bytes`).
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import repeat
from pathlib import Path
from typing import Any
from unicodedata import normalize

import pyarrow as pa

from probes.config.image_options import Images
from probes.errors import UserError
from probes.fields.types import shown
from probes.paths import expand, require_regular
from probes.prompts.forms import LEVEL_COLUMNS
from probes.runs.images import find_images, unread_note
from probes.user_tables import DAMAGE, ENDINGS, UserTable, damaged, find_file, open_parquet, open_table

ROWS = 10_000_000  # of a table, at most
IMAGE_COLUMNS = ("image", "file", "file_name", "path")  # looked for in this order where none is named
# of file names; the last tells images apart, no more
FIELDS = ("prompt", "indicator", "seed", "triplet", "number")
PROMPT_ID = "prompt_id"  # one more, beside prompts that have ids
_FIELD = re.compile(r"\{(\w*)\}")
_PIECES = {"indicator": "[A-Za-z][A-Za-z0-9_]*?", "seed": "[0-9]+", "number": "[^/_]+"}
_BYTES = re.compile(r"(large_|fixed_size_)?binary(_view)?(\[\d+\])?")  # types of Arrow, in any layout
_TEXT_OR_NONE = re.compile(r"(large_)?string(_view)?|null")

Say = Callable[[str], object]


@dataclass(frozen=True)
class ImageLocation:
    """Location of an image's bytes: a file, or a row of a column of a Parquet file."""

    path: Path
    column: str = ""
    group: int = -1  # of rows, and which of them
    row: int = -1


@dataclass(frozen=True)
class ImageRow:
    """Description of an image; ``at`` is its place, for errors, and ``seed`` is None where none is given."""

    at: str
    image: ImageLocation
    prompt: str
    indicator: str
    seed: int | None
    triplet: str | None
    prompt_id: str | None = None  # None where nothing says any; empty where it is left open
    levels: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclass(frozen=True)
class _Wanted:
    """What rows have to say, beside the image."""

    indicator: bool  # else the prompt says it
    prompt_id: bool  # whether the id may stand in the place of the prompt
    levels: Sequence[str] | None  # None: those of `LEVEL_COLUMNS` that are there

    def needed(self, by_id: bool) -> list[str]:
        """Return the fields that no row may lack, where its id says the prompt or its text."""
        return [PROMPT_ID if by_id else "prompt", *(["indicator"] if self.indicator else [])]


def find(images: Images, folder: Path) -> Path:
    """The file or folder that is named, absolute."""
    path = expand(images.from_, "images.from", folder).absolute()
    if not path.exists():
        raise UserError(
            f"images.from: expected a table or a folder of images, found none at {path}: check the path"
        )
    return path


def has_indicators(images: Images, path: Path) -> bool:
    """Return whether a table, or the names of files, say the indicator of each image."""
    if images.names is not None:
        return "indicator" in _FIELD.findall(images.names)
    if "indicator" in images.model_fields_set:
        return True
    return any(images.indicator in _opened(images, file).columns for file in _tables(path))


def read_rows(
    images: Images,
    path: Path,
    *,
    by_prompt: bool = False,
    by_id: bool = False,
    levels: Sequence[str] | None = (),
    say: Say = lambda line: None,
) -> list[ImageRow]:
    """Return the rows of a table, or of a folder's, in their order.

    Where the prompt (`by_prompt`) or its id (`by_id`) says what an image is of, no row has to name an indicator.
    `levels` None: those columns of `probes.prompts.forms.LEVEL_COLUMNS` that are there. `say` takes a line on what was
    not read, or read as something else.
    """
    wanted = _Wanted(not by_prompt, by_id, levels)
    if images.names is None:
        rows = [row for file in _tables(path) for row in _of_table(images, file, wanted, say)]
    elif path.is_dir():
        rows = list(_of_names(images.names, path, wanted, say))
    else:
        raise UserError(
            f"images.names: expected a folder in images.from, got the file {path}: take `names` out"
        )
    if not rows:
        raise UserError(f"{path}: expected rows of images, found none: write one an image")
    return rows


def _tables(path: Path) -> list[Path]:
    """The table that is named or that stands in a folder; several Parquet files there are one table."""
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


def _opened(images: Images, file: Path) -> UserTable:
    """A table whose columns are called as the configuration calls them."""
    own = [images.image, images.prompt, images.prompt_id, images.indicator, images.seed, images.triplet]
    known = [*own, *(images.levels or ()), *IMAGE_COLUMNS, *LEVEL_COLUMNS]
    return open_table(file, [name for name in known if name])


def _of_table(images: Images, file: Path, wanted: _Wanted, say: Say) -> Iterator[ImageRow]:
    table = _opened(images, file)
    columns = _column_names(images, table, wanted)
    picture = _image_column(images, table)
    levels = wanted.levels
    if levels is None:
        levels = [
            name
            for name in LEVEL_COLUMNS
            if name in table.columns and name not in (*columns.values(), picture)
        ]
    for name in levels:
        table.require(name, "name it in images.levels")
    for line in table.notes([*columns.values(), picture, *levels]):
        say(line)
    stored, held = table.names[table.columns[picture]], _holds_images(table, picture)
    names = dict.fromkeys([*columns.values(), *levels, *(() if held else (picture,))])
    places = _places(table) if held else repeat(())
    for place, (line, values) in zip(places, table.rows(list(names))):
        at = f"{file.name}: {line}"
        location = ImageLocation(file, stored, *place) if held else _location(file, values, picture, at)
        yield _row(at, location, values, columns, levels)


def _places(table: UserTable) -> Iterator[tuple[int, int]]:
    """Group and number within it of each row of a Parquet table."""
    assert table.file is not None
    data = table.file.metadata
    return (
        (group, row) for group in range(data.num_row_groups) for row in range(data.row_group(group).num_rows)
    )


def _column_names(images: Images, table: UserTable, wanted: _Wanted) -> dict[str, str]:
    """The column of each field that the table has."""
    columns, found = table.columns, {}
    # no other column is named for prompts
    by_id = wanted.prompt_id and images.prompt_id in columns and images.prompt == "prompt"
    needed = wanted.needed(by_id)
    for field in ("prompt", *((PROMPT_ID,) if wanted.prompt_id else ()), "indicator", "seed", "triplet"):
        name = getattr(images, field)
        named = name is not None and field in images.model_fields_set and field not in ("prompt", "indicator")
        if name in columns:
            found[field] = name
        elif field in needed or named:
            table.require(name, f"name it in images.{field}")
    return found


def _image_column(images: Images, table: UserTable) -> str:
    named = [images.image] if images.image else IMAGE_COLUMNS
    name = next((name for name in named if name in table.columns), None)
    if name is None:
        wanted = images.image or ", ".join(IMAGE_COLUMNS)
        raise UserError(
            f"{table.path}: expected a column of images ({wanted}), found none: name it in images.image"
        )
    return name


def _holds_images(table: UserTable, column: str) -> bool:
    """Return whether a column of a Parquet table holds images as `datasets` stores them, or their bytes."""
    if table.file is None:
        return False
    if table.file.metadata.num_rows > ROWS:
        raise UserError(f"{table.path}: expected at most {ROWS:,} rows, got more: name a smaller table")
    kind = table.file.schema_arrow.field(table.names[table.columns[column]]).type
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    if not pa.types.is_struct(kind):
        return bool(_BYTES.fullmatch(str(kind)))
    inner = {field.name: str(field.type) for field in kind}
    whole = kind.num_fields == len(inner) > 0 and inner.keys() <= {"bytes", "path"}  # no two of one name
    held, path = inner.get("bytes", "null"), inner.get("path", "null")
    return whole and bool((held == "null" or _BYTES.fullmatch(held)) and _TEXT_OR_NONE.fullmatch(path))


def _location(file: Path, values: Mapping[str, Any], column: str, at: str) -> ImageLocation:
    value = values[column]
    if not isinstance(value, str) or not value:
        raise UserError(f"{at}: expected the path of an image in `{column}`, got {shown(value)}: write it")
    path = find_file(value, at, file.parent)
    if path is None:
        raise UserError(
            f"{at}: expected an image at {file.parent / value}, found none: mend the path, or take the row out"
        )
    return ImageLocation(path)


def _row(
    at: str,
    image: ImageLocation,
    values: Mapping[str, Any],
    columns: Mapping[str, str],
    levels: Sequence[str],
) -> ImageRow:
    """The row of an image, from the cells of its fields, each in the column of this name."""

    def text(column: str, kind: str = "a text") -> str:
        value = values[column]
        if not isinstance(value, str) or not value.strip():
            raise UserError(f"{at}: expected {kind} in `{column}`, got {shown(value)}: write it")
        return value

    def named(field: str) -> str | None:
        return text(columns[field]) if field in columns else None

    triplet, number, identity = (columns.get(field, "") for field in ("triplet", "seed", PROMPT_ID))
    if triplet and values[triplet] == "":
        raise UserError(f"{at}: expected a `{triplet}` in every row, found none: write it")
    left_open = "prompt" in columns and not str(values.get(identity)).strip()
    return ImageRow(
        at=at,
        image=image,
        prompt=named("prompt") or "",
        indicator=named("indicator") or "",
        seed=_seed(values[number], number, at) if number else None,
        triplet=text(triplet, "a text or a number") if triplet else None,
        prompt_id=("" if left_open else text(identity).strip()) if identity else None,
        levels={
            name: text(name, "a text or a number").strip() for name in levels if str(values[name]).strip()
        },
    )


def _seed(value: Any, column: str, at: str) -> int:
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,19}", value.strip()):
        value = int(value)
    if type(value) is not int or not 0 <= value < 2**63:
        raise UserError(
            f"{at}: expected a whole number from 0 to 2^63 - 1 in `{column}`, got {shown(value)}: write it, or say"
            " that there are none (images: {seed: null})"
        )
    return value


def _of_names(names: str, folder: Path, wanted: _Wanted, say: Say) -> Iterator[ImageRow]:
    levels = wanted.levels or ()
    pattern = _pattern(names, wanted, levels)
    files, others = find_images(folder)
    if line := unread_note(folder, others):
        say(line)
    for file in files:
        match = pattern.fullmatch(normalize("NFC", file.relative_to(folder).with_suffix("").as_posix()))
        if match is None:
            raise UserError(
                f"{file}: expected a name like {names!r}: rename it, move it away, or mend images.names"
            )
        values = {
            name: text.replace("_", " ") if name in levels or (name == "prompt" and " " not in text) else text
            for name, text in match.groupdict().items()
        }
        columns = {name: name for name in values if name not in (*levels, "number")}
        at = file.relative_to(folder).as_posix()
        yield _row(at, ImageLocation(file), values, columns, [name for name in levels if name in values])


def _pattern(names: str, wanted: _Wanted, levels: Sequence[str]) -> re.Pattern[str]:
    fields = _FIELD.findall(names)
    known = (*FIELDS, *levels, *((PROMPT_ID,) if wanted.prompt_id else ()))
    needed = wanted.needed(wanted.prompt_id and PROMPT_ID in fields)
    if not set(needed) <= set(fields) <= set(known) or len(fields) > len(set(fields)):
        asked = " and ".join(f"{{{name}}}" for name in needed)
        raise UserError(
            f"images.names: expected {asked}, and {{seed}}, {{triplet}} or {{number}} if they are there, each"
            f" once, got {shown(names)}: mend it"
        )
    pieces = _FIELD.split(names)  # texts and names of fields in turn
    return re.compile(
        "".join(
            f"(?P<{piece}>{_PIECES.get(piece, '[^/]+?')})" if place % 2 else re.escape(piece)
            for place, piece in enumerate(pieces)
        )
    )


def read_bytes(place: ImageLocation, at: str) -> bytes:
    """Return the bytes of an image, as they stand there; of one whose cell is empty none."""
    if place.row < 0:
        return _file_bytes(place.path, at)
    written = place.path.stat().st_mtime_ns if place.path.exists() else 0
    value = _row_group(place.path, place.column, place.group, written)[place.row]
    if isinstance(value, dict):
        if value.get("bytes") is None and value.get("path"):
            return _file_bytes(expand(value["path"], at, place.path.parent), at)
        value = value.get("bytes")
    return value or b""


def _file_bytes(path: Path, at: str) -> bytes:
    try:
        return require_regular(path, at).read_bytes()
    except OSError as error:
        raise UserError(
            f"{at}: {path}: cannot be read ({error.strerror}): mend it, or take the row out"
        ) from None


@lru_cache(maxsize=2)
def _row_group(path: Path, column: str, group: int, written: int) -> list[Any]:
    """Cells of a group of rows of a file as it was written at a time; the groups that were read last are held."""
    with open_parquet(path) as table:
        try:
            return table.read_row_group(group, columns=[column]).column(column).to_pylist()
        except DAMAGE as error:
            raise damaged(path, error) from None
