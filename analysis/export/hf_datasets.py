"""Hugging Face `datasets`: ``data/`` with the images for the viewer of the Hub, ``tables/``, the report and a card."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from datasets import Dataset, Features, Image, Value

from analysis.export.card import datasets_card
from analysis.export.images import image_parts
from probes.runs.parts import parquet_bytes

if TYPE_CHECKING:
    from probes.runs.run import Run

_BESIDE = ("triplets.yaml", "report.html")
_TEXT = Value("string")
_OBJECT = {
    **dict.fromkeys(("label", "lemma", "dependency_group"), _TEXT),
    **{"score": Value("float32"), "bbox": [Value("float32")], "area": Value("int32")},
}
COLUMNS = {  # of an image: its type and what it is
    "image": (Image(), "the image"),
    "prompt": (_TEXT, "the prompt it was generated from"),
    "indicator": (_TEXT, "which word stands for the person, by its name in the configuration"),
    "word": (_TEXT, "that word"),
    "triplet": (Value("int32"), "number of the prompt; images of a triplet and seed are compared"),
    "seed": (Value("int64"), "seed of the noise, as configured"),
    "prompt_id": (_TEXT, "name of the prompt"),
    "sample_id": (_TEXT, "name of the image, as in every table"),
    "negative_prompt": (_TEXT, "negative prompt"),
    "objects": (
        [_OBJECT],
        "what was detected: label, lemma, group, score, box (x, y, width, height), area",
    ),
}


def write(run: Run, out: Path) -> None:
    """Write a run as a dataset into a folder."""
    (out / "data").mkdir(parents=True)
    names = [name for name in COLUMNS if name != "objects" or run.parts("objects")]
    features = Features({name: COLUMNS[name][0] for name in names})
    for number, images in enumerate(image_parts(run)):
        rows = [
            {**image, "image": {"bytes": image["data"], "path": image["file_name"]}}
            | {"objects": [{name: one[name] for name in _OBJECT} for one in image["detections"]]}
            for image in images
        ]
        columns = {name: [row[name] for row in rows] for name in names}
        table = Dataset.from_dict(columns, features=features).data.table
        (out / f"data/images-{number:05d}.parquet").write_bytes(parquet_bytes(table))
    (out / "tables").mkdir()
    beside = [*(f"tables/{name}.parquet" for name in run.tables()), *_BESIDE]
    for name in (name for name in beside if (run.path / name).exists()):
        shutil.copyfile(run.path / name, out / name)
    card = datasets_card(run, {name: COLUMNS[name][1] for name in names})
    (out / "README.md").write_text(card, encoding="utf-8")
