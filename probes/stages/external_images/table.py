"""The rows that describe images of another program: of a table (`probes.user_tables`), or of file names.

A row says where it stands, so that an error names its line; the image itself is read later (`ImageBytes`).
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any
from unicodedata import normalize

import pyarrow as pa

from probes.config.image_options import Images
from probes.errors import UserError
from probes.fields.types import shown
from probes.paths import expand, require_regular
from probes.prompts.table import LEVEL_COLUMNS
from probes.runs.images import find_images, unread_note
from probes.user_tables import (
    DAMAGE,
    ENDINGS,
    UserTable,
    damaged,
    find_file,
    open_parquet,
    open_table,
)

ROWS = 10_000_000  # of a table, at most
IMAGE_COLUMNS = ("image", "file", "file_name", "path")  # looked for in this order where none is named
# of file names; the last tells images apart, no more
FIELDS = ("prompt", "indicator", "seed", "triplet", "number")
PROMPT_ID = "prompt_id"  # one more, beside prompts that have ids
_LEVEL = "level:"  # begins the field of a level
_FIELD = re.compile(r"\{(\w*)\}")
_PIECES = {
    "prompt": "[^/]+?",
    PROMPT_ID: "[^/]+?",
    "indicator": "[A-Za-z][A-Za-z0-9_]*?",
    "seed": "[0-9]+",
    "triplet": "[^/]+?",
    "number": "[^/_]+",
}


@dataclass(frozen=True)
class ImageLocation:
    """Location of an image's bytes: a file, or a row of a column of a Parquet file."""

    path: Path
    column: str = ""
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
    say: Callable[[str], object] = lambda line: None,
) -> list[ImageRow]:
    """Return the rows of a table, or of a folder's, in their order.

    Where the prompt (`by_prompt`) or its id (`by_id`) says what an image is of, no row has to name an indicator.
    `levels` None: those columns of `probes.prompts.table.LEVEL_COLUMNS` that are there. `say` takes a line on what was
    not read, or read as something else.
    """
    if images.names is not None:
        if not path.is_dir():
            raise UserError(
                f"images.names: expected a folder in images.from, got the file {path}: take `names` out"
            )
        rows = list(_of_names(images, path, by_prompt, by_id, levels or (), say))
    else:
        rows = [
            row for file in _tables(path) for row in _of_table(images, file, by_prompt, by_id, levels, say)
        ]
    if not rows:
        raise UserError(f"{path}: expected rows of images, found none: write one an image")
    return rows


def _tables(path: Path) -> list[Path]:
    """The table that is named or that stands in a folder; several Parquet files there are one table."""
    if not path.is_dir():
        return [path]
    there = sorted(file for file in path.iterdir() if file.suffix.lower() in ENDINGS and file.is_file())
    if not there:
        raise UserError(
            f"{path}: expected a table (such as metadata.csv) in this folder, found none: write one, or say what the"
            ' names of the files mean (images: {names: "{prompt}_{indicator}_{seed}"})'
        )
    if len(there) > 1 and {file.suffix.lower() for file in there} != {".parquet"}:
        raise UserError(
            f"{path}: expected one table in this folder, found {there[0].name} and {there[1].name}: name one of them"
        )
    return there


def _opened(images: Images, file: Path) -> UserTable:
    """A table whose columns are called as the configuration calls them."""
    own = [images.image, images.prompt, images.prompt_id, images.indicator, images.seed, images.triplet]
    return open_table(
        file, [name for name in (*own, *(images.levels or ()), *IMAGE_COLUMNS, *LEVEL_COLUMNS) if name]
    )


