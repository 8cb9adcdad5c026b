"""Export of a run in a format of `analysis.export.registry`."""

from __future__ import annotations

import os
import shutil
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from analysis.export.images import left_out_line
from analysis.export.registry import FORMATS
from probes.errors import UserError
from probes.runs.missing import open_run
from probes.runs.parts import disk_error, temporary_path


class Export(NamedTuple):
    """What was written: the folder, Python that opens it, and what was left out and why (empty where nothing was)."""

    place: str
    opens: str
    note: str = ""


def export_run(run_path: str | Path, to: str, out: str | Path | None = None) -> Export:
    """Write a run, or what is there of an unfinished one, in a format of `FORMATS`, by default into ``<run>-<to>``.

    The folder is new or empty before, and is written whole or not at all.
    """
    row = FORMATS.get(to)
    if row is None:
        raise UserError(f"--to: expected one of {', '.join(FORMATS)}, got {to!r}")
    run = open_run(run_path)
    note = left_out_line(run) if row.images else ""
    folder = Path(out) if out else Path(f"{run.path.name}-{to}")
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise UserError(
                f"{folder}: expected a new or empty folder, got one that is not: choose another --out"
            )
        folder.parent.mkdir(parents=True, exist_ok=True)
        beside = temporary_path(folder)
        try:
            import_module(row.module).write(run, beside)
            if folder.exists():
                folder.rmdir()
            os.replace(beside, folder)
        finally:
            shutil.rmtree(beside, ignore_errors=True)
    except OSError as error:
        raise disk_error(Path(error.filename or folder), error) from None
    return Export(str(folder), row.opens.format(out=folder.as_posix()), note)
