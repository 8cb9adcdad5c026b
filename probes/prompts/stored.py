"""Prompts as ``triptych prompts build`` stores them: a Parquet file with a text by each indicator.

Columns: ``id`` and one of each indicator, in their order. The words they were made with stand in its metadata, so that
a file is not taken for the prompts of other words.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from probes.errors import UserError
from probes.json_text import parse_json
from probes.prompts.parquet import batches, damaged, is_text, open_parquet, require_kind

_KEY = b"triptych.prompts"


def is_stored(path: Path) -> bool:
    """Return whether a file is one of `write`; a damaged Parquet is none."""
    try:
        with open(path, "rb") as file:
            if file.read(4) != b"PAR1":
                return False
        return _KEY in (pq.read_schema(path).metadata or {})
    except (pa.ArrowException, OSError, ValueError):
        return False


def write(path: Path, prompts: Sequence[Mapping[str, str]], words: Mapping[str, tuple[str, str]]) -> None:
    """Write prompts with the words, singular and plural, that they were made with."""
    columns = ["id", *words]
    table = pa.table(
        {name: pa.array([prompt[name] for prompt in prompts], pa.string()) for name in columns},
        metadata={_KEY: json.dumps({name: list(forms) for name, forms in words.items()}).encode()},
    )
    pq.write_table(table, path, compression="zstd")


def read(path: Path, words: Mapping[str, tuple[str, str]]) -> list[dict[str, str]]:
    """Return the prompts of a file of `write`, made with the word and plural of each indicator of the run."""
    file = open_parquet(path)
    made = _words(path, file)
    requested = {name: list(forms) for name, forms in words.items()}
    if made != requested:
        name = next(name for name in {**made, **requested} if made.get(name) != requested.get(name))
        raise UserError(
            f"{path}: expected prompts for the indicators of this run, got others: {name} is"
            f" {_as_text(made.get(name))} there, {_as_text(requested.get(name))} here: take the indicators of "
            "the triplets.yaml beside it, or build it again"
        )
    columns = ["id", *words]
    for name in columns:
        require_kind(path, file.schema_arrow.field(name).type, name, is_text, "texts")
    prompts: list[dict[str, str]] = []
    for start, values in batches(path, file, columns):
        for number, row in enumerate(zip(*(values[name] for name in columns)), start):
            if not all(isinstance(text, str) and text.strip() and text.isprintable() for text in row):
                raise UserError(
                    f"{path}: row {number}: expected a text in every column, got {str(row)[:60]}: build it again"
                )
            prompts.append(dict(zip(columns, row)))
    if not prompts:
        raise UserError(f"{path}: expected prompts, found none: build it again")
    return prompts


def _words(path: Path, file: pq.ParquetFile) -> dict[str, list[str]]:
    try:
        made = parse_json((file.schema_arrow.metadata or {})[_KEY])
    except KeyError:
        raise UserError(
            f"{path}: expected prompts that `triptych prompts build` wrote, got another Parquet file:"
            " name its --format parquet and its column"
        ) from None
    except ValueError as error:
        raise damaged(path, error) from None
    if not isinstance(made, dict) or not all(map(_are_forms, made.values())):
        raise damaged(path, ValueError("its words are no words"))
    if not {"id", *made} <= {*file.schema_arrow.names}:
        raise UserError(f"{path}: expected a column for each indicator, got others: build it again")
    return made


def _are_forms(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(form, str) for form in value)


def _as_text(forms: list[str] | None) -> str:
    return "/".join(map(str, forms)) if forms else "no indicator"
