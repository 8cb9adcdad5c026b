"""``imagefolder`` of Hugging Face `datasets`: ``train/`` with the images and ``metadata.jsonl``, a line each.

Objects stand as `datasets` and its users have them: ``objects`` with ``bbox`` (x, y, width and height in pixels),
``categories``, and what else is known of each in lists of the same length
(https://huggingface.co/docs/datasets/image_dataset).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.export.images import TEXTS, image_parts

if TYPE_CHECKING:
    from probes.runs.run import Run

LISTS = {  # of what is known of the objects beside their boxes
    "categories": "label",
    "lemmas": "lemma",
    "dependency_groups": "dependency_group",
    "scores": "score",
    "areas": "area",
}


def write(run: Run, out: Path) -> None:
    """Write a run as an image folder."""
    folder = out / "train"
    folder.mkdir(parents=True)
    with open(folder / "metadata.jsonl", "w", encoding="utf-8") as lines:
        for part in image_parts(run):
            for image in part:
                (folder / image["file_name"]).write_bytes(image["data"])
                found = image["detections"]
                objects = {"bbox": [[round(side, 3) for side in one["bbox"]] for one in found]}
                objects |= {name: [one[key] for one in found] for name, key in LISTS.items()}
                row = {name: image[name] for name in ("file_name", *TEXTS)} | {"objects": objects}
                lines.write(json.dumps(row, ensure_ascii=False) + "\n")
