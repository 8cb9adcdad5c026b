"""Formats that a run is exported in, a row each, and what cards are told of who evaluates."""

from __future__ import annotations

from dataclasses import dataclass

HUB = "hub"
RELATIONSHIPS = ("first_party", "third_party", "collaborative", "other")  # of who evaluates to the model
NOT_STATED = "not stated"


@dataclass(frozen=True)
class Format:
    """A format.

    Attributes
    ----------
    name : str
        As after ``--to``.
    module : str
        With ``write(run, out)``, which writes a run into a folder that is not there yet.
    summary : str
        What is written, in a few words.
    opens : str
        Python that opens what was written; ``{out}`` stands for the folder.
    images : bool
        Whether it holds those images alone that enter means.
    """

    name: str
    module: str
    summary: str
    opens: str
    images: bool = True


FORMATS = {
    row.name: row
    for row in (
        Format(
            HUB,
            "analysis.export.hub",
            "a dataset of the Hugging Face Hub: images, drawn overlays, prompts, tables, card",
            "datasets.load_dataset('{out}')",
        ),
        Format(
            "coco",
            "analysis.export.coco",
            "COCO: images, objects with masks, prompts as captions",
            "pycocotools.coco.COCO('{out}/annotations/instances.json')",
        ),
        Format(
            "fiftyone",
            "analysis.export.fiftyone",
            "FiftyOne: images and boxes",
            "fiftyone.Dataset.from_dir(dataset_dir='{out}',"
            " dataset_type=fiftyone.types.FiftyOneImageDetectionDataset)",
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
    )
}
