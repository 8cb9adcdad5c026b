"""Prompts from a table: ``prompts: {table: prompts.csv}``, a row each, with its text and its levels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from probes.errors import UserError
from probes.fields.types import TEXT, Section, option, shown
from probes.paths import expand
from probes.prompts.prompt import ID, LEVELS, normal, parsed

TEXT_COLUMNS = ("text", "prompt")
LEVEL_COLUMNS = ("profession", "setting", "template", "model")  # are levels where none are named
Column = Annotated[str, Field(min_length=1)]


class PromptTable(Section):
    """A table of prompts, a row each: a column of texts, and columns of levels."""

    table: Annotated[str, Field(pattern=TEXT), option(example="prompts.csv")]
    """A CSV, TSV, JSONL, XLSX or Parquet file with a prompt in every row, by its path beside triplets.yaml. A
    column `id` names the prompts."""
    text: Annotated[Column | None, option(null="text or prompt, whichever is there", example="sentence")] = (
        None
    )
    """Column of the prompts' texts."""
    levels: Annotated[
        list[Column] | None, option(null="every other column", example=["profession", "setting"])
    ] = None
    """Columns that say where a prompt stands in your design, such as its profession; tables and reports name
    the prompt by them. An empty cell is no level."""


def read_table(
    value: Mapping[str, Any], folder: Path, at: tuple[Any, ...]
) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the prompts of a table as a list in the configuration would have them, and lines on unused columns.

    A relative path begins in `folder`; `at` is where the fields (`PromptTable`) stand in the configuration, for errors.
    """
    from probes.user_tables import open_table  # not before: pandas

    source = parsed(PromptTable, value, at)
    named = [name for name in (source.text, *(source.levels or ())) if name]
    path = expand(source.table, "prompts.table", folder)
    table = open_table(path, (*named, *TEXT_COLUMNS, ID, *LEVEL_COLUMNS))
    text = source.text or next((name for name in TEXT_COLUMNS if name in table.columns), TEXT_COLUMNS[0])
    levels = source.levels
    if levels is None:
        levels = [name for name in table.columns if name not in (text, ID)]
    for name in (text, *levels):
        table.require(name, f"name it in prompts.{'text' if name == text else 'levels'}")
    used = list(dict.fromkeys([text, *({ID} & {*table.columns}), *levels]))
    rows: list[dict[str, Any]] = []
    first: dict[str, str] = {}
    for at_row, values in table.frame(used).to_dict("index").items():
        place = f"{path.name}: {at_row}"
        row = _row(values, text, levels, place)
        key = repr((normal(row["text"]), row.get(LEVELS)))
        if key in first:
            raise UserError(f"{place}: expected prompts that stand once, got that of {first[key]}: keep one")
        first[key] = at_row
        rows.append(row)
    if not rows:
        raise UserError(f"{path}: expected prompts, found none: write one in each row")
    return rows, table.notes(used)


def _row(values: Mapping[str, Any], text: str, levels: Sequence[str], place: str) -> dict[str, Any]:
    if not values[text].strip():
        raise UserError(f"{place}: expected a text in `{text}`, got {shown(values[text])}: write it")
    row: dict[str, Any] = {"text": values[text]}
    if name := values.get(ID, "").strip():
        row[ID] = name
    given = {name: level for name in levels if (level := values[name].strip())}
    return {**row, LEVELS: given} if given else row