def _of_table(
    images: Images,
    file: Path,
    by_prompt: bool,
    by_id: bool,
    levels: Sequence[str] | None,
    say: Callable[[str], object],
) -> Iterator[ImageRow]:
    table = _opened(images, file)
    columns = list(table.columns)
    names = _column_names(images, table, by_prompt, by_id)
    taken = {*names.values()}
    of_levels = (
        [name for name in LEVEL_COLUMNS if name in columns and name not in taken]
        if levels is None
        else levels
    )
    for name in of_levels:
        table.require(name, "name it in images.levels")
    names |= {f"{_LEVEL}{name}": name for name in of_levels}
    for line in table.notes(names.values()):
        say(line)
    picture, held = names["image"], _holds_images(table, names["image"])
    stored = table.names[table.columns[picture]]
    texts = list(dict.fromkeys(name for field, name in names.items() if field != "image" or not held))
    for number, (at, values) in enumerate(table.rows(texts)):
        place = f"{file.name}: {at}"
        seed = values.get(names["seed"]) if "seed" in names else None
        yield ImageRow(
            at=place,
            image=ImageLocation(file, stored, number)
            if held
            else _place(file, picture, values[picture], place),
            prompt=_value_text(values, names["prompt"], place) if "prompt" in names else "",
            indicator=_value_text(values, names["indicator"], place) if "indicator" in names else "",
            seed=_seed(seed, names["seed"], place) if "seed" in names else None,
            triplet=_triplet(values, names["triplet"], place) if "triplet" in names else None,
            prompt_id=_id(values, names, place) if PROMPT_ID in names else None,
            levels={name: level for name in of_levels if (level := _level(values, name, place))},
        )


def _column_names(images: Images, table: UserTable, by_prompt: bool, by_id: bool) -> dict[str, str]:
    """The column of each field that the table has."""
    found, columns = {}, table.columns
    told = by_id and images.prompt_id in columns and images.prompt == "prompt"  # no other is named
    needed = {*(() if told else ("prompt",)), *(() if by_prompt else ("indicator",))}
    for field in ("prompt", *((PROMPT_ID,) if by_id else ()), "indicator", "seed", "triplet"):
        name = getattr(images, field)
        named = name is not None and field in images.model_fields_set
        said = field in needed or (named and field not in ("prompt", "indicator"))
        if name in columns:
            found[field] = name
        elif said:
            table.require(name, f"name it in images.{field}")
    chosen = [images.image] if images.image else [name for name in IMAGE_COLUMNS if name in columns]
    if not chosen or chosen[0] not in columns:
        wanted = images.image or ", ".join(IMAGE_COLUMNS)
        raise UserError(
            f"{table.path}: expected a column of images ({wanted}), found none: name it in images.image"
        )
    return found | {"image": chosen[0]}


def _holds_images(table: UserTable, column: str) -> bool:
    """Return whether a column of a Parquet table holds the images themselves."""
    if table.file is None:
        return False
    if table.file.metadata.num_rows > ROWS:
        raise UserError(f"{table.path}: expected at most {ROWS:,} rows, got more: name a smaller table")
    return _is_stored(table.file.schema_arrow.field(table.names[table.columns[column]]).type)


