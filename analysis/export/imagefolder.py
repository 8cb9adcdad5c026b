"""``imagefolder`` of Hugging Face `datasets`: ``train/`` with the images and ``metadata.jsonl``, a line each.

Objects stand as `datasets` and its users have them: ``objects`` with ``bbox`` (x, y, width and height in pixels),
``categories``, and what else is known of each in lists of the same length
(https://huggingface.co/docs/datasets/image_dataset).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis.export.images import image_parts

if TYPE_CHECKING:
    from collections.abc import Sequence

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
                row = {"file_name": image.write(folder), **image.texts, "objects": objects(image.detections)}
                lines.write(json.dumps(row, ensure_ascii=False) + "\n")


def objects(detections: Sequence[dict[str, Any]]) -> dict[str, list[Any]]:
    """Return the objects of an image as lists of the same length."""
    return {
        "bbox": [[round(side, 3) for side in one["bbox"]] for one in detections],
        **{name: [one[key] for one in detections] for name, key in LISTS.items()},
    }
