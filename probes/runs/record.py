"""``run.json``, the record of a run: read once its checksum is found right.

What it says of files of this machine is written as `probes.runs.recorded_paths` says, and read as paths that can be
opened.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from probes.errors import UserError
from probes.json_text import parse_json
from probes.runs import recorded_files
from probes.runs.parts import FORMAT, digest

STATUSES = ("planned", "generated", "observed", "measured", "complete")
_CHECKSUM = re.compile(r"sha256:[0-9a-f]{64}")


def read_record(file: Path) -> dict[str, Any]:
    """Return what a ``run.json`` says, once its checksum is found right.

    A record without a checksum is taken as it is: tables made elsewhere enter by the same door.
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
    sums = {name: value for name, value in meta.items() if _CHECKSUM.fullmatch(str(value))}
    if set(sums) - {"checksum"} or ("checksum" in meta and meta.pop("checksum") != checksum(meta)):
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
    meta.pop(recorded_files.KEY, None)
    return recorded_files.found_record(meta, file.parent)


def no_record(file: Path, reason: str) -> UserError:
    """The line that says why a file is not the record of a run."""
    return UserError(
        f"{file}: expected the record of a run, got a damaged file or another program's ({reason}):"
        " restore it from a copy, or choose another --out"
    )


def record_bytes(meta: Mapping[str, Any], run: Path) -> bytes:
    """The ``run.json`` of a run directory that says this, with a checksum of itself."""
    written = recorded_files.written_record({**meta, recorded_files.KEY: recorded_files.STATED}, run)
    stated = {**written, "checksum": checksum(json.loads(json.dumps(written)))}
    return f"{json.dumps(stated, indent=2, ensure_ascii=False)}\n".encode()


def merged_record(
    before: Mapping[str, Any], after: Mapping[str, Any], there: Mapping[str, Any]
) -> dict[str, Any]:
    """A record with what one process changed since it read it (`before`), and what others have written since.

    The stage that was reached is the later one, where others have gone on meanwhile.
    """
    changed = {name: value for name, value in after.items() if name not in before or before[name] != value}
    others_went_on = there["status"] not in (before.get("status"), after["status"])
    if others_went_on and STATUSES.index(there["status"]) > STATUSES.index(after["status"]):
        changed = {name: value for name, value in changed.items() if name not in ("status", "times")}
    return {
        name: value
        for name, value in {**there, **changed}.items()
        if name in after or name not in before or name in changed
    }


def checksum(meta: Mapping[str, Any]) -> str:
    """The checksum of a record, which stands in it beside the rest."""
    return f"sha256:{digest(json.dumps(meta, sort_keys=True))}"