def _is_stored(kind: pa.DataType) -> bool:
    """Return whether a column holds images as `datasets` stores them, or their bytes."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    if not pa.types.is_struct(kind):
        return _is_bytes(kind)
    inner = {field.name: field.type for field in kind}
    held, path = inner.pop("bytes", pa.null()), inner.pop("path", pa.null())
    # no other fields, and no two of one name
    whole = not inner and kind.num_fields == len({field.name for field in kind}) > 0
    return whole and (pa.types.is_null(held) or _is_bytes(held)) and _is_text(path)


def _is_text(kind: pa.DataType) -> bool:
    """Return whether a type is text, in any of its layouts; one of nothing at all may be."""
    types = pa.types
    return (
        types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_string_view(kind)
        or types.is_null(kind)
    )


def _is_bytes(kind: pa.DataType) -> bool:
    """Return whether a type is bytes, in any of its layouts."""
    types = pa.types
    return (
        types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_binary_view(kind)
        or types.is_fixed_size_binary(kind)
    )


def _place(file: Path, column: str, value: Any, at: str) -> ImageLocation:
    if not isinstance(value, str) or not value:
        raise UserError(f"{at}: expected the path of an image in `{column}`, got {shown(value)}: write it")
    path = find_file(value, at, file.parent)
    if path is None:
        raise UserError(
            f"{at}: expected an image at {file.parent / value}, found none: mend the path, or take the row out"
        )
    return ImageLocation(path)


def _value_text(values: Mapping[str, Any], column: str, at: str) -> str:
    value = values.get(column)
    if not isinstance(value, str) or not value.strip():
        raise UserError(f"{at}: expected a text in `{column}`, got {shown(value)}: write it")
    return value


def _level(values: Mapping[str, Any], column: str, at: str) -> str:
    """A level as text; empty where there is none."""
    return _triplet(values, column, at).strip() if values[column] != "" else ""


def _triplet(values: Mapping[str, Any], column: str, at: str) -> str:
    value = values[column]
    if value == "":
        raise UserError(f"{at}: expected a `{column}` in every row, found none: write it")
    if not isinstance(value, str):
        raise UserError(f"{at}: expected a text or a number in `{column}`, got {shown(value)}: write it")
    return value


def _id(values: Mapping[str, Any], names: Mapping[str, str], at: str) -> str:
    """The id of a prompt; empty where its text is to say which one it is."""
    value = values[names[PROMPT_ID]]
    open_ = isinstance(value, str) and not value.strip()
    return "" if open_ and "prompt" in names else _value_text(values, names[PROMPT_ID], at).strip()


def _seed(value: Any, column: str, at: str) -> int:
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,19}", value.strip()):
        value = int(value)
    if type(value) is not int or not 0 <= value < 2**63:
        raise UserError(
            f"{at}: expected a whole number from 0 to 2^63 - 1 in `{column}`, got {shown(value)}: write it, or say"
            " that there are none (images: {seed: null})"
        )
    return value


def _of_names(
    images: Images,
    folder: Path,
    by_prompt: bool,
    by_id: bool,
    levels: Sequence[str],
    say: Callable[[str], object],
) -> Iterator[ImageRow]:
    pattern, fields = _pattern(images.names or "", by_prompt, by_id, levels)
    files, others = find_images(folder)
    if line := unread_note(folder, others):
        say(line)
    for file in files:
        name = normalize("NFC", file.relative_to(folder).with_suffix("").as_posix())
        match = pattern.fullmatch(name)
        if match is None:
            raise UserError(
                f"{file}: expected a name like {images.names!r}: rename it, move it away, or mend images.names"
            )
        said = match.groupdict()
        prompt = said.get("prompt", "")
        yield ImageRow(
            at=file.relative_to(folder).as_posix(),
            image=ImageLocation(file),
            prompt=prompt if " " in prompt else prompt.replace("_", " "),
            indicator=said.get("indicator") or "",
            seed=_seed(said["seed"], "seed", str(file)) if "seed" in fields else None,
            triplet=said.get("triplet"),
            prompt_id=said.get(PROMPT_ID),
            levels={name: said[name].replace("_", " ") for name in levels if name in fields},
        )


def _pattern(
    text: str, by_prompt: bool, by_id: bool, levels: Sequence[str]
) -> tuple[re.Pattern[str], list[str]]:
    fields = _FIELD.findall(text)
    there = (*FIELDS, *levels, *((PROMPT_ID,) if by_id else ()))
    wrong = [name for name in fields if name not in there] or [n for n in fields if fields.count(n) > 1]
    told = PROMPT_ID if by_id and PROMPT_ID in fields else "prompt"
    needed = [told] if by_prompt else [told, "indicator"]
    if wrong or not {*needed} <= {*fields}:
        asked = " and ".join(f"{{{name}}}" for name in needed)
        raise UserError(
            f"images.names: expected {asked}, and {{seed}}, {{triplet}} or {{number}} if they are there, each"
            f" once, got {shown(text)}: mend it"
        )
    pieces = _FIELD.split(text)  # texts and names of fields in turn
    return re.compile(
        "".join(
            f"(?P<{piece}>{_PIECES.get(piece, _PIECES['prompt'])})" if place % 2 else re.escape(piece)
            for place, piece in enumerate(pieces)
        )
    ), fields


class ImageBytes:
    """The bytes of images; of a Parquet file one group of rows is held at a time."""

    def __init__(self) -> None:
        self._group = lru_cache(maxsize=2)(_row_group)
        self._starts = lru_cache(maxsize=64)(_group_starts)

    def read(self, place: ImageLocation, at: str) -> bytes:
        """Return the bytes of an image, as they stand there; of one whose cell is empty none."""
        if place.row < 0:
            return _file_bytes(place.path, at)
        starts = self._starts(place.path)
        group = max(index for index, start in enumerate(starts) if start <= place.row)
        value = self._group(place.path, place.column, group)[place.row - starts[group]]
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


def _group_starts(path: Path) -> list[int]:
    with open_parquet(path) as table:
        sizes = [table.metadata.row_group(index).num_rows for index in range(table.metadata.num_row_groups)]
    return [sum(sizes[:index]) for index in range(len(sizes))]


def _row_group(path: Path, column: str, group: int) -> list[Any]:
    with open_parquet(path) as table:
        try:
            return table.read_row_group(group, columns=[column]).column(column).to_pylist()
        except DAMAGE as error:
            raise damaged(path, error) from None
