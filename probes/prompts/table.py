"""Prompts from a table: ``prompts: {table: prompts.csv}``, a row each, with its text and its levels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from probes.config.messages import first_fault
from probes.config.types import TEXT, fail, option, shown
from probes.errors import UserError
from probes.prompts import parquet
from probes.prompts.rows import text_rows
from probes.storage.paths import expand

ENDINGS = (".csv", ".tsv", ".jsonl", ".parquet")
TEXT_COLUMNS = ("text", "prompt")
ID = "id"
Column = Annotated[str, Field(min_length=1)]


class PromptTable(BaseModel):
    """A table of prompts, a row each: a column of texts, and columns of levels."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, title="PromptTable")

    table: Annotated[
        str,
        Field(pattern=TEXT),
        option(
            "A CSV, TSV, JSONL or Parquet file with a prompt in every row, by its path beside triplets.yaml. A column"
            " `id` names the prompts.",
            example="prompts.csv",
        ),
    ]
    text: Annotated[
        Column | None,
        option(
            "Column of the prompts' texts.", null="text or prompt, whichever is there", example="sentence"
        ),
    ] = None
    levels: Annotated[
        list[Column] | None,
        option(
            "Columns that say where a prompt stands in your design, such as its profession; tables and reports name the"
            " prompt by them. An empty cell is no level.",
            null="every other column",
            example=["profession", "setting"],
        ),
    ] = None


def resolve(value: Mapping[str, Any], folder: Path, at: Sequence[Any]) -> list[dict[str, Any]]:
    """Return the prompts of a table as ``triplets.yaml`` names it: ``text``, ``id`` and ``levels`` where there are any.

    Parameters
    ----------
    value : mapping
        Fields of a `PromptTable`.
    folder : pathlib.Path
        Where a relative path begins.
    at : sequence
        Where `value` stands in the configuration, for errors.

    Raises
    ------
    PydanticCustomError
        A field is wrong.
    UserError
        The table cannot be read, lacks a column, or a row has no text; says in which line.
    """
    try:
        source = PromptTable.model_validate(dict(value))
    except ValidationError as error:
        loc, text, _ = first_fault(error, PromptTable)
        raise fail(text, at=(*at, *loc)) from None
    path = expand(source.table, "prompts.table", folder)
    if path.suffix.lower() not in ENDINGS or not path.is_file():
        found = "none there" if path.suffix.lower() in ENDINGS else f"the ending {path.suffix or '(none)'}"
        raise UserError(
            f"prompts.table: expected a table ({', '.join(ENDINGS)}), found {found} at {path}: check the path"
        )
    columns, rows = (_parquet if path.suffix.lower() == ".parquet" else text_rows)(path)
    column = source.text or next((name for name in TEXT_COLUMNS if name in columns), TEXT_COLUMNS[0])
    levels = (
        [name for name in columns if name not in (column, ID)] if source.levels is None else source.levels
    )
    for name in (column, *levels):
        if name not in columns:
            field = "text" if name == column else "levels"
            listed = ", ".join(columns)[:120] or "none"
            raise UserError(f"{path}: expected a column `{name}`, found {listed}: name it in prompts.{field}")
    wanted = list(dict.fromkeys([column, *([ID] if ID in columns else []), *levels]))
    made, first = [], {}
    for at_row, values in rows(dict.fromkeys(wanted)):
        place = f"{path.name}: {at_row}"
        prompt = _prompt(values, column, levels, place)
        key = repr((" ".join(prompt["text"].casefold().split()), prompt.get("levels")))
        if key in first:
            raise UserError(f"{place}: expected prompts that stand once, got that of {first[key]}: keep one")
        first[key] = at_row
        made.append(prompt)
    if not made:
        raise UserError(f"{path}: expected prompts, found none: write one in each row")
    return made


def _prompt(values: Mapping[str, Any], column: str, levels: Sequence[str], place: str) -> dict[str, Any]:
    text = values.get(column)
    if not isinstance(text, str) or not text.strip():
        raise UserError(f"{place}: expected a text in `{column}`, got {shown(text)}: write it")
    prompt: dict[str, Any] = {"text": text}
    if name := _cell(values.get(ID), ID, place):
        prompt["id"] = name
    there = {name: level for name in levels if (level := _cell(values.get(name), name, place))}
    return {**prompt, "levels": there} if there else prompt


def _cell(value: Any, column: str, place: str) -> str:
    """A cell as text; empty where it holds nothing."""
    if value is None or value != value:
        return ""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise UserError(f"{place}: expected a text or a number in `{column}`, got {shown(value)}: write one")
    return str(value).strip()


def _parquet(path: Path) -> tuple[list[str], Any]:
    """The columns of a Parquet file, and what iterates over its rows."""
    file = parquet.open_parquet(path)

    def rows(names: Mapping[str, Any]) -> Any:
        for start, values in parquet.batches(path, file, list(names)):
            for number, row in enumerate(zip(*(values[name] for name in names)), start):
                yield f"row {number}", dict(zip(names, row))

    return list(file.schema_arrow.names), rows
