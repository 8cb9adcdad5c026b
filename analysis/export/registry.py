"""Formats that a run is exported in, a row each."""

from __future__ import annotations

from typing import NamedTuple


class Format(NamedTuple):
    """A format: its name after ``--to``, and its module with ``write(run, out)`` into a folder that it makes."""

    name: str
    module: str
    summary: str
    opens: str  # Python that opens what was written; ``{out}`` stands for the folder
    images: bool = True  # whether it holds those images alone that enter means


_ROWS = (
    Format(
        "datasets",
        "analysis.export.hf_datasets",
        "a dataset of Hugging Face `datasets`: images, prompts, objects, tables, card",
        "datasets.load_dataset('{out}')",
    ),
    Format(
        "coco",
        "analysis.export.coco",
        "COCO: images, objects with masks, prompts as captions",
        "pycocotools.coco.COCO('{out}/annotations/instances.json')",
    ),
    Format(
        "imagefolder",
        "analysis.export.imagefolder",
        "a folder of images with metadata.jsonl, as `datasets` reads it",
        "datasets.load_dataset('imagefolder', data_dir='{out}')",
    ),
    Format(
        "csv",
        "analysis.export.csv_tables",
        "every table, the prompts and the detections as CSV",
        "pandas.read_csv('{out}/images.csv')",
        images=False,
    ),
    Format(
        "card",
        "analysis.export.card",
        "what a finished run says of its model, for the model's card",
        "huggingface_hub.ModelCard.load('{out}/README.md')",
        images=False,
    ),
)
FORMATS = {row.name: row for row in _ROWS}
