"""Export of a run in a format of `analysis.export.registry`."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from analysis.export.images import left_out_line
from analysis.export.registry import FORMATS
from probes.errors import UserError
from probes.runs.missing import open_run
from probes.runs.parts import disk_error, temporary_path


@dataclass(frozen=True)
class Export:
    """What was written.

    Attributes
    ----------
    place : str
        The folder.
    opens : str
        Python that opens it.
    note : str
        What was left out, and why; empty where nothing was.
    """

    place: str
    opens: str
    note: str = ""


def export_run(run_path: str | Path, to: str, out: str | Path | None = None) -> Export:
    """Write a run, or what is there of an unfinished one, in a format of `FORMATS`, by default into ``<run>-<to>``."""
    row = FORMATS.get(to)
    if row is None:
        raise UserError(f"--to: expected one of {', '.join(FORMATS)}, got {to!r}")
    run = open_run(run_path)
    write = import_module(row.module).write
    note = left_out_line(run) if row.images else ""
    with _folder(Path(out) if out else Path(f"{run.path.name}-{to}")) as (folder, final):
        write(run, folder)
    return Export(str(final), row.opens.format(out=final.as_posix()), note)


@contextmanager
def _folder(out: Path) -> Iterator[tuple[Path, Path]]:
    """A folder to write, and the one that it becomes: whole or not at all."""
    try:
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise UserError(
                f"{out}: expected a new or empty folder, got one that is not: choose another --out"
            )
        out.parent.mkdir(parents=True, exist_ok=True)
        beside = temporary_path(out)
        try:
            yield beside, out
            if out.exists():
                out.rmdir()
            os.replace(beside, out)
        finally:
            shutil.rmtree(beside, ignore_errors=True)
    except OSError as error:
        raise disk_error(Path(error.filename or out), error) from None
