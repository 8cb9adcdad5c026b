"""Prompts from a table: ``prompts: {table: prompts.csv}``, a row each, with its text and its levels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from probes.config.image_options import LEVELS
from probes.errors import UserError
from probes.fields.messages import first_fault
from probes.fields.types import TEXT, fail, option, shown
from probes.paths import expand
from probes.prompts.user_tables import UserTable, open_table

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
            "A CSV, TSV, JSONL, XLSX or Parquet file with a prompt in every row, by its path beside triplets.yaml. A"
            " column `id` names the prompts.",
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

    A relative path begins in `folder`; `at` is where the fields (`PromptTable`) stand in the configuration, for errors.
    """
    try:
        source = PromptTable.model_validate(dict(value))
    except ValidationError as error:
        loc, text, _ = first_fault(error, PromptTable)
        raise fail(text, at=(*at, *loc)) from None
    table, column, levels, used = _opened(source, folder)
    made, first = [], {}
    for at_row, values in table.rows(used):
        place = f"{table.path.name}: {at_row}"
        prompt = _prompt(values, column, levels, place)
        key = repr((" ".join(prompt["text"].casefold().split()), prompt.get("levels")))
        if key in first:
            raise UserError(f"{place}: expected prompts that stand once, got that of {first[key]}: keep one")
        first[key] = at_row
        made.append(prompt)
    if not made:
        raise UserError(f"{table.path}: expected prompts, found none: write one in each row")
    return made


def notes(written: Any, folder: Path) -> list[str]:
    """Return lines on columns of a table, of ``prompts`` as they are written, that are taken for ours or not used."""
    written = written.get("texts", written) if isinstance(written, Mapping) else written
    if not isinstance(written, Mapping) or "table" not in written:
        return []
    table, *_, used = _opened(PromptTable.model_validate(dict(written)), folder)
    return table.notes(used)


def _opened(source: PromptTable, folder: Path) -> tuple[UserTable, str, list[str], list[str]]:
    """The table, its columns of texts and of levels, and all that are used."""
    named = [name for name in (source.text, *(source.levels or ())) if name]
    table = open_table(expand(source.table, "prompts.table", folder), (*named, *TEXT_COLUMNS, ID, *LEVELS))
    column = source.text or next((name for name in TEXT_COLUMNS if name in table.columns), TEXT_COLUMNS[0])
    levels = source.levels
    if levels is None:
        levels = [name for name in table.columns if name not in (column, ID)]
    for name in (column, *levels):
        table.require(name, f"name it in prompts.{'text' if name == column else 'levels'}")
    return table, column, levels, list(dict.fromkeys([column, *({ID} & {*table.columns}), *levels]))


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
    if value is not None and not isinstance(value, str):
        raise UserError(f"{place}: expected a text or a number in `{column}`, got {shown(value)}: write one")
    return (value or "").strip()
