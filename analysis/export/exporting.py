"""Runs in formats of other programs."""

from __future__ import annotations

import os
import shutil
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from probes.errors import UserError, missing_package


class Format(NamedTuple):
    """A format, its module in this folder with ``write(run, out)`` into a folder that it makes."""

    module: str
    summary: str
    opens: str  # Python that opens what was written; ``{out}`` stands for the folder
    images: bool = True  # whether it holds those images alone that enter means


FORMATS = {  # by their names after ``--to``
    "datasets": Format(
        "hf_datasets",
        "a dataset of Hugging Face `datasets`: images, prompts, objects, tables, card",
        "datasets.load_dataset('{out}')",
    ),
    "coco": Format(
        "coco",
        "COCO: images, objects with masks, prompts as captions",
        "pycocotools.coco.COCO('{out}/annotations/instances.json')",
    ),
    "imagefolder": Format(
        "imagefolder",
        "a folder of images with metadata.jsonl, as `datasets` reads it",
        "datasets.load_dataset('imagefolder', data_dir='{out}')",
    ),
    "csv": Format(
        "csv_tables",
        "every table, the prompts and the detections as CSV",
        "pandas.read_csv('{out}/images.csv')",
        images=False,
    ),
    "card": Format(
        "card",
        "what a finished run says of its model, for the model's card",
        "huggingface_hub.ModelCard.load('{out}/README.md')",
        images=False,
    ),
}


class Export(NamedTuple):
    """What was written: the folder, Python that opens it, and what was left out and why (empty where nothing was)."""

    place: str
    opens: str
    note: str = ""


def export_run(run_path: str | Path, to: str, out: str | Path | None = None) -> Export:
    """Write a run, or what is there of an unfinished one, in a format of `FORMATS`, by default into ``<run>-<to>``.

    The folder is new or empty before, and is written whole or not at all.
    """
    from analysis.export.images import left_out_line  # not above: the help of the command needs no pandas
    from probes.runs.missing import open_run
    from probes.runs.parts import disk_error, temporary_path

    row = FORMATS.get(to)
    if row is None:
        raise UserError(f"--to: expected one of {', '.join(FORMATS)}, got {to!r}")
    if to == "datasets" and find_spec("datasets") is None:
        raise missing_package("--to datasets", "datasets", "data")
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
            import_module(f"analysis.export.{row.module}").write(run, beside)
            if folder.exists():
                folder.rmdir()
            os.replace(beside, folder)
        finally:
            shutil.rmtree(beside, ignore_errors=True)
    except OSError as error:
        raise disk_error(Path(error.filename or folder), error) from None
    return Export(str(folder), row.opens.format(out=folder.as_posix()), note)
