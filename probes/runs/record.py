"""``run.json``, the record of a run: an entry a line, read once its checksum is found right."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from probes.errors import UserError
from probes.json_text import parse_json
from probes.runs.parts import FORMAT, digest

STATUSES = ("planned", "generated", "observed", "measured", "complete")
# entries that several rooms read
KINDS = "kinds"  # how many parts of each kind there are to be
REGISTERED = "stopping"  # the question that ends a run
MOST = 1_000_000  # parts of a kind: a record that says more is damaged
_KIND = re.compile(r"[a-z]+|(?:features|attributes)/\w[\w.-]*")
_CHECKSUM = re.compile(r"sha256:[0-9a-f]{64}")
_WIDTH = 100  # characters: a longer entry is written over several lines


def read_record(file: Path) -> dict[str, Any]:
    """Return what a ``run.json`` says, once its checksum is found right.

    A record without a checksum is taken as it is: parts made elsewhere enter by the same door.
    """
    try:
        meta = parse_json(file.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise UserError(
            f"{file.parent}: expected a run directory, found no run.json: check the path"
        ) from None
    except OSError as error:
        raise UserError(f"{file}: cannot be read ({error.strerror}): check its permissions") from None
    except (ValueError, RecursionError):
        raise no_record(file, "it is no JSON") from None
    for field, kind in (("format", int), ("status", str)):
        if not isinstance(meta, dict) or not isinstance(meta.get(field), kind):
            raise no_record(file, f"it has no `{field}`")
    sums = {name for name, value in meta.items() if _CHECKSUM.fullmatch(str(value))}
    if sums - {"checksum"} or ("checksum" in meta and meta.pop("checksum") != _checksum(meta)):
        raise UserError(
            f"{file}: expected the record of a run as it was written, got a damaged file (its checksum differs):"
            " restore it from a copy or choose another --out; if you edited it, take its line `checksum` out"
        )
    number, status = meta["format"], meta["status"]
    if number > FORMAT or status not in STATUSES:
        raise UserError(f"{file}: expected format {FORMAT}, got {number} ({status}): use a newer triptych")
    config = meta.get("config")
    if not isinstance(config, dict) or not isinstance(config.get("resolved"), dict):
        raise no_record(file, "it has no `config`")
    if number < FORMAT:
        raise UserError(
            f"{file}: expected a run of format {FORMAT}, got one of format {number}, which an earlier triptych wrote:"
            " run its triplets.yaml again with another --out, or read it with the version that wrote it"
        )
    return meta


def no_record(file: Path, reason: str) -> UserError:
    """The line that says why a file is not the record of a run."""
    return UserError(
        f"{file}: expected the record of a run, got a damaged file or another program's ({reason}):"
        " restore it from a copy, or choose another --out"
    )


def planned_parts(meta: Mapping[str, Any], file: Path) -> dict[str, int]:
    """How many parts of each kind a run is to have, by its record; nothing where that does not say how many."""
    parts, counts = meta.get("parts"), meta.get(KINDS)
    if not (isinstance(parts, int) and isinstance(counts, Mapping)):
        return {}
    planned = {**counts, "samples": parts}
    for kind, count in planned.items():
        if not (_KIND.fullmatch(kind) and isinstance(count, int) and 0 <= count <= MOST):
            raise no_record(file, f"it has {count!r:.30} parts of {kind!r:.60}")
    return planned


def record_bytes(meta: Mapping[str, Any]) -> bytes:
    """The ``run.json`` that says this, with a checksum of itself."""
    return f"{_lines({'checksum': _checksum(meta), **meta})}\n".encode()


def _lines(value: Any, depth: int = 2, indent: str = "") -> str:
    """JSON text of an entry: on one line where it is short or deep; of the configuration each section has its own."""
    text = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, Mapping) or not depth or len(indent + text) <= _WIDTH:
        return text
    inner = f"{indent}  "
    entries = [
        f"{inner}{json.dumps(key, ensure_ascii=False)}: {_lines(entry, depth if key == 'config' else depth - 1, inner)}"
        for key, entry in value.items()
    ]
    return "{\n" + ",\n".join(entries) + f"\n{indent}}}"


def merged_record(
    before: Mapping[str, Any], after: Mapping[str, Any], current: Mapping[str, Any]
) -> dict[str, Any]:
    """A record with what one process changed since it read it (`before`), and what others have written since.

    The stage that was reached is the later one, where others have gone on meanwhile.
    """
    changed = {name: value for name, value in after.items() if name not in before or before[name] != value}
    others_went_on = current["status"] not in (before.get("status"), after["status"])
    if others_went_on and STATUSES.index(current["status"]) > STATUSES.index(after["status"]):
        changed = {name: value for name, value in changed.items() if name not in ("status", "times")}
    return {
        name: value
        for name, value in {**current, **changed}.items()
        if name in after or name not in before or name in changed
    }


def _checksum(meta: Mapping[str, Any]) -> str:
    return f"sha256:{digest(json.dumps(meta, sort_keys=True))}"
